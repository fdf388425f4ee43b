package reload

// hooks.go puts the hooks of a Store on a Reloader too.

import (
	"crypto/tls"
	"net/http"
)

// GetCertificate is [Store.GetCertificate] of the live bundle.
func (r *Reloader) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return r.store.GetCertificate(hello)
}

// GetClientCertificate is [Store.GetClientCertificate] of the live bundle.
func (r *Reloader) GetClientCertificate(req *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return r.store.GetClientCertificate(req)
}

// ServerConfig is [Store.ServerConfig] of the live bundle.
func (r *Reloader) ServerConfig(base *tls.Config) *tls.Config { return r.store.ServerConfig(base) }

// ConfigureServer is [Store.ConfigureServer] of the live bundle.
func (r *Reloader) ConfigureServer(cfg *tls.Config) { r.store.ConfigureServer(cfg) }

// Drain is [Store.Drain] of the live bundle.
func (r *Reloader) Drain(next http.Handler) http.Handler { return r.store.Drain(next) }

// ClientConfig is [Store.ClientConfig] of the live bundle.
func (r *Reloader) ClientConfig(base *tls.Config) *tls.Config { return r.store.ClientConfig(base) }

// LiveClientConfig is [Store.LiveClientConfig] of the live bundle.
func (r *Reloader) LiveClientConfig(base *tls.Config, serverName string) *tls.Config {
	return r.store.LiveClientConfig(base, serverName)
}

// Transport is [Store.Transport] of the live bundle.
func (r *Reloader) Transport(base *http.Transport) (*Transport, error) {
	return r.store.Transport(base)
}
