package reload_test

// transport_test.go holds the specs of Transport, and the HTTPS upstream and the proxy they talk to.

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

const http1, http2 = "HTTP/1.1", "HTTP/2.0"

// httpVersions runs a table once for each.
var httpVersions = []TableEntry{
	Entry("over HTTP/1.1", http1, SpecTimeout(time.Minute)),
	Entry("over HTTP/2", http2, SpecTimeout(time.Minute)),
}

var _ = Describe("Transport", Label("fips-client"), func() {
	var (
		ca, other *reloadtest.CA
		store     *reload.Store
	)
	BeforeEach(func() {
		ca, other = reloadtest.NewCA(reloadtest.Options{Name: "ca"}), reloadtest.NewCA(reloadtest.Options{Name: "other"})
		store = reload.NewStore()
	})
	// follow makes the transport under test, and closes what it leaves.
	follow := func(base *http.Transport) *reload.Transport {
		GinkgoHelper()
		transport, err := store.Transport(base)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(transport.CloseIdleConnections)
		return transport
	}

	DescribeTable("sends no request under an older identity or older roots", func(ctx SpecContext, proto string) {
		server := newUpstream(ctx, ca, ca)
		store.Store(identityOf(ca, "one"))
		transport := follow(speaking(proto))
		Expect(server.get(ctx, transport)).To(Equal(reply{Client: "one", Proto: proto}))

		store.Store(identityOf(ca, "two"))
		for range 3 {
			Expect(server.get(ctx, transport)).To(Equal(reply{Client: "two", Proto: proto}))
		}
		store.Store(bundleOf(ca.Issue(reloadtest.Options{Name: "three"}), other))
		Expect(server.get(ctx, transport)).Error().To(Satisfy(unverified), "its CA was withdrawn")
		store.Store(bundleOf(ca.Issue(reloadtest.Options{Name: "three"}), other, ca))
		Expect(server.get(ctx, transport)).To(Equal(reply{Client: "three", Proto: proto}))
		Eventually(ctx, server.connections).Should(Equal(1))
	}, httpVersions)

	// What each base speaks when it is used by itself; net/http decides by how it was made.
	DescribeTable("speaks what base would speak, in each generation", func(ctx SpecContext, make func() *http.Transport, proto string) {
		server := newUpstream(ctx, ca, ca)
		transport := follow(make())
		for _, name := range []string{"one", "two", "three"} {
			store.Store(identityOf(ca, name))
			Expect(server.get(ctx, transport)).To(Equal(reply{Client: name, Proto: proto}))
		}
	},
		Entry("none", func() *http.Transport { return nil }, http2),
		Entry("a zero one", func() *http.Transport { return new(http.Transport) }, http2),
		Entry("a used one", used(new(http.Transport)), http2),
		Entry("a clone of the default", func() *http.Transport { return http.DefaultTransport.(*http.Transport).Clone() }, http2),
		Entry("with a TLS config", func() *http.Transport {
			return &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
		}, http1),
		Entry("with a TLS config, used", used(&http.Transport{TLSClientConfig: new(tls.Config)}), http1),
		Entry("with a dialler", func() *http.Transport { return &http.Transport{DialContext: new(net.Dialer).DialContext} }, http1),
		Entry("with a TLS config, forced", func() *http.Transport {
			return &http.Transport{TLSClientConfig: new(tls.Config), ForceAttemptHTTP2: true}
		}, http2),
		Entry("with a TLS config, forced and used", used(&http.Transport{TLSClientConfig: new(tls.Config), ForceAttemptHTTP2: true}), http2),
		Entry("turned off by TLSNextProto", func() *http.Transport {
			return &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}, ForceAttemptHTTP2: true}
		}, http1),
		Entry("with Protocols HTTP/1", func() *http.Transport { return &http.Transport{Protocols: protocols(http1)} }, http1),
		Entry("with Protocols HTTP/2", func() *http.Transport { return &http.Transport{Protocols: protocols(http2)} }, http2),
		Entry("with Protocols HTTP/2, used", used(&http.Transport{Protocols: protocols(http2)}), http2),
		Entry("with NextProtos http/1.1", func() *http.Transport {
			return &http.Transport{TLSClientConfig: &tls.Config{NextProtos: []string{"http/1.1"}}}
		}, http1),
		Entry("with NextProtos h2 and Protocols HTTP/1", func() *http.Transport {
			return &http.Transport{TLSClientConfig: &tls.Config{NextProtos: []string{"h2"}}, Protocols: protocols(http1)}
		}, http1),
	)

	DescribeTable("refuses a base that it could not keep fresh", func(base *http.Transport, named string) {
		_, err := store.Transport(base)
		Expect(err).To(MatchError(And(HavePrefix("reload: transport: "), ContainSubstring(named))))
	},
		//lint:ignore SA1019 deprecated, and in use
		Entry("which dials TLS", &http.Transport{DialTLS: func(string, string) (net.Conn, error) { return nil, nil }}, "DialTLS"),
		Entry("which dials TLS with a context", &http.Transport{
			DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return nil, nil },
		}, "DialTLSContext"),
		Entry("with an HTTP/2 of its own", &http.Transport{
			TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{
				"h2": func(string, *tls.Conn) http.RoundTripper { return nil },
			},
		}, "TLSNextProto"),
	)

	It("tunnels through a proxy under the live bundle", func(ctx SpecContext) {
		server, through := newUpstream(ctx, ca, ca), newProxy(ctx)
		base := speaking(http2)
		base.Proxy = http.ProxyURL(through.url)
		transport := follow(base)
		for i, name := range []string{"one", "two"} {
			store.Store(identityOf(ca, name))
			Expect(server.get(ctx, transport)).To(Equal(reply{Client: name, Proto: http2}))
			Expect(through.tunnels.Load()).To(BeEquivalentTo(i + 1))
		}
		store.Store(identityOf(other, "three"))
		Expect(server.get(ctx, transport)).Error().To(Satisfy(unverified))
		Eventually(ctx, server.connections).Should(BeZero())
	}, SpecTimeout(time.Minute))

	It("upgrades connections, which outlive the rotation", func(ctx SpecContext) {
		server := newUpstream(ctx, ca, ca)
		transport := follow(speaking(http2))
		store.Store(identityOf(ca, "one"))
		Expect(server.get(ctx, transport)).To(HaveField("Proto", http2))
		one := server.upgrade(ctx, transport)
		Expect(one.ask("who")).To(Equal("one who"))

		store.Store(identityOf(ca, "two"))
		two := server.upgrade(ctx, transport)
		Expect(two.ask("who")).To(Equal("two who"))
		Expect(one.ask("still")).To(Equal("one still"))
		Expect(one.body.Close()).To(Succeed())
		Expect(two.body.Close()).To(Succeed())
		Eventually(ctx, server.connections).Should(BeZero())
	}, SpecTimeout(time.Minute))

	DescribeTable("lets a download in flight finish, and then closes its connection", func(ctx SpecContext, proto string) {
		server := newUpstream(ctx, ca, ca)
		transport := follow(speaking(proto))
		store.Store(identityOf(ca, "one"))
		download := server.download(ctx, transport)

		store.Store(identityOf(ca, "two"))
		Expect(server.get(ctx, transport)).To(HaveField("Client", "two"))
		Expect(server.connections()).To(Equal(2))
		server.finish()
		rest, err := io.ReadAll(download)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(rest)).To(Equal("end"))
		Expect(download.Close()).To(Succeed())
		Eventually(ctx, server.connections).Should(Equal(1))
		Expect(server.get(ctx, transport)).To(HaveField("Client", "two"))
	}, httpVersions)

	DescribeTable("lets go at the rotation itself if told to close idle connections then", func(ctx SpecContext, proto string) {
		server := newUpstream(ctx, ca, ca)
		transport := follow(speaking(proto))
		store.Store(identityOf(ca, "one"))
		Expect(server.get(ctx, transport)).To(HaveField("Client", "one"))
		store.Store(identityOf(ca, "two"))
		transport.CloseIdleConnections()
		Eventually(ctx, server.connections).Should(BeZero())

		download := server.download(ctx, transport)
		store.Store(identityOf(ca, "three"))
		transport.CloseIdleConnections()
		Expect(server.connections()).To(Equal(1))
		server.finish()
		Expect(download.Close()).To(Succeed())
		Eventually(ctx, server.connections).Should(BeZero())
	}, httpVersions)

	It("answers ErrNoCertificate, and closes the request's body, until something is loaded", func(ctx SpecContext) {
		server := newUpstream(ctx, ca, nil)
		transport := follow(&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}})
		for _, transport := range []*reload.Transport{transport, new(reload.Transport)} {
			body := &closable{Reader: strings.NewReader("payload")}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.url, body)
			Expect(err).NotTo(HaveOccurred())
			_, err = (&http.Client{Transport: transport}).Do(req)
			Expect(err).To(MatchError(reload.ErrNoCertificate))
			Expect(body.closed.Load()).To(BeTrue())
			Expect(server.get(ctx, transport.WrappedRoundTripper())).Error().To(MatchError(reload.ErrNoCertificate))
			transport.CloseIdleConnections()
		}
		store.Store(bundleOf(nil, ca))
		Expect(server.get(ctx, transport)).To(HaveField("Client", ""))
		store.Store(nil)
		Expect(server.get(ctx, transport)).Error().To(MatchError(reload.ErrNoCertificate))
		Eventually(ctx, server.connections).Should(BeZero())
	}, SpecTimeout(time.Minute))

	It("sends no certificate from a trust-only bundle", func(ctx SpecContext) {
		store.Store(bundleOf(nil, ca))
		transport := follow(nil)
		Expect(newUpstream(ctx, ca, nil).get(ctx, transport)).To(Equal(reply{Proto: http2}))
		Expect(newUpstream(ctx, ca, ca).get(ctx, transport)).Error().To(HaveOccurred())
	})

	It("sends no certificate to a server that asks for those of another CA, but may do without", func(ctx SpecContext) {
		store.Store(identityOf(ca, "client"))
		server := newUpstream(ctx, ca, other)
		server.auth.Store(int32(tls.VerifyClientCertIfGiven))
		Expect(server.get(ctx, follow(nil))).To(Equal(reply{Proto: http2}))
	})

	It("resumes sessions under their own identity only", func(ctx SpecContext) {
		server := newUpstream(ctx, ca, ca)
		transport := follow(&http.Transport{
			TLSClientConfig:   &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(8)},
			DisableKeepAlives: true,
		})
		one := ca.Issue(reloadtest.Options{Name: "one"})
		store.Store(bundleOf(one, ca))
		Expect(server.get(ctx, transport)).To(Equal(reply{Client: "one", Proto: http1}))
		store.Store(bundleOf(one, ca, other))
		Expect(server.get(ctx, transport)).To(Equal(reply{Client: "one", Proto: http1, Resumed: true}))
		store.Store(identityOf(ca, "two"))
		Expect(server.get(ctx, transport)).To(Equal(reply{Client: "two", Proto: http1}))
	})

	It("verifies IP addresses and names as the URL has them", func(ctx SpecContext) {
		store.Store(identityOf(ca, "client"))
		server := newUpstream(ctx, ca, ca)
		transport := follow(nil)
		Expect(server.get(ctx, transport)).To(HaveField("Client", "client"))
		named := strings.Replace(server.url, "127.0.0.1", "localhost", 1)
		Expect(fetch(ctx, transport, named)).To(HaveField("Client", "client"))
		server.leaf.Store(new(ca.Issue(reloadtest.Options{DNS: []string{"evil.example"}}).TLS()))
		transport.CloseIdleConnections()
		Expect(server.get(ctx, transport)).Error().To(Satisfy(unverified))
	})

	It("keeps the caller's hooks and leaves base alone", func(ctx SpecContext) {
		store.Store(identityOf(ca, "client"))
		refusal := errors.New("not today")
		base := &http.Transport{TLSClientConfig: &tls.Config{VerifyConnection: func(tls.ConnectionState) error { return refusal }}}
		transport := follow(base)
		base.TLSClientConfig.VerifyConnection = nil
		Expect(newUpstream(ctx, ca, ca).get(ctx, transport)).Error().To(MatchError(refusal))
		Expect(base.TLSClientConfig.RootCAs).To(BeNil())
		Expect(base.IdleConnTimeout).To(BeZero())
	})

	It("is swapped when the live bundle is another one, and only then", func(ctx SpecContext) {
		b := identityOf(ca, "client")
		store.Store(b)
		transport := follow(nil)
		one := transport.WrappedRoundTripper().(*http.Transport)
		Expect(one.TLSClientConfig.RootCAs).To(BeIdenticalTo(b.RootCAs))
		Expect(one.IdleConnTimeout).To(Equal(90 * time.Second))
		store.Store(b)
		Expect(newUpstream(ctx, ca, ca).get(ctx, transport)).To(HaveField("Client", "client"))
		Expect(transport.WrappedRoundTripper()).To(BeIdenticalTo(one))
		again := *b
		store.Store(&again)
		Expect(transport.WrappedRoundTripper()).NotTo(BeIdenticalTo(one))
		Expect(follow(&http.Transport{IdleConnTimeout: time.Hour}).WrappedRoundTripper()).To(HaveField("IdleConnTimeout", time.Hour))
	})

	It("still drains after a hook of the caller panicked", func(ctx SpecContext) {
		server := newUpstream(ctx, ca, ca)
		var panics atomic.Bool
		base := speaking(http2)
		base.Proxy = func(*http.Request) (*url.URL, error) {
			if panics.Load() {
				panic("oops")
			}
			return nil, nil
		}
		transport := follow(base)
		store.Store(identityOf(ca, "one"))
		download := server.download(ctx, transport)
		panics.Store(true)
		elsewhere := strings.Replace(server.url, "127.0.0.1", "localhost", 1) // so that it asks for a proxy
		Expect(func() { fetch(ctx, transport, elsewhere) }).To(PanicWith("oops"))
		panics.Store(false)
		store.Store(identityOf(ca, "two"))
		Expect(server.get(ctx, transport)).To(HaveField("Client", "two"))
		server.finish()
		Expect(download.Close()).To(Succeed())
		Eventually(ctx, server.connections).Should(Equal(1))
	}, SpecTimeout(time.Minute))

	It("costs nothing once it is dropped", func(ctx SpecContext) {
		store.Store(identityOf(ca, "client"))
		var collected atomic.Int32
		before := runtime.NumGoroutine()
		func() {
			for range 1000 {
				transport, err := store.Transport(nil)
				Expect(err).NotTo(HaveOccurred())
				transport.WrappedRoundTripper()
				runtime.AddCleanup(transport, func(int) { collected.Add(1) }, 0)
			}
		}()
		Expect(runtime.NumGoroutine()).To(BeNumerically("<=", before+1))
		Eventually(ctx, func() int32 {
			runtime.GC()
			return collected.Load()
		}).Should(BeEquivalentTo(1000), "though its store lives on")
		runtime.KeepAlive(store)
	}, SpecTimeout(time.Minute))
})

