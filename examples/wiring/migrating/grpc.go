package migrating

// grpc.go comes from gRPC's own reloading: the pemfile provider, and the credentials of advancedtls that take it.

import (
	"context"
	"crypto/tls"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/tls/certprovider/pemfile"
	"google.golang.org/grpc/security/advancedtls"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadgrpc"
)

// PEMFile is the before, of a server. It runs until Close of the provider, which nobody calls here.
func PEMFile(dir string) (credentials.TransportCredentials, error) {
	files, err := pemfile.NewProvider(pemfile.Options{
		CertFile: dir + "/tls.crt", KeyFile: dir + "/tls.key", RootFile: dir + "/ca.crt",
		RefreshDuration: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	return advancedtls.NewServerCreds(&advancedtls.Options{
		IdentityOptions:   advancedtls.IdentityCertificateOptions{IdentityProvider: files},
		RootOptions:       advancedtls.RootCertificateOptions{RootProvider: files},
		RequireClientCert: true,
		VerificationType:  advancedtls.CertVerification,
	})
}

// PEMFileAfter is the after, of a server.
func PEMFileAfter(ctx context.Context, dir string) (credentials.TransportCredentials, error) {
	keypair, err := reload.NewReloader(reload.FromDir(dir), "grpc")
	if err != nil {
		return nil, err
	}
	go keypair.Start(ctx)
	mutual := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}
	return reloadgrpc.NewServerCredentials(keypair, mutual), nil
}
