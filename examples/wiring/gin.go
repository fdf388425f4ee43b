package wiring

// gin.go is for gin.

import (
	"crypto/tls"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seed45259946/reload"
)

// Gin returns a server to be started with ListenAndServeTLS("", "").
func Gin(r *reload.Reloader, base *tls.Config) *http.Server {
	engine := gin.New()
	return &http.Server{Handler: r.Drain(engine), TLSConfig: r.ServerConfig(base)}
}