var _ = Describe("Transport under load", func() {
	DescribeTable("fails no request and leaves no connection behind", func(ctx SpecContext, proto string) {
		const swaps, clients = 115, 6
		ca, store := reloadtest.NewCA(reloadtest.Options{}), reload.NewStore()
		server := newUpstream(ctx, ca, ca)
		transport, err := store.Transport(speaking(proto))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(transport.CloseIdleConnections)
		key := ca.Issue(reloadtest.Options{}).Key
		var live atomic.Int64
		publish := func(n int64) {
			store.Store(bundleOf(ca.Issue(reloadtest.Options{Name: strconv.FormatInt(n, 10), Signer: key}), ca))
			live.Store(n)
		}
		publish(0)

		served, done := make(chan struct{}), make(chan struct{})
		failures := make(chan error, clients)
		var load sync.WaitGroup
		for range clients {
			load.Go(func() {
				for {
					least := live.Load()
					answer, err := server.get(ctx, transport)
					if is, _ := strconv.ParseInt(answer.Client, 10, 64); err == nil && is < least {
						err = fmt.Errorf("a request of generation %d went out under %d", least, is)
					}
					if err != nil {
						failures <- err
						return
					}
					select {
					case served <- struct{}{}:
					case <-done:
						return
					}
				}
			})
		}
		for n := range int64(swaps) {
			publish(n + 1)
			for range clients / 2 {
				select {
				case <-served:
				case err := <-failures:
					close(done)
					load.Wait()
					Fail(err.Error())
				}
			}
		}
		close(done)
		load.Wait()
		Expect(failures).To(BeEmpty())
		Expect(server.get(ctx, transport)).To(Equal(reply{Client: strconv.Itoa(swaps), Proto: proto}))
		transport.CloseIdleConnections()
		Eventually(ctx, server.connections).Should(BeZero())
	},
		Entry("over HTTP/1.1", http1, SpecTimeout(5*time.Minute)),
		Entry("over HTTP/2", http2, SpecTimeout(5*time.Minute)),
	)
})

