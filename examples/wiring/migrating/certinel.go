package migrating

// certinel.go comes from github.com/cloudflare/certinel.

import (
	"context"
	"crypto/tls"

	"github.com/cloudflare/certinel/fswatcher"
	"golang.org/x/sync/errgroup"

	"github.com/seed45259946/reload"
)

// Certinel is the before. Its Start returns ctx's error in the end, and others before.
func Certinel(ctx context.Context, g *errgroup.Group, cert, key string) (*tls.Config, error) {
	sentinel, err := fswatcher.New(cert, key)
	if err != nil {
		return nil, err
	}
	g.Go(func() error { return sentinel.Start(ctx) })
	return &tls.Config{GetCertificate: sentinel.GetCertificate}, nil
}

// CertinelAfter is the after.
func CertinelAfter(ctx context.Context, g *errgroup.Group, cert, key string) (*tls.Config, error) {
	keypair, err := reload.NewReloader(reload.Paths{Cert: cert, Key: key}, "https")
	if err != nil {
		return nil, err
	}
	g.Go(func() error { return keypair.Start(ctx) })
	return keypair.ServerConfig(nil), nil
}
