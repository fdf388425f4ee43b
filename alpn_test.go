package reload_test

// alpn_test.go compares the protocols that HTTP servers speak under our configs with those under a stock one.

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("An HTTP server", func() {
	var (
		ca    *reloadtest.CA
		store *reload.Store
	)
	BeforeEach(func() {
		ca = reloadtest.NewCA(reloadtest.Options{})
		store = reload.NewStore()
		store.Store(generation(ca, ca))
	})

	// Each makes a config for a server with some base.
	configs := map[string]func(base *tls.Config) *tls.Config{
		"ServerConfig": func(base *tls.Config) *tls.Config { return store.ServerConfig(base) },
		"ServerConfig verifying clients": func(base *tls.Config) *tls.Config {
			base.ClientAuth = tls.RequireAndVerifyClientCert
			return store.ServerConfig(base)
		},
		"ServerConfig with a GetConfigForClient of the user's": func(base *tls.Config) *tls.Config {
			base.ClientAuth = tls.VerifyClientCertIfGiven
			base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }
			return store.ServerConfig(base)
		},
		"ConfigureServer verifying clients": func(base *tls.Config) *tls.Config {
			store.ConfigureServer(base)
			base.ClientAuth = tls.RequireAndVerifyClientCert
			return base
		},
	}
	var http1, http2 http.Protocols
	http1.SetHTTP1(true)
	http2.SetHTTP2(true)
	clients := map[string]func() *http.Transport{
		"HTTP/2 and 1": func() *http.Transport { return &http.Transport{ForceAttemptHTTP2: true} },
		"HTTP/1":       func() *http.Transport { return &http.Transport{Protocols: &http1} },
		"HTTP/2":       func() *http.Transport { return &http.Transport{Protocols: &http2} },
	}
	ways := map[string]func(*http.Server, net.Listener) error{
		"ServeTLS": func(s *http.Server, l net.Listener) error { return s.ServeTLS(l, "", "") },
		"Serve":    func(s *http.Server, l net.Listener) error { return s.Serve(tls.NewListener(l, s.TLSConfig)) },
		"Serve that knows no config": func(s *http.Server, l net.Listener) error {
			cfg := s.TLSConfig
			s.TLSConfig = nil
			return s.Serve(tls.NewListener(l, cfg))
		},
	}
	// speak returns what each client and a server speak with each other.
	speak := func(ctx context.Context, server *http.Server, serve func(*http.Server, net.Listener) error) map[string]string {
		spoken := map[string]string{}
		listening(server, serve, func(addr string) {
			for name, transport := range clients {
				spoken[name] = spokenBy(ctx, transport(), visitorOf(ca, ca.Issue(reloadtest.Options{})), addr)
			}
			rotated := generation(ca, ca)
			store.Store(rotated)
			for name, transport := range clients {
				Expect(spokenBy(ctx, transport(), visitorOf(ca, ca.Issue(reloadtest.Options{})), addr)).To(Equal(spoken[name]), "rotated")
			}
		})
		return spoken
	}

	for way, serve := range ways {
		DescribeTable("speaks with every client what it would speak with a stock config, by "+way,
			func(ctx SpecContext, server func() *http.Server, protos ...string) {
				stock := server()
				stock.TLSConfig = &tls.Config{Certificates: []tls.Certificate{ca.Issue(reloadtest.Options{}).TLS()}, NextProtos: protos}
				want := speak(ctx, stock, serve)
				for name, config := range configs {
					ours := server()
					ours.TLSConfig = config(&tls.Config{NextProtos: protos})
					Expect(speak(ctx, ours, serve)).To(Equal(want), name)
				}
			},
			Entry("by default", func() *http.Server { return &http.Server{} }),
			Entry("with HTTP/2 switched off", func() *http.Server {
				return &http.Server{TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
			}),
			Entry("with HTTP/1 alone", func() *http.Server { return &http.Server{Protocols: &http1} }),
			Entry("with HTTP/2 alone", func() *http.Server { return &http.Server{Protocols: &http2} }),
			Entry("with its protocols listed", func() *http.Server { return &http.Server{} }, "h2", "http/1.1"),
			Entry("with HTTP/1 listed", func() *http.Server { return &http.Server{} }, "http/1.1"),
		)
	}
})

// listening runs f with the address of a server that answers every request, and ends the server.
func listening(server *http.Server, serve func(*http.Server, net.Listener) error, f func(addr string)) {
	GinkgoHelper()
	if server.Handler == nil {
		server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "here") })
	}
	server.ErrorLog = log.New(io.Discard, "", 0)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	ended := make(chan error, 1)
	go func() { ended <- serve(server, listener) }()
	defer func() {
		GinkgoHelper()
		server.Close()
		Expect(<-ended).To(MatchError(http.ErrServerClosed))
	}()
	f(listener.Addr().String())
}

// spokenBy makes one request and returns the protocol of it and the one agreed on in the handshake, or that it failed.
func spokenBy(ctx context.Context, transport *http.Transport, cfg *tls.Config, addr string) string {
	GinkgoHelper()
	transport.TLSClientConfig = cfg
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(must(http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr, nil)))
	if err != nil {
		return "nothing"
	}
	defer response.Body.Close()
	must(io.ReadAll(response.Body))
	return fmt.Sprintf("%s (%q)", response.Proto, response.TLS.NegotiatedProtocol)
}
