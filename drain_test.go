package reload_test

// drain_test.go keeps connections open across rotations, and asks whether they are closed when they must be.

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("Drain", func() {
	var (
		serverCA, clientCA *reloadtest.CA
		store              *reload.Store
		handler            http.Handler
		base               *tls.Config
		addr               string // of a server that drains, with base and handler
	)
	BeforeEach(func() {
		serverCA = reloadtest.NewCA(reloadtest.Options{Name: "server CA"})
		clientCA = reloadtest.NewCA(reloadtest.Options{Name: "client CA"})
		store = reload.NewStore()
		store.Store(generation(serverCA, clientCA))
		handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		base = new(tls.Config)
	})
	serve := func() {
		GinkgoHelper()
		server := &http.Server{Handler: store.Drain(handler), TLSConfig: store.ServerConfig(base)}
		addr = started(server, func(l net.Listener) error { return server.ServeTLS(l, "", "") })
	}
	rotate := func(cas ...*reloadtest.CA) *reload.Bundle {
		GinkgoHelper()
		b := generation(serverCA, cas...)
		store.Store(b)
		return b
	}
	insider := func(proto string) *caller {
		return newCaller(proto, visitorOf(serverCA, clientCA.Issue(reloadtest.Options{})))
	}

	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		Describe("over "+proto, func() {
			It("has peers on connections of an older generation connect anew", func(ctx SpecContext) {
				serve()
				client := insider(proto)
				first := store.Load().Fingerprint
				Expect(client.call(ctx, addr)).To(Equal(call{Proto: proto, Status: 200, Leaf: first}))
				Expect(client.call(ctx, addr)).To(Equal(call{Proto: proto, Status: 200, Leaf: first, Reused: true}))
				for range 3 {
					old, b := store.Load(), rotate(clientCA)
					Expect(client.call(ctx, addr)).To(Equal(call{Proto: proto, Status: 200, Leaf: old.Fingerprint, Reused: true}))
					// The GOAWAY may arrive after the response.
					Eventually(ctx, client.call).WithArguments(ctx, addr).Should(HaveField("Leaf", b.Fingerprint))
					Expect(client.call(ctx, addr)).To(Equal(call{Proto: proto, Status: 200, Leaf: b.Fingerprint, Reused: true}))
				}
			}, SpecTimeout(time.Minute))

			It("loses no request", func(ctx SpecContext) {
				serve()
				var wg sync.WaitGroup
				var failed, done atomic.Int32
				client := insider(proto)
				for range 4 {
					wg.Go(func() {
						defer done.Add(1)
						for range 50 {
							if client.call(ctx, addr).Status != 200 {
								failed.Add(1)
							}
						}
					})
				}
				for done.Load() < 4 {
					b := rotate(clientCA)
					Eventually(ctx, insider(proto).call).WithArguments(ctx, addr).Should(HaveField("Leaf", b.Fingerprint))
				}
				wg.Wait()
				Expect(failed.Load()).To(BeZero())
				Eventually(ctx, client.call).WithArguments(ctx, addr).Should(HaveField("Leaf", store.Load().Fingerprint))
			}, SpecTimeout(time.Minute))

			It("knows the generation of a connection whose first request comes after the rotation", func(ctx SpecContext) {
				serve()
				client := insider(proto)
				client.connect(ctx, addr)
				old, b := store.Load(), rotate(clientCA)
				Expect(client.call(ctx, addr)).To(Equal(call{Proto: proto, Status: 200, Leaf: old.Fingerprint}))
				Eventually(ctx, client.call).WithArguments(ctx, addr).Should(HaveField("Leaf", b.Fingerprint))
			}, SpecTimeout(time.Minute))

			It("goes by the first request where the handshake was not ours", func(ctx SpecContext) {
				server := &http.Server{Handler: store.Drain(handler), TLSConfig: &tls.Config{GetCertificate: store.GetCertificate}}
				addr = started(server, func(l net.Listener) error { return server.ServeTLS(l, "", "") })
				client := insider(proto)
				client.connect(ctx, addr)
				old := store.Load()
				rotate(clientCA)
				for range 3 {
					Expect(client.call(ctx, addr).Leaf).To(Equal(old.Fingerprint))
				}
				b := rotate(clientCA)
				Eventually(ctx, client.call).WithArguments(ctx, addr).Should(HaveField("Leaf", b.Fingerprint))
			}, SpecTimeout(time.Minute))

			It("keeps connections open that no rotation has made old", func(ctx SpecContext) {
				serve()
				client := insider(proto)
				client.call(ctx, addr)
				live := store.Load()
				store.Store(live)
				Expect(client.call(ctx, addr)).To(HaveField("Reused", true))
				rotate(clientCA)
				store.Store(live)
				Expect(client.call(ctx, addr)).To(HaveField("Reused", true))
				store.Store(nil)
				Expect(client.call(ctx, addr)).To(HaveField("Reused", true))
				Expect(client.call(ctx, addr)).To(HaveField("Reused", true))
			}, SpecTimeout(time.Minute))

			It("takes handlers that are wrapped one by one for one", func(ctx SpecContext) {
				mux := http.NewServeMux()
				mux.Handle("/a", store.Drain(handler))
				mux.Handle("/b", store.Drain(handler))
				server := &http.Server{Handler: mux, TLSConfig: &tls.Config{GetCertificate: store.GetCertificate}}
				addr = started(server, func(l net.Listener) error { return server.ServeTLS(l, "", "") })
				client := insider(proto)
				client.call(ctx, addr+"/a")
				b := rotate(clientCA)
				client.call(ctx, addr+"/b")
				Eventually(ctx, client.call).WithArguments(ctx, addr+"/b").Should(HaveField("Leaf", b.Fingerprint))
			}, SpecTimeout(time.Minute))

			When("clients are verified", func() {
				BeforeEach(func() { base.ClientAuth = tls.RequireAndVerifyClientCert })

				It("refuses requests on a connection whose CA was withdrawn, and closes it", func(ctx SpecContext) {
					served := 0
					handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
					serve()
					client := insider(proto)
					Expect(client.call(ctx, addr)).To(HaveField("Status", 200))
					rotate(serverCA)
					Expect(client.call(ctx, addr)).To(And(HaveField("Status", 403), HaveField("Reused", true)))
					Eventually(ctx, client.call).WithArguments(ctx, addr).Should(HaveField("Status", 0))
					Expect(served).To(Equal(1))
				}, SpecTimeout(time.Minute))

				It("refuses the first request of a connection, too", func(ctx SpecContext) {
					serve()
					client := insider(proto)
					client.connect(ctx, addr)
					rotate(serverCA)
					Expect(client.call(ctx, addr)).To(HaveField("Status", 403))
				}, SpecTimeout(time.Minute))

				It("refuses a resumed connection as well as its first", func(ctx SpecContext) {
					serve()
					client := insider(proto)
					client.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
					Expect(client.call(ctx, addr)).To(HaveField("Status", 200))
					client.CloseIdleConnections()
					Expect(client.call(ctx, addr)).To(And(HaveField("Status", 200), HaveField("Resumed", true)))
					rotate(serverCA)
					Expect(client.call(ctx, addr)).To(And(HaveField("Status", 403), HaveField("Resumed", true)))
				}, SpecTimeout(time.Minute))

				It("refuses requests once there is no CA file", func(ctx SpecContext) {
					serve()
					client := insider(proto)
					Expect(client.call(ctx, addr)).To(HaveField("Status", 200))
					rotate()
					Expect(client.call(ctx, addr)).To(HaveField("Status", 403))
				}, SpecTimeout(time.Minute))

				It("serves on where a CA came, was renewed, or came back", func(ctx SpecContext) {
					serve()
					client := insider(proto)
					client.call(ctx, addr)
					for _, cas := range [][]*reloadtest.CA{
						{serverCA, clientCA}, {clientCA.Renew(reloadtest.Options{})}, {clientCA},
					} {
						b := rotate(cas...)
						Expect(client.call(ctx, addr)).To(HaveField("Status", 200))
						Eventually(ctx, client.call).WithArguments(ctx, addr).Should(HaveField("Leaf", b.Fingerprint))
					}
				}, SpecTimeout(time.Minute))

				It("leaves ClientCAs to base where base has them", func(ctx SpecContext) {
					base.ClientCAs = clientCA.Pool()
					serve()
					client := insider(proto)
					client.call(ctx, addr)
					b := rotate(serverCA)
					Expect(client.call(ctx, addr)).To(HaveField("Status", 200))
					Eventually(ctx, client.call).WithArguments(ctx, addr).Should(
						And(HaveField("Leaf", b.Fingerprint), HaveField("Status", 200)))
				}, SpecTimeout(time.Minute))

				It("loses no request to a certificate that expired while its connection was open", func(ctx SpecContext) {
					base.Time = func() time.Time { return time.Now().Add(-3 * time.Hour) }
					serve()
					old := clientCA.Issue(reloadtest.Options{NotBefore: time.Now().Add(-4 * time.Hour), NotAfter: time.Now().Add(-2 * time.Hour)})
					client := newCaller(proto, visitorOf(serverCA, old))
					store.Store(longLived(serverCA, clientCA))
					Expect(client.call(ctx, addr)).To(HaveField("Status", 200))
					store.Store(longLived(serverCA, clientCA, serverCA))
					Expect(client.call(ctx, addr)).To(HaveField("Status", 200))
				}, SpecTimeout(time.Minute))
			})
		})
	}

	It("leaves plain HTTP alone", func(ctx SpecContext) {
		server := &http.Server{Handler: store.Drain(handler)}
		addr = started(server, server.Serve)
		transport := new(http.Transport)
		defer transport.CloseIdleConnections()
		for range 2 {
			response := must(transport.RoundTrip(must(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr, nil))))
			response.Body.Close()
			Expect(response.Close).To(BeFalse())
			rotate(clientCA)
		}
	}, SpecTimeout(time.Minute))

	It("leaves a connection alone that is upgraded", func(ctx SpecContext) {
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Connection", "Upgrade") // as httputil.ReverseProxy does
			w.Header().Add("Upgrade", "echo")
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err == nil {
				defer conn.Close()
				io.Copy(conn, io.LimitReader(buffered, 4))
			}
		})
		serve()
		conn := must(tls.Dial("tcp", addr, visitorOf(serverCA, clientCA.Issue(reloadtest.Options{}))))
		defer conn.Close()
		rotate(clientCA)
		must(io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nping"))
		reader := bufio.NewReader(conn)
		response := must(http.ReadResponse(reader, nil))
		Expect(response.StatusCode).To(Equal(http.StatusSwitchingProtocols))
		Expect(response.Header["Connection"]).To(Equal([]string{"Upgrade"}))
		Expect(string(must(io.ReadAll(reader)))).To(Equal("ping"))
	}, SpecTimeout(time.Minute))

	DescribeTable("sends no Connection header with the informational responses of HTTP/2, nor after",
		func(ctx SpecContext, answer func(http.ResponseWriter)) {
			handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusEarlyHints)
				answer(w)
			})
			serve()
			client := insider("HTTP/2.0")
			client.connect(ctx, addr)
			b := rotate(clientCA)
			var hints []textproto.MIMEHeader
			traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { hints = append(hints, h); return nil },
			})
			Expect(client.call(traced, addr)).To(HaveField("Status", 200))
			Expect(hints).To(HaveExactElements(Not(HaveKey("Connection"))))
			Eventually(ctx, client.call).WithArguments(ctx, addr).Should(HaveField("Leaf", b.Fingerprint))
		},
		Entry("of nothing", SpecTimeout(time.Minute), func(http.ResponseWriter) {}),
		Entry("by WriteHeader", SpecTimeout(time.Minute), func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }),
		Entry("by Write", SpecTimeout(time.Minute), func(w http.ResponseWriter) { io.WriteString(w, "here") }),
		Entry("by Flush", SpecTimeout(time.Minute), func(w http.ResponseWriter) { w.(http.Flusher).Flush() }),
		Entry("by a controller", SpecTimeout(time.Minute), func(w http.ResponseWriter) {
			http.NewResponseController(w).SetWriteDeadline(time.Time{})
			http.NewResponseController(w).Flush()
		}),
	)

	It("sends no Connection header over HTTP/3, and refuses what it must", func() {
		cfg := store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert})
		drained := store.Drain(handler)
		v := visit(cfg, visitorOf(serverCA, clientCA.Issue(reloadtest.Options{})))
		Expect(v).To(beFull())
		answer := func() *http.Response {
			request := httptest.NewRequest(http.MethodGet, "https://localhost", nil)
			request.ProtoMajor, request.ProtoMinor, request.TLS = 3, 0, &v.server
			recorder := httptest.NewRecorder()
			drained.ServeHTTP(recorder, request)
			return recorder.Result()
		}
		Expect(answer()).To(HaveHTTPStatus(200))
		rotate(clientCA)
		Expect(answer()).To(And(HaveHTTPStatus(200), HaveField("Header", Not(HaveKey("Connection")))))
		rotate(serverCA)
		Expect(answer()).To(And(HaveHTTPStatus(403), HaveField("Header", Not(HaveKey("Connection")))))
	})

	It("keeps no bundle of an older generation", func(ctx SpecContext) {
		serve()
		client := insider("HTTP/1.1")
		collected := make(chan struct{})
		func() {
			b := rotate(clientCA)
			runtime.AddCleanup(b, func(collected chan struct{}) { close(collected) }, collected)
		}()
		client.call(ctx, addr)
		rotate(clientCA)
		Eventually(ctx, func() chan struct{} { runtime.GC(); return collected }).Should(BeClosed())
		Expect(client.call(ctx, addr)).To(HaveField("Reused", true), "the connection is still there")
	}, SpecTimeout(time.Minute))

	It("remembers nothing of connections that are gone", func(ctx SpecContext) {
		var alive atomic.Int64
		handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			alive.Add(1)
			runtime.AddCleanup(r.TLS, func(int) { alive.Add(-1) }, 0)
		})
		base.ClientAuth = tls.RequireAndVerifyClientCert
		serve()
		client := insider("HTTP/1.1")
		use := func(connections int) (objects int64) {
			GinkgoHelper()
			for range connections {
				Expect(client.call(ctx, addr)).To(HaveField("Status", 200))
				client.CloseIdleConnections()
			}
			Eventually(ctx, func() int64 { runtime.GC(); return alive.Load() }).Should(BeNumerically("<=", 2))
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapObjects)
		}
		before := use(50)
		Expect(use(150)-before).To(BeNumerically("<", 150), "less than an object for each connection")
	}, SpecTimeout(2*time.Minute), Serial)
})

