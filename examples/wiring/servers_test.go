package wiring_test

// servers_test.go proves the servers of the table: each shows the live leaf, and admits only clients of the live CA file.

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v4"
	mochi "github.com/mochi-mqtt/server/v2"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/tidwall/redcon"
	"github.com/valyala/fasthttp"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/examples/wiring"
	"github.com/seed45259946/reload/reloadtest"
)

// server starts one for as long as the spec runs, and returns where.
type server func(r *reload.Reloader, base *tls.Config) net.Addr

var _ = Describe("a server", func() {
	DescribeTable("shows the live leaf, and admits clients of the live CA file only",
		func(ctx SpecContext, start server, visit knock, protocol string, offers ...string) {
			o := newRotation()
			addr := start(o.Reloader, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: offers})
			for i := range o.cas {
				client := func(identity ...tls.Certificate) *tls.Config {
					c := &tls.Config{RootCAs: o.cas[i].Pool(), ServerName: "localhost", NextProtos: offers}
					c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
						return &append(identity, tls.Certificate{})[0], nil // whatever CAs the server names
					}
					return c
				}
				spoken, state, err := visit(ctx, addr, client(o.cas[i].Issue(reloadtest.Options{}).TLS()))
				Expect(err).NotTo(HaveOccurred())
				Expect(spoken).To(Equal(protocol))
				Expect(fingerprint(state)).To(Equal(o.leaves[i].Fingerprint()))

				_, _, err = visit(ctx, addr, client(o.cas[1-i].Issue(reloadtest.Options{}).TLS()))
				Expect(err).To(HaveOccurred())
				_, _, err = visit(ctx, addr, client())
				Expect(err).To(HaveOccurred())
				if i == 0 {
					o.rotate(ctx)
				}
			}
		},
		Entry("net/http", SpecTimeout(limit), server(netHTTP), knock(overHTTP), "HTTP/2.0"),
		Entry("chi", SpecTimeout(limit), server(chi), knock(overHTTP), "HTTP/2.0"),
		Entry("gin", SpecTimeout(limit), server(gin), knock(overHTTP), "HTTP/2.0"),
		Entry("echo v4", SpecTimeout(limit), server(echo4), knock(overHTTP), "HTTP/1.1"),
		Entry("echo v4 that offers HTTP/2", SpecTimeout(limit), server(echo4), knock(overHTTP), "HTTP/2.0", "h2", "http/1.1"),
		Entry("echo v5", SpecTimeout(limit), server(echo5), knock(overHTTP), "HTTP/1.1"),
		Entry("echo v5 that offers HTTP/2", SpecTimeout(limit), server(echo5), knock(overHTTP), "HTTP/2.0", "h2", "http/1.1"),
		Entry("fiber", SpecTimeout(limit), server(fiber3), knock(overHTTP), "HTTP/1.1"),
		Entry("fasthttp", SpecTimeout(limit), server(fast), knock(overHTTP), "HTTP/1.1"),
		Entry("gRPC", SpecTimeout(limit), server(grpcServer), knock(overHTTP), "HTTP/2.0"),
		Entry("HTTP/3", SpecTimeout(limit), server(http3Server), knock(overHTTP3), "HTTP/3.0"),
		Entry("QUIC", SpecTimeout(limit), server(quicServer), knock(overQUIC), "mine", "mine"),
		Entry("nats-server", SpecTimeout(limit), server(natsServer), knock(overNATS), ""),
		Entry("mochi mqtt", SpecTimeout(limit), server(mqttServer), knock(overTLS), ""),
		Entry("redcon", SpecTimeout(limit), server(redisServer), knock(overTLS), ""),
	)

	DescribeTable("with Drain shuts out a client whose CA was withdrawn, on the connection that it has",
		func(ctx SpecContext, start server, offers ...string) {
			o := newRotation()
			addr := start(o.Reloader, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: offers})
			c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
				RootCAs: o.cas[0].Pool(), Certificates: []tls.Certificate{o.cas[0].Issue(reloadtest.Options{}).TLS()},
			}}}
			DeferCleanup(c.CloseIdleConnections)
			for i, status := range []int{http.StatusNotFound, http.StatusForbidden} {
				response, err := get(ctx, c, addr)
				Expect(err).NotTo(HaveOccurred())
				Expect(response.StatusCode).To(Equal(status))
				if i == 0 {
					o.rotate(ctx)
				}
			}
		},
		Entry("net/http", SpecTimeout(limit), server(netHTTP)),
		Entry("chi", SpecTimeout(limit), server(chi)),
		Entry("gin", SpecTimeout(limit), server(gin)),
		Entry("echo v4", SpecTimeout(limit), server(echo4)),
		Entry("echo v5", SpecTimeout(limit), server(echo5)),
	)
})