var _ = Describe("Transport over time", func() {
	DescribeTable("keeps a retired connection for as long as a request needs it", func(ctx SpecContext, proto string, last func(io.ReadCloser)) {
		pipes := newPipes()
		ca, store := reloadtest.NewCA(reloadtest.Options{}), reload.NewStore()
		server, stop := serveUpstream(pipes, ca, ca)
		defer stop()
		base := speaking(proto)
		base.DialContext = pipes.dial
		transport, err := store.Transport(base)
		Expect(err).NotTo(HaveOccurred())
		defer transport.CloseIdleConnections()

		store.Store(identityOf(ca, "one"))
		download := server.download(ctx, transport)
		Expect(server.get(ctx, transport)).To(HaveField("Client", "one")) // with HTTP/1.1 on a connection that idles
		store.Store(identityOf(ca, "two"))
		Expect(server.get(ctx, transport)).To(HaveField("Client", "two"))
		pass(time.Minute)
		Expect(server.connections()).To(Equal(2))

		server.finish()
		last(download)
		pass(time.Second)
		Expect(server.connections()).To(Equal(1))
	},
		Entry("over HTTP/1.1, to its end", inBubble, http1, readAll, SpecTimeout(time.Minute)),
		Entry("over HTTP/2, to its end", inBubble, http2, readAll, SpecTimeout(time.Minute)),
		Entry("over HTTP/1.1, given up", inBubble, http1, closeEarly, SpecTimeout(time.Minute)),
		Entry("over HTTP/2, given up", inBubble, http2, closeEarly, SpecTimeout(time.Minute)),
	)
})