// longLived is a generation that was live hours ago too.
func longLived(ca *reloadtest.CA, cas ...*reloadtest.CA) *reload.Bundle {
	GinkgoHelper()
	k := ca.Issue(reloadtest.Options{NotBefore: time.Now().Add(-24 * time.Hour)})
	var caPEM []byte
	for _, ca := range cas {
		caPEM = append(caPEM, ca.Renew(reloadtest.Options{NotBefore: time.Now().Add(-24 * time.Hour)}).PEM()...)
	}
	return must(reload.BundleFromPEM(k.CertPEM, k.KeyPEM, caPEM))
}

// started runs server until the spec is over.
func started(server *http.Server, serve func(net.Listener) error) (addr string) {
	GinkgoHelper()
	server.ErrorLog = log.New(io.Discard, "", 0)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	ended := make(chan error, 1)
	go func() { ended <- serve(listener) }()
	DeferCleanup(func() {
		server.Close()
		Expect(<-ended).To(MatchError(http.ErrServerClosed))
	})
	return listener.Addr().String()
}

// caller is an HTTP client that tells how each request went.
type caller struct{ *http.Transport }

// newCaller returns a caller that speaks one protocol.
func newCaller(proto string, cfg *tls.Config) *caller {
	protos := new(http.Protocols)
	protos.SetHTTP1(proto == "HTTP/1.1")
	protos.SetHTTP2(proto == "HTTP/2.0")
	c := &caller{&http.Transport{TLSClientConfig: cfg, Protocols: protos}}
	DeferCleanup(c.CloseIdleConnections)
	return c
}

