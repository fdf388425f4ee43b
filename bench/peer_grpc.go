package main

// peer_grpc.go is google.golang.org/grpc/security/advancedtls with the provider of certprovider/pemfile. It looks when its
// time has come, once an hour unless asked for more, and is asked here for a look every second. It follows the CA file too.

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/credentials/tls/certprovider/pemfile"
	"google.golang.org/grpc/security/advancedtls"

	"github.com/seed45259946/reload"
)

var advanced = peer{
	name:  "advancedtls",
	looks: time.Second,
	start: func(files reload.Paths, mutual bool) (*server, error) {
		provider, err := pemfile.NewProvider(pemfile.Options{
			CertFile: files.Cert, KeyFile: files.Key, RootFile: files.CA, RefreshDuration: time.Second,
		})
		if err != nil {
			return nil, err
		}
		options := &advancedtls.Options{
			IdentityOptions:   advancedtls.IdentityCertificateOptions{IdentityProvider: provider},
			RequireClientCert: mutual,
		}
		if mutual {
			options.RootOptions = advancedtls.RootCertificateOptions{RootProvider: provider}
			options.VerificationType = advancedtls.CertVerification
		}
		credentials, err := advancedtls.NewServerCreds(options)
		if err != nil {
			provider.Close()
			return nil, err
		}
		ctx := context.Background()
		s := &server{
			get: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				material, err := provider.KeyMaterial(ctx)
				if err != nil || len(material.Certs) == 0 {
					return nil, errors.Join(err, errors.ErrUnsupported)
				}
				return &material.Certs[0], nil
			},
			accept: func(conn net.Conn) (net.Conn, error) {
				secure, _, err := credentials.ServerHandshake(conn)
				return secure, err
			},
			stop: provider.Close,
		}
		_, err = s.get(nil) // it is there when this returns
		return s, err
	},
}
