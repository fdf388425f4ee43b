package main

// pages_test.go says what becomes of HTTP/3, beside HTTP/2, when the keypairs at both ends are replaced.

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/examples/internal/party"
	"github.com/seed45259946/reload/examples/internal/program"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("pages over HTTP/3", func() {
	var (
		server, client *party.Party
		site           *site
		requests       chan *http.Request
	)

	BeforeEach(func() {
		server, client = newParties()
		site = must(newSite("127.0.0.1:0", server.Reloader))
		site.h2.ErrorLog = log.New(io.Discard, "", 0)
		requests = make(chan *http.Request, 100)
		site.h3.Handler, site.h2.Handler = telling(site.h3.Handler, requests), telling(site.h2.Handler, requests)
	})

	// served starts the servers and returns where they are.
	served := func() (h3, h2 string) {
		until(site.serve)
		return "https://" + site.udp.LocalAddr().String(), "https://" + site.tcp.Addr().String()
	}
	// visitors returns clients of both protocols. Those of HTTP/3 tell of their connections.
	visitors := func(cache tls.ClientSessionCache) (*http3.Transport, *reload.Transport, chan *quic.Conn) {
		v := newVisitor(client.Reloader, cache)
		conns, all := make(chan *quic.Conn, 100), make(chan *quic.Conn, 100)
		dial := v.Dial
		v.Dial = func(ctx context.Context, addr string, base *tls.Config, cfg *quic.Config) (*quic.Conn, error) {
			conn, err := dial(ctx, addr, base, cfg)
			if err == nil {
				conns <- conn
				all <- conn
			}
			return conn, err
		}
		DeferCleanup(func() {
			Expect(v.Close()).To(Succeed())
			for len(all) > 0 {
				(<-all).CloseWithError(0, "") // quic-go keeps one open whose 0-RTT was rejected
			}
		})
		v2 := must(client.Transport(nil))
		DeferCleanup(v2.CloseIdleConnections)
		return v, v2, conns
	}

	It("come with the leaf of the files, as those over HTTP/2 do, rotation after rotation", func(ctx SpecContext) {
		h3, h2 := served()
		v, v2, _ := visitors(nil)
		for range 3 {
			for _, try := range []struct {
				from       http.RoundTripper
				url, proto string
			}{{v, h3, "HTTP/3.0"}, {v2, h2, "HTTP/2.0"}} {
				body, response := must2(get(ctx, try.from, http.MethodGet, try.url))
				Expect(body).To(Equal(try.proto + " for client"))
				Expect(leaf(*response.TLS)).To(Equal(short(server.Keypair.Fingerprint())))
				Expect(short(fingerprintOf((<-requests).TLS))).To(Equal(short(client.Keypair.Fingerprint())))
			}
			Expect(server.Renew(ctx)).To(Succeed())
			Expect(client.Renew(ctx)).To(Succeed())
			v.CloseIdleConnections()
			v2.CloseIdleConnections()
		}
	}, SpecTimeout(program.Limit))

	It("go on over the connection that is there, which a rotation leaves alone", func(ctx SpecContext) {
		h3, _ := served()
		v, _, conns := visitors(nil)
		first := server.Keypair.Fingerprint()
		var states sync.Map
		for range 4 {
			_, response := must2(get(ctx, v, http.MethodGet, h3))
			Expect(response).To(HaveHTTPStatus(http.StatusOK))
			Expect(response.Header).NotTo(HaveKey("Connection"))
			Expect(leaf(*response.TLS)).To(Equal(short(first)))
			states.Store((<-requests).TLS, nil)
			Expect(server.Renew(ctx)).To(Succeed())
		}
		Expect(conns).To(HaveLen(1))
		seen := 0
		states.Range(func(any, any) bool { seen++; return true })
		Expect(seen).To(Equal(4), "Request.TLS is another pointer in each request, so it tells nobody the connection")
	}, SpecTimeout(program.Limit))

	DescribeTable("come in the first flight of a resumed session, across rotations of the leaf",
		func(ctx SpecContext, auth tls.ClientAuthType) {
			site.h3.TLSConfig = server.ServerConfig(&tls.Config{ClientAuth: auth})
			h3, _ := served()
			cache := newSessions()
			v, _, conns := visitors(cache)
			first := server.Keypair.Fingerprint()
			for i := range 4 {
				body, response := must2(get(ctx, v, http3.MethodGet0RTT, h3))
				Expect(body).To(HavePrefix("HTTP/3.0 for "))
				Expect(leaf(*response.TLS)).To(Equal(short(first)))
				Expect(response.TLS.DidResume).To(Equal(i > 0))
				Expect((<-conns).ConnectionState().Used0RTT).To(Equal(i > 0))
				cache.await(ctx)
				v.CloseIdleConnections()
				Expect(server.Renew(ctx)).To(Succeed())
			}
		},
		Entry("with clients verified", SpecTimeout(program.Limit), tls.RequireAndVerifyClientCert),
		Entry("with clients verified if they have a certificate", SpecTimeout(program.Limit), tls.VerifyClientCertIfGiven),
		Entry("without", SpecTimeout(program.Limit), tls.NoClientCert),
	)

	It("come over a new connection where the server no longer resumes the session, and no request is lost", func(ctx SpecContext) {
		h3, _ := served()
		cache := newSessions()
		v, _, conns := visitors(cache)
		must2(get(ctx, v, http.MethodGet, h3))
		cache.await(ctx)
		v.CloseIdleConnections()
		Expect(server.Trust(ctx, client.CA.Renew(reloadtest.Options{}))).To(Succeed())
		_, response := must2(get(ctx, v, http.MethodGet, h3))
		Expect(response).To(HaveHTTPStatus(http.StatusOK))
		Expect(conns).To(HaveLen(3), "the first, one whose 0-RTT was rejected, and the one in its place")
	}, SpecTimeout(program.Limit))

	It("have to be asked for again where the server rejects the first flight", func(ctx SpecContext) {
		h3, _ := served()
		cache := newSessions()
		v, _, _ := visitors(cache)
		must2(get(ctx, v, http.MethodGet, h3))
		cache.await(ctx)
		v.CloseIdleConnections()
		Expect(server.Trust(ctx, client.CA.Renew(reloadtest.Options{}))).To(Succeed())
		_, _, err := get(ctx, v, http3.MethodGet0RTT, h3)
		Expect(err).To(MatchError(quic.Err0RTTRejected))
		_, response := must2(get(ctx, v, http3.MethodGet0RTT, h3))
		Expect(response).To(HaveHTTPStatus(http.StatusOK))
	}, SpecTimeout(program.Limit))

	DescribeTable("are refused to a client whose CA was withdrawn, on new connections",
		func(ctx SpecContext, remembers bool, method string) {
			h3, _ := served()
			cache := newSessions()
			v, _, _ := visitors(nil)
			if remembers {
				v, _, _ = visitors(cache)
				must2(get(ctx, v, http.MethodGet, h3))
				<-requests
				cache.await(ctx)
				v.CloseIdleConnections()
			}
			newcomers := party.NewCA("newcomers")
			Expect(server.Trust(ctx, newcomers)).To(Succeed())
			_, _, err := get(ctx, v, method, h3)
			if method == http3.MethodGet0RTT {
				Expect(err).To(MatchError(quic.Err0RTTRejected))
				_, _, err = get(ctx, v, method, h3)
			}
			Expect(err).To(MatchError(ContainSubstring("tls: certificate required")))
			Expect(requests).To(BeEmpty())

			client.CA = newcomers
			Expect(client.Renew(ctx)).To(Succeed())
			_, response := must2(get(ctx, v, http.MethodGet, h3))
			Expect(response).To(HaveHTTPStatus(http.StatusOK))
		},
		Entry("without a session", SpecTimeout(program.Limit), false, http.MethodGet),
		Entry("with a session", SpecTimeout(program.Limit), true, http.MethodGet),
		Entry("with a session, in the first flight", SpecTimeout(program.Limit), true, http3.MethodGet0RTT),
	)

	DescribeTable("are refused to a client whose CA was withdrawn, by Drain, on the connection that is there",
		func(ctx SpecContext, resumed bool) {
			h3, h2 := served()
			cache := newSessions()
			v, v2, conns := visitors(cache)
			must2(get(ctx, v, http.MethodGet, h3))
			must2(get(ctx, v2, http.MethodGet, h2))
			if resumed {
				cache.await(ctx)
				v.CloseIdleConnections()
				<-conns
				_, response := must2(get(ctx, v, http3.MethodGet0RTT, h3))
				Expect(response.TLS.DidResume).To(BeTrue())
			}
			newcomers := party.NewCA("newcomers")
			Expect(server.Trust(ctx, newcomers)).To(Succeed())
			for range 2 {
				body, response := must2(get(ctx, v, http.MethodGet, h3))
				Expect(response).To(HaveHTTPStatus(http.StatusForbidden))
				Expect(response.Header).NotTo(HaveKey("Connection"))
				Expect(body).To(Equal("client certificate is no longer trusted"))
			}
			Expect(conns).To(HaveLen(1), "a connection of HTTP/3 stays open: no header closes it")

			_, response := must2(get(ctx, v2, http.MethodGet, h2))
			Expect(response).To(HaveHTTPStatus(http.StatusForbidden))
			Eventually(ctx, func() error { _, _, err := get(ctx, v2, http.MethodGet, h2); return err }).Should(HaveOccurred())

			Expect(server.Trust(ctx, newcomers, client.CA)).To(Succeed())
			_, response = must2(get(ctx, v, http.MethodGet, h3))
			Expect(response).To(HaveHTTPStatus(http.StatusOK))
		},
		Entry("made by a full handshake", SpecTimeout(program.Limit), false),
		Entry("made by a resumed one", SpecTimeout(program.Limit), true),
	)

	It("come to a client that follows its roots", func(ctx SpecContext) {
		h3, _ := served()
		v, _, _ := visitors(nil)
		old := server.CA
		server.CA = party.NewCA("next servers")
		for _, stage := range []func() error{
			func() error { return client.Trust(ctx, server.CA, old) },
			func() error { return server.Renew(ctx) },
			func() error { return client.Trust(ctx, server.CA) },
		} {
			Expect(stage()).To(Succeed())
			v.CloseIdleConnections()
			_, response := must2(get(ctx, v, http.MethodGet, h3))
			Expect(response).To(HaveHTTPStatus(http.StatusOK))
		}
		server.CA = old
		Expect(server.Renew(ctx)).To(Succeed())
		v.CloseIdleConnections()
		_, _, err := get(ctx, v, http.MethodGet, h3)
		Expect(err).To(MatchError(ContainSubstring("certificate signed by unknown authority")))
	}, SpecTimeout(program.Limit))

	It("come under the new identity of a client, which resumes no session of the old one", func(ctx SpecContext) {
		h3, _ := served()
		cache := newSessions()
		v, _, conns := visitors(cache)
		must2(get(ctx, v, http.MethodGet, h3))
		<-requests
		<-conns
		cache.await(ctx)
		v.CloseIdleConnections()
		Expect(client.Renew(ctx)).To(Succeed())
		must2(get(ctx, v, http3.MethodGet0RTT, h3))
		Expect(fingerprintOf((<-requests).TLS)).To(Equal(client.Keypair.Fingerprint()))
		Expect((<-conns).ConnectionState().TLS.DidResume).To(BeFalse())
	}, SpecTimeout(program.Limit))

	It("are announced over HTTP/2", func(ctx SpecContext) {
		_, h2 := served()
		_, v2, _ := visitors(nil)
		_, response := must2(get(ctx, v2, http.MethodGet, h2))
		Expect(response.Header.Get("Alt-Svc")).To(HavePrefix("h3=\":"))
	}, SpecTimeout(program.Limit))
})

// telling tells of each request that next lets through with success.
func telling(next http.Handler, requests chan<- *http.Request) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		next.ServeHTTP(w, r)
	})
}

// fingerprintOf returns that of the peer.
func fingerprintOf(state *tls.ConnectionState) string {
	return (&reloadtest.Keypair{Leaf: state.PeerCertificates[0]}).Fingerprint()
}