// readAll and closeEarly are how a client is done with a response.
func readAll(body io.ReadCloser) {
	rest, err := io.ReadAll(body)
	Expect(err).NotTo(HaveOccurred())
	Expect(string(rest)).To(Equal("end"))
}

func closeEarly(body io.ReadCloser) { Expect(body.Close()).To(Succeed()) }

// speaking makes a base for an HTTP version that never closes idle connections within a spec.
func speaking(proto string) *http.Transport {
	return &http.Transport{IdleConnTimeout: time.Hour, MaxIdleConnsPerHost: 100, ForceAttemptHTTP2: proto == http2, Protocols: protocols(proto)}
}

func protocols(proto string) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(proto == http1)
	p.SetHTTP2(proto == http2)
	return p
}

// used makes a base that has sent a request, by which net/http configured it for HTTP/2.
func used(base *http.Transport) func() *http.Transport {
	return func() *http.Transport {
		_, err := base.RoundTrip(&http.Request{URL: &url.URL{Scheme: "https", Host: "127.0.0.1:0"}, Header: http.Header{}})
		Expect(err).To(HaveOccurred())
		return base
	}
}

// closable is a request body that knows whether it was closed.
type closable struct {
	io.Reader
	closed atomic.Bool
}

func (c *closable) Close() error {
	c.closed.Store(true)
	return nil
}

