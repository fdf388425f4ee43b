package reloadgrpc_test

// bench_test.go measures what following costs in a handshake: next to nothing of it.
//
//	go test -run '^$' -bench . ./reloadgrpc

import (
	"crypto/tls"
	"net"
	"testing"

	"google.golang.org/grpc/credentials"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadgrpc"
	"github.com/seed45259946/reload/reloadtest"
)

// BenchmarkHandshake is a mutual one over a pipe, both sides together.
func BenchmarkHandshake(b *testing.B) {
	ca := reloadtest.NewCA(reloadtest.Options{})
	k := ca.Issue(reloadtest.Options{})
	live, err := reload.BundleFromPEM(k.CertPEM, k.KeyPEM, ca.PEM())
	if err != nil {
		b.Fatal(err)
	}
	store := reload.NewStore()
	store.Store(live)
	fixed := &tls.Config{
		Certificates: []tls.Certificate{live.Cert}, RootCAs: live.RootCAs,
		ClientCAs: live.ClientCAs, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	b.Run("credentials.NewTLS", func(b *testing.B) {
		benchmark(b, credentials.NewTLS(fixed), credentials.NewTLS(fixed))
	})
	b.Run("reloadgrpc", func(b *testing.B) {
		benchmark(b, reloadgrpc.NewServerCredentials(store, mutual()), reloadgrpc.NewClientCredentials(store, nil))
	})
	b.Run("reloadgrpc.Drain", func(b *testing.B) {
		benchmark(b, reloadgrpc.NewServerCredentials(store, mutual(), reloadgrpc.Drain()),
			reloadgrpc.NewClientCredentials(store, nil, reloadgrpc.Drain()))
	})
}

// benchmark connects server and client.
func benchmark(b *testing.B, server, client credentials.TransportCredentials) {
	b.ReportAllocs()
	for b.Loop() {
		here, there := net.Pipe()
		served := make(chan error, 1)
		go func() {
			_, _, err := server.ServerHandshake(there)
			served <- err
		}()
		_, _, err := client.ClientHandshake(b.Context(), "localhost", here)
		if err == nil {
			err = <-served
		}
		if err != nil {
			b.Fatal(err)
		}
		here.Close()
		there.Close()
	}
}