// call is how a request went.
type call struct {
	Proto   string
	Status  int // 0: not at all
	Leaf    string
	Reused  bool // the connection was there before
	Resumed bool // the connection resumed the session of another
}

func (c *caller) call(ctx context.Context, url string) (made call) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { made.Reused = info.Reused },
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+url, nil)
	if err != nil {
		return call{}
	}
	response, err := c.RoundTrip(request)
	if err != nil {
		return call{}
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return call{}
	}
	made.Proto, made.Status, made.Resumed = response.Proto, response.StatusCode, response.TLS.DidResume
	made.Leaf = (&reloadtest.Keypair{Leaf: response.TLS.PeerCertificates[0]}).Fingerprint()
	return made
}

// connect makes a connection that the next call will use, and returns after its handshake.
func (c *caller) connect(ctx context.Context, addr string) {
	GinkgoHelper()
	cfg := c.TLSClientConfig.Clone()
	cfg.NextProtos = []string{"http/1.1"}
	if c.Protocols.HTTP2() {
		cfg.NextProtos = []string{"h2"}
	}
	conn := must((&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", addr))
	DeferCleanup(func() { conn.Close() }) // the server may have been first
	dialed := make(chan net.Conn, 1)
	dialed <- conn
	c.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		select {
		case conn := <-dialed:
			return conn, nil
		default:
			return (&tls.Dialer{Config: cfg}).DialContext(ctx, network, addr)
		}
	}
}
