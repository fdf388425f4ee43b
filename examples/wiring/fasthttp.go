package wiring

// fasthttp.go is for fasthttp.

import (
	"crypto/tls"

	"github.com/valyala/fasthttp"

	"github.com/seed45259946/reload"
)

// FastHTTP returns a server to be started with ListenAndServeTLS(addr, "", "").
func FastHTTP(r *reload.Reloader, base *tls.Config, handler fasthttp.RequestHandler) *fasthttp.Server {
	return &fasthttp.Server{Handler: handler, TLSConfig: r.ServerConfig(base)}
}
