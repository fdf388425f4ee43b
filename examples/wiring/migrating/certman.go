package migrating

// certman.go comes from github.com/dyson/certman.

import (
	"context"
	"crypto/tls"

	"github.com/dyson/certman"

	"github.com/seed45259946/reload"
)

// Certman is the before.
func Certman(cert, key string) (*tls.Config, error) {
	cm, err := certman.New(cert, key)
	if err != nil {
		return nil, err
	}
	if err := cm.Watch(); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: cm.GetCertificate}, nil
}

// CertmanAfter is the after.
func CertmanAfter(ctx context.Context, cert, key string) (*tls.Config, error) {
	keypair, err := reload.NewReloader(reload.Paths{Cert: cert, Key: key}, "https")
	if err != nil {
		return nil, err
	}
	go keypair.Start(ctx)
	return keypair.ServerConfig(nil), nil
}
