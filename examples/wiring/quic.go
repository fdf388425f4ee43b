package wiring

// quic.go is for QUIC and HTTP/3.

import (
	"context"
	"crypto/tls"
	"net/http"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/seed45259946/reload"
)

// QUICServer returns a listener. NextProtos of base must not be empty.
func QUICServer(r *reload.Reloader, base *tls.Config, addr string) (*quic.Listener, error) {
	return quic.ListenAddr(addr, r.ServerConfig(base), nil)
}

// QUICClient dials. NextProtos of base must not be empty.
func QUICClient(ctx context.Context, r *reload.Reloader, base *tls.Config, addr string) (*quic.Conn, error) {
	return quic.DialAddr(ctx, addr, r.ClientConfig(base), nil)
}

// HTTP3Server returns a server to be started with ListenAndServe.
func HTTP3Server(r *reload.Reloader, base *tls.Config, handler http.Handler) *http3.Server {
	return &http3.Server{Handler: r.Drain(handler), TLSConfig: http3.ConfigureTLSConfig(r.ServerConfig(base))}
}

// HTTP3Client returns a transport that asks for a config with each dial.
func HTTP3Client(r *reload.Reloader) *http3.Transport {
	return &http3.Transport{
		Dial: func(ctx context.Context, addr string, base *tls.Config, config *quic.Config) (*quic.Conn, error) {
			return quic.DialAddrEarly(ctx, addr, r.ClientConfig(base), config)
		},
	}
}
