package wiring

// nats.go is for NATS: the server, embedded, and the client.

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed45259946/reload"
)

// NATSServer returns a server on a port that the system picks.
func NATSServer(r *reload.Reloader, base *tls.Config) (*server.Server, error) {
	return server.NewServer(&server.Options{
		Host:      "127.0.0.1",
		Port:      server.RANDOM_PORT,
		TLSConfig: r.ServerConfig(base),
		TLS:       true,
	})
}

// NATS connects. The callbacks are called for each connection.
func NATS(r *reload.Reloader, url string, more ...nats.Option) (*nats.Conn, error) {
	live := nats.ClientTLSConfig(
		func() (tls.Certificate, error) { return r.Bundle().Cert, nil },
		func() (*x509.CertPool, error) { return r.Bundle().RootCAs, nil },
	)
	return nats.Connect(url, append(more, live)...)
}
