// Package migrating has what docs/migrating.md quotes: what a program did before, and what it does with reload.
package migrating

// files.go comes from crypto/tls alone.

import (
	"context"
	"crypto/tls"
	"net/http"

	"github.com/seed45259946/reload"
)

// LoadedOnce serves a keypair until somebody restarts the program.
func LoadedOnce(cert, key string) (*http.Server, error) {
	keypair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &http.Server{TLSConfig: &tls.Config{Certificates: []tls.Certificate{keypair}}}, nil
}

// Reloaded follows it.
func Reloaded(ctx context.Context, cert, key string) (*http.Server, error) {
	keypair, err := reload.NewReloader(reload.Paths{Cert: cert, Key: key}, "https")
	if err != nil {
		return nil, err
	}
	go keypair.Start(ctx)
	return &http.Server{TLSConfig: keypair.ServerConfig(nil)}, nil
}
