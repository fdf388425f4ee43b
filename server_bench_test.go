package reload_test

// server_bench_test.go measures handshakes of a server that follows a Store beside those of one with a static config. A
// figure is client and server together, over loopback.

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

func BenchmarkServerHandshake(b *testing.B) {
	RegisterTestingT(b)
	ca := reloadtest.NewCA(reloadtest.Options{})
	store := reload.NewStore()
	store.Store(generation(ca, ca))
	client := visitorOf(ca, ca.Issue(reloadtest.Options{}))
	for _, auth := range []tls.ClientAuthType{tls.NoClientCert, tls.RequireAndVerifyClientCert} {
		for _, resume := range []bool{false, true} {
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				name := fmt.Sprintf("auth=%v/resume=%v/%s/config=", auth, resume, tls.VersionName(version))
				client := client.Clone()
				client.MaxVersion = version
				if resume {
					client.ClientSessionCache = tls.NewLRUClientSessionCache(0)
				}
				b.Run(name+"static", func(b *testing.B) {
					live := store.Load()
					benchmarkHandshake(b, client, &tls.Config{
						Certificates: []tls.Certificate{live.Cert}, ClientAuth: auth, ClientCAs: live.ClientCAs,
					})
				})
				b.Run(name+"live", func(b *testing.B) {
					benchmarkHandshake(b, client, store.ServerConfig(&tls.Config{ClientAuth: auth}))
				})
			}
		}
	}
}

func benchmarkHandshake(b *testing.B, client, server *tls.Config) {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte{1})
			conn.Close()
		}
	}()
	defer func() {
		listener.Close()
		<-served
	}()
	addr, one := listener.Addr().String(), make([]byte, 1)
	b.ReportAllocs()
	for b.Loop() {
		raw, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		conn := tls.Client(raw, client)
		if _, err := io.ReadFull(conn, one); err != nil {
			b.Fatal(err)
		}
		conn.Close()
	}
}

// What the callback itself costs of such a handshake.
func BenchmarkGetConfigForClient(b *testing.B) {
	RegisterTestingT(b)
	ca := reloadtest.NewCA(reloadtest.Options{})
	store := reload.NewStore()
	store.Store(generation(ca, ca))
	for _, auth := range []tls.ClientAuthType{tls.NoClientCert, tls.RequireAndVerifyClientCert} {
		b.Run(fmt.Sprintf("auth=%v", auth), func(b *testing.B) {
			cfg := store.ServerConfig(&tls.Config{ClientAuth: auth, NextProtos: []string{"h2", "http/1.1"}})
			hello := new(tls.ClientHelloInfo)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := cfg.GetConfigForClient(hello); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What Drain adds to a request on a connection of the live generation.
func BenchmarkDrain(b *testing.B) {
	RegisterTestingT(b)
	ca := reloadtest.NewCA(reloadtest.Options{})
	store := reload.NewStore()
	store.Store(generation(ca, ca))
	handler := store.Drain(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	verified := visit(store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}), visitorOf(ca, ca.Issue(reloadtest.Options{})))
	for name, state := range map[string]*tls.ConnectionState{"plain": {}, "verified": &verified.server} {
		b.Run(name, func(b *testing.B) {
			request, response := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
			request.TLS = state
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					handler.ServeHTTP(response, request)
				}
			})
		})
	}
}