func netHTTP(r *reload.Reloader, base *tls.Config) net.Addr {
	return serve(wiring.NetHTTP(r, base, http.NotFoundHandler()))
}

func chi(r *reload.Reloader, base *tls.Config) net.Addr { return serve(wiring.Chi(r, base)) }

func gin(r *reload.Reloader, base *tls.Config) net.Addr { return serve(wiring.Gin(r, base)) }

func serve(s *http.Server) net.Addr {
	l := listen()
	s.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	go s.ServeTLS(l, "", "")
	DeferCleanup(s.Close)
	return l.Addr()
}

func echo4(r *reload.Reloader, base *tls.Config) net.Addr {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.StdLogger.SetOutput(io.Discard)
	go wiring.Echo4(r, base, e, "127.0.0.1:0")
	DeferCleanup(e.Close)
	Eventually(e.TLSListenerAddr).ShouldNot(BeNil())
	return e.TLSListenerAddr()
}

func echo5(r *reload.Reloader, base *tls.Config) net.Addr {
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan net.Addr, 1), make(chan struct{})
	go func() {
		defer close(done)
		_ = wiring.Echo5(ctx, r, base, "127.0.0.1:0", func(a net.Addr) { ready <- a })
	}()
	DeferCleanup(func() { cancel(); <-done })
	return <-ready
}

func fiber3(r *reload.Reloader, base *tls.Config) net.Addr {
	app, ready := fiber.New(), make(chan net.Addr, 1)
	go wiring.Fiber(r, base, app, "127.0.0.1:0", func(a net.Addr) { ready <- a })
	DeferCleanup(app.ShutdownWithContext)
	return <-ready
}

func fast(r *reload.Reloader, base *tls.Config) net.Addr {
	s, l := wiring.FastHTTP(r, base, func(c *fasthttp.RequestCtx) { c.NotFound() }), listen()
	s.Logger = slog.NewLogLogger(slog.DiscardHandler, 0)
	go s.ServeTLS(l, "", "")
	DeferCleanup(s.ShutdownWithContext)
	return l.Addr()
}

func grpcServer(r *reload.Reloader, base *tls.Config) net.Addr {
	s, l := wiring.GRPCServer(r, base), listen()
	go s.Serve(l)
	DeferCleanup(s.Stop)
	return l.Addr()
}

func http3Server(r *reload.Reloader, base *tls.Config) net.Addr {
	s := wiring.HTTP3Server(r, base, http.NotFoundHandler())
	c := must(net.ListenPacket("udp", "127.0.0.1:0"))
	go s.Serve(c)
	DeferCleanup(c.Close)
	DeferCleanup(s.Close)
	return c.LocalAddr()
}

func quicServer(r *reload.Reloader, base *tls.Config) net.Addr {
	l := must(wiring.QUICServer(r, base, "127.0.0.1:0"))
	go func() {
		for {
			c, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			_ = c.CloseWithError(0, "admitted")
		}
	}()
	DeferCleanup(l.Close)
	return l.Addr()
}

func natsServer(r *reload.Reloader, base *tls.Config) net.Addr {
	s := must(wiring.NATSServer(r, base))
	s.Start()
	DeferCleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	Expect(s.ReadyForConnections(limit)).To(BeTrue())
	return s.Addr()
}

func mqttServer(r *reload.Reloader, base *tls.Config) net.Addr {
	s := mochi.New(&mochi.Options{Logger: slog.New(slog.DiscardHandler)})
	l := must(wiring.Mochi(r, base, s, "127.0.0.1:0"))
	Expect(s.Serve()).To(Succeed())
	DeferCleanup(s.Close)
	return must(net.ResolveTCPAddr("tcp", l.Address()))
}

func redisServer(r *reload.Reloader, base *tls.Config) net.Addr {
	s, ready := wiring.Redcon(r, base, "127.0.0.1:0", func(redcon.Conn, redcon.Command) {}), make(chan error, 1)
	go s.ListenServeAndSignal(ready)
	Expect(<-ready).To(Succeed())
	DeferCleanup(s.Close)
	return s.Addr()
}

func listen() net.Listener { return must(net.Listen("tcp", "127.0.0.1:0")) }
