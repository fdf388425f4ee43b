package wiring

// nethttp.go is for net/http, and for routers that are an http.Handler: chi here, and gorilla/mux, httprouter and others.

import (
	"crypto/tls"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/seed45259946/reload"
)

// NetHTTP returns a server to be started with ListenAndServeTLS("", "").
func NetHTTP(r *reload.Reloader, base *tls.Config, handler http.Handler) *http.Server {
	return &http.Server{Handler: r.Drain(handler), TLSConfig: r.ServerConfig(base)}
}

// Chi returns a server to be started with ListenAndServeTLS("", "").
func Chi(r *reload.Reloader, base *tls.Config) *http.Server {
	router := chi.NewRouter()
	return &http.Server{Handler: r.Drain(router), TLSConfig: r.ServerConfig(base)}
}

// HTTPClient returns a client whose requests go out under what is live.
func HTTPClient(r *reload.Reloader) (*http.Client, error) {
	transport, err := r.Transport(nil)
	return &http.Client{Transport: transport}, err
}