// reply is what an upstream says of a request.
type reply struct {
	Client, Proto string
	Resumed       bool
}

// upstream is an HTTPS server that says what it sees.
type upstream struct {
	url  string
	leaf atomic.Pointer[tls.Certificate]
	auth atomic.Int32 // tls.ClientAuthType
	open atomic.Int64 // connections
	end  chan struct{}
}

// newUpstream starts an upstream with a leaf of ca that requires clients of clientCA; nil asks for none.
func newUpstream(ctx SpecContext, ca, clientCA *reloadtest.CA) *upstream {
	GinkgoHelper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	u, stop := serveUpstream(listener, ca, clientCA)
	DeferCleanup(stop)
	return u
}

func serveUpstream(listener net.Listener, ca, clientCA *reloadtest.CA) (_ *upstream, stop func()) {
	u := &upstream{url: "https://" + listener.Addr().String(), end: make(chan struct{})}
	u.leaf.Store(new(ca.Issue(reloadtest.Options{}).TLS()))
	cfg := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return u.leaf.Load(), nil }}
	if clientCA != nil {
		u.auth.Store(int32(tls.RequireAndVerifyClientCert))
		cfg.ClientCAs = clientCA.Pool()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { json.NewEncoder(w).Encode(replyTo(r)) })
	mux.HandleFunc("/download", u.serveDownload)
	mux.HandleFunc("/upgrade", serveUpgrade)
	server := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.TLSConfig = cfg
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		inner := cfg.Clone()
		inner.GetConfigForClient, inner.ClientAuth = nil, tls.ClientAuthType(u.auth.Load())
		return inner, nil
	}
	var serving sync.WaitGroup
	serving.Go(func() { server.ServeTLS(countingListener{listener, &u.open}, "", "") })
	return u, func() {
		server.Close()
		serving.Wait()
	}
}

