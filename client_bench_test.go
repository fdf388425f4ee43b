package reload_test

// client_bench_test.go measures what following rotations costs a client, each next to what it replaces, in one run.

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// BenchmarkRoundTrip compares a request through Transport with one through the http.Transport it is made of, on
// connections that stay open.
func BenchmarkRoundTrip(b *testing.B) {
	ca, store := benchmarkStore(b)
	client := store.Load().Cert
	for _, proto := range []string{http1, http2} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(reloadtest.Options{}).TLS()}}
		server.EnableHTTP2 = true
		server.StartTLS()
		b.Cleanup(server.Close)

		static := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{client}},
			Protocols:       protocols(proto),
		}
		b.Cleanup(static.CloseIdleConnections)
		live, err := store.Transport(&http.Transport{Protocols: protocols(proto)})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(live.CloseIdleConnections)
		b.Run(proto+"/static", func(b *testing.B) { benchmarkRequests(b, static, server.URL) })
		b.Run(proto+"/live", func(b *testing.B) { benchmarkRequests(b, live, server.URL) })
	}
}

func benchmarkRequests(b *testing.B, rt http.RoundTripper, url string) {
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
}

// BenchmarkClientHandshake compares full mutual handshakes: a static config, ClientConfig for each, LiveClientConfig.
func BenchmarkClientHandshake(b *testing.B) {
	ca, store := benchmarkStore(b)
	server := &tls.Config{
		Certificates: []tls.Certificate{ca.Issue(reloadtest.Options{}).TLS()},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    ca.Pool(),
	}
	base := &tls.Config{ServerName: "localhost"}
	static := &tls.Config{ServerName: "localhost", RootCAs: ca.Pool(), Certificates: []tls.Certificate{store.Load().Cert}}
	live := store.LiveClientConfig(base, "localhost")
	shakes := func(config func() *tls.Config) func() {
		return func() { succeed(b, handshakeOverPipe(server, config())) }
	}
	reused := func(config *tls.Config) func() *tls.Config { return func() *tls.Config { return config } }
	b.Run("config", func(b *testing.B) {
		compare(b, shakes(reused(static)), shakes(func() *tls.Config { return store.ClientConfig(base) }))
	})
	b.Run("live", func(b *testing.B) {
		compare(b, shakes(reused(static)), shakes(reused(live)))
	})
}

// handshakeOverPipe returns once the server has accepted the client.
func handshakeOverPipe(server, client *tls.Config) error {
	here, there := net.Pipe()
	defer here.Close()
	accepted := make(chan error, 1)
	go func() {
		defer there.Close()
		accepted <- tls.Server(there, server).Handshake()
	}()
	conn := tls.Client(here, client)
	if err := conn.Handshake(); err != nil {
		return err
	}
	go io.Copy(io.Discard, conn) // TLS 1.3 tickets; ends with the connection
	return <-accepted
}

func benchmarkStore(b *testing.B) (*reloadtest.CA, *reload.Store) {
	ca, store := reloadtest.NewCA(reloadtest.Options{}), reload.NewStore()
	leaf := ca.Issue(reloadtest.Options{})
	bundle, err := reload.BundleFromPEM(leaf.CertPEM, leaf.KeyPEM, ca.PEM())
	if err != nil {
		b.Fatal(err)
	}
	store.Store(bundle)
	return ca, store
}
