package reload_test

// server_bench_test.go measures handshakes of a server that follows a Store beside those of one with a static config. A
// figure is client and server together, over loopback.

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

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
				b.Run(fmt.Sprintf("auth=%v/resume=%v/%s", auth, resume, tls.VersionName(version)), func(b *testing.B) {
					visits := func(server *tls.Config) func() {
						client := client.Clone()
						client.MaxVersion = version
						if resume {
							client.ClientSessionCache = tls.NewLRUClientSessionCache(0)
						}
						return visitsTo(b, server, client)
					}
					live := store.Load()
					compare(b, visits(&tls.Config{
						Certificates: []tls.Certificate{live.Cert}, ClientAuth: auth, ClientCAs: live.ClientCAs,
					}), visits(store.ServerConfig(&tls.Config{ClientAuth: auth})))
				})
			}
		}
	}
}

// visitsTo serves until the end of the benchmark and returns what makes one connection and waits to be let in.
func visitsTo(b *testing.B, server, client *tls.Config) func() {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	succeed(b, err)
	served := make(chan struct{})
	go func() { // ends with listener
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
	b.Cleanup(func() { listener.Close(); <-served })
	one := make([]byte, 1)
	return func() {
		conn, err := tls.Dial("tcp", listener.Addr().String(), client)
		succeed(b, err)
		_, err = io.ReadFull(conn, one)
		succeed(b, err)
		conn.Close()
	}
}

// compare has a static config and a live one take turns, so that what disturbs the one disturbs the other, and reports
// their medians, how many handshakes the live one does in the time of one static, and how many allocations more it makes.
func compare(b *testing.B, static, live func()) {
	static() // what is resumed, and what is made once
	live()
	times := map[string][]time.Duration{}
	timed := func(name string, handshake func()) {
		began := time.Now()
		handshake()
		times[name] = append(times[name], time.Since(began))
	}
	for first := true; b.Loop(); first = !first {
		if first {
			timed("static", static)
		}
		timed("live", live)
		if !first {
			timed("static", static)
		}
	}
	slices.Sort(times["static"])
	slices.Sort(times["live"])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(percentile(times["static"], 50), "static-µs")
	b.ReportMetric(percentile(times["live"], 50), "live-µs")
	b.ReportMetric(percentile(times["static"], 50)/percentile(times["live"], 50), "ratio")
	b.ReportMetric(testing.AllocsPerRun(100, live)-testing.AllocsPerRun(100, static), "more-allocs")
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