func replyTo(r *http.Request) reply {
	answer := reply{Proto: r.Proto, Resumed: r.TLS.DidResume}
	if certs := r.TLS.PeerCertificates; len(certs) > 0 {
		answer.Client = certs[0].Subject.CommonName
	}
	return answer
}

// connections counts those a client has open, upgraded ones too.
func (u *upstream) connections() int { return int(u.open.Load()) }

// get sends one request through rt.
func (u *upstream) get(ctx context.Context, rt http.RoundTripper) (reply, error) {
	return fetch(ctx, rt, u.url)
}

func fetch(ctx context.Context, rt http.RoundTripper, url string) (answer reply, _ error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer, err
	}
	resp, err := (&http.Client{Transport: rt}).Do(req)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	return answer, json.NewDecoder(resp.Body).Decode(&answer)
}

// download begins a response that ends when the spec says finish.
func (u *upstream) download(ctx context.Context, rt http.RoundTripper) io.ReadCloser {
	GinkgoHelper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url+"/download", nil)
	Expect(err).NotTo(HaveOccurred())
	resp, err := rt.RoundTrip(req)
	Expect(err).NotTo(HaveOccurred())
	begin := make([]byte, len("begin "))
	Expect(io.ReadFull(resp.Body, begin)).Error().NotTo(HaveOccurred())
	return resp.Body
}

func (u *upstream) finish() { close(u.end) }

func (u *upstream) serveDownload(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, "begin ")
	http.NewResponseController(w).Flush()
	select {
	case <-u.end:
		io.WriteString(w, "end")
	case <-r.Context().Done():
	}
}

// serveUpgrade answers lines, WebSocket without the framing.
func serveUpgrade(w http.ResponseWriter, r *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusHTTPVersionNotSupported)
		return
	}
	defer conn.Close()
	rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	for rw.Flush() == nil {
		line, err := rw.ReadString('\n')
		if err != nil {
			return
		}
		rw.WriteString(replyTo(r).Client + " " + line)
	}
}

// upgraded is the client's end.
type upgraded struct {
	body  io.ReadWriteCloser
	lines *bufio.Reader
}

func (u *upstream) upgrade(ctx context.Context, rt http.RoundTripper) upgraded {
	GinkgoHelper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url+"/upgrade", nil)
	Expect(err).NotTo(HaveOccurred())
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	resp, err := rt.RoundTrip(req)
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.StatusCode).To(Equal(http.StatusSwitchingProtocols))
	body, ok := resp.Body.(io.ReadWriteCloser)
	Expect(ok).To(BeTrue())
	return upgraded{body, bufio.NewReader(body)}
}

func (u upgraded) ask(line string) (string, error) {
	if _, err := io.WriteString(u.body, line+"\n"); err != nil {
		return "", err
	}
	answer, err := u.lines.ReadString('\n')
	return strings.TrimSpace(answer), err
}

// countingListener counts the connections that are open.
type countingListener struct {
	net.Listener
	open *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.open.Add(1)
	return &countedConn{Conn: conn, open: l.open}, nil
}

type countedConn struct {
	net.Conn
	open   *atomic.Int64
	closed sync.Once
}

func (c *countedConn) Close() error {
	c.closed.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// pipes is a listener in memory, for fake time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connectProxy is an HTTP proxy that only knows CONNECT.
type connectProxy struct {
	url     *url.URL
	tunnels atomic.Int32
}

func newProxy(ctx SpecContext) *connectProxy {
	GinkgoHelper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	p := &connectProxy{url: &url.URL{Scheme: "http", Host: listener.Addr().String()}}
	var serving sync.WaitGroup
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there, err := new(net.Dialer).DialContext(r.Context(), "tcp", r.Host)
		if err != nil || r.Method != http.MethodConnect {
			http.Error(w, "no tunnel", http.StatusBadGateway)
			return
		}
		defer there.Close()
		p.tunnels.Add(1)
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		serving.Go(func() {
			io.Copy(there, here)
			there.Close()
		})
		io.Copy(here, there)
	})}
	serving.Go(func() { server.Serve(listener) })
	DeferCleanup(func() {
		server.Close()
		serving.Wait()
	})
	return p
}
