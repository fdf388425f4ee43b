package wiring

// echo4.go is for echo v4.

import (
	"crypto/tls"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/seed45259946/reload"
)

// Echo4 serves until e.Close.
func Echo4(r *reload.Reloader, base *tls.Config, e *echo.Echo, addr string) error {
	e.Use(echo.WrapMiddleware(r.Drain))
	return e.StartServer(&http.Server{Addr: addr, TLSConfig: r.ServerConfig(base)})
}
