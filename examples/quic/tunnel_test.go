package main

// tunnel_test.go says what becomes of tunnels when the keypairs at their ends are replaced.

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/quic-go/quic-go"

	"github.com/seed45259946/reload/examples/internal/party"
	"github.com/seed45259946/reload/examples/internal/program"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("a tunnel", func() {
	var (
		server, client *party.Party
		port           string
		arrivals       chan *quic.Conn
	)

	BeforeEach(func() {
		server, client = newParties()
		listener := must(listen("127.0.0.1:0", server.Reloader))
		_, port = must2(net.SplitHostPort(listener.Addr().String()))
		arrivals = make(chan *quic.Conn, 100)
		until(func(ctx context.Context) error { return serveTelling(ctx, listener, arrivals) })
	})

	// from returns a dialer of the client.
	from := func(sessions tls.ClientSessionCache) *dialer {
		return &dialer{keypair: client.Reloader, addr: net.JoinHostPort("127.0.0.1", port), sessions: sessions}
	}
	// opened dials a tunnel and closes it with the spec.
	opened := func(ctx context.Context, d *dialer) (*tunnel, *quic.Conn) {
		GinkgoHelper()
		t := must(d.dial(ctx))
		DeferCleanup(t.close)
		var arrived *quic.Conn
		Eventually(ctx, arrivals).Should(Receive(&arrived))
		return t, arrived
	}

	It("lives on through any number of rotations at both ends, and new ones are made of what is live", func(ctx SpecContext) {
		first, arrived := opened(ctx, from(nil))
		leaf, identity := server.Keypair.Fingerprint(), client.Keypair.Fingerprint()

		var echoing sync.WaitGroup
		enough := make(chan struct{})
		echoing.Go(func() {
			defer GinkgoRecover()
			for {
				select {
				case <-enough:
					return
				default:
					Expect(first.echo()).To(Succeed())
				}
			}
		})
		for range 5 {
			Expect(server.Renew(ctx)).To(Succeed())
			Expect(client.Renew(ctx)).To(Succeed())
			next, at := opened(ctx, from(nil))
			Expect(peer(next.conn)).To(Equal(server.Keypair.Fingerprint()))
			Expect(peer(at)).To(Equal(client.Keypair.Fingerprint()))
			next.close()
		}
		close(enough)
		echoing.Wait()

		Expect(first.echo()).To(Succeed())
		Expect(peer(first.conn)).To(Equal(leaf))
		Expect(peer(arrived)).To(Equal(identity))
	}, SpecTimeout(program.Limit))

	It("resumes its session with data in the first packet across rotations of the leaf", func(ctx SpecContext) {
		sessions := newSessions()
		leaf := server.Keypair.Fingerprint()
		t, _ := opened(ctx, from(sessions))
		Expect(t.state().TLS.DidResume).To(BeFalse())
		for range 3 {
			sessions.await(ctx)
			t.close()
			Expect(server.Renew(ctx)).To(Succeed())
			var arrived *quic.Conn
			t, arrived = opened(ctx, from(sessions))
			Expect(t.state().Used0RTT).To(BeTrue())
			Expect(t.state().TLS.DidResume).To(BeTrue())
			Expect(arrived.ConnectionState().Used0RTT).To(BeTrue())
			Expect(peer(t.conn)).To(Equal(leaf), "a session keeps the leaf that it was made with")
			Expect(peer(arrived)).To(Equal(client.Keypair.Fingerprint()))
		}
	}, SpecTimeout(program.Limit))

	It("resumes its session where a CA was added at either end", func(ctx SpecContext) {
		sessions := newSessions()
		t, _ := opened(ctx, from(sessions))
		sessions.await(ctx)
		t.close()
		Expect(server.Trust(ctx, append(server.Trusts, party.NewCA("new clients"))...)).To(Succeed())
		Expect(client.Trust(ctx, append(client.Trusts, party.NewCA("new servers"))...)).To(Succeed())
		t, _ = opened(ctx, from(sessions))
		Expect(t.state().Used0RTT).To(BeTrue())
	}, SpecTimeout(program.Limit))

	It("is made by a full handshake, without an error, where the CA of its client was renewed", func(ctx SpecContext) {
		sessions := newSessions()
		t, _ := opened(ctx, from(sessions))
		sessions.await(ctx)
		t.close()
		Expect(server.Trust(ctx, client.CA.Renew(reloadtest.Options{}))).To(Succeed())
		t, _ = opened(ctx, from(sessions))
		Expect(t.state().TLS.DidResume).To(BeFalse())
		Expect(t.state().Used0RTT).To(BeFalse())
	}, SpecTimeout(program.Limit))

	It("resumes no session of another identity", func(ctx SpecContext) {
		sessions := newSessions()
		t, _ := opened(ctx, from(sessions))
		sessions.await(ctx)
		t.close()
		Expect(client.Renew(ctx)).To(Succeed())
		t, arrived := opened(ctx, from(sessions))
		Expect(t.state().TLS.DidResume).To(BeFalse())
		Expect(peer(arrived)).To(Equal(client.Keypair.Fingerprint()))
	}, SpecTimeout(program.Limit))

	DescribeTable("is refused to a client whose CA was withdrawn, and those that are open live on",
		func(ctx SpecContext, remembers bool) {
			d := from(nil)
			sessions := newSessions()
			if remembers {
				d.sessions = sessions
			}
			first, _ := opened(ctx, d)
			if remembers {
				sessions.await(ctx)
			}
			newcomers := party.NewCA("newcomers")
			Expect(server.Trust(ctx, newcomers)).To(Succeed())

			_, err := d.dial(ctx)
			Expect(err).To(MatchError(ContainSubstring("tls: certificate required")))
			Expect(err).To(HaveField("Remote", true), "the server said so")
			Expect(first.echo()).To(Succeed())

			var arrived *quic.Conn
			Eventually(ctx, arrivals).Should(Receive(&arrived))
			Eventually(ctx, arrived.Context().Done()).Should(BeClosed())
			_, err = arrived.AcceptStream(ctx)
			Expect(err).To(HaveOccurred(), "nothing that it sent is let through, 0-RTT included")

			client.CA = newcomers
			Expect(client.Renew(ctx)).To(Succeed())
			opened(ctx, d)
		},
		Entry("without a session", SpecTimeout(program.Limit), false),
		Entry("with a session", SpecTimeout(program.Limit), true),
	)

	It("is made by a client that follows its roots, through every stage of a new CA", func(ctx SpecContext) {
		old, next := server.CA, party.NewCA("next servers")
		Expect(client.Trust(ctx, next, old)).To(Succeed())
		opened(ctx, from(nil))
		server.CA = next
		Expect(server.Renew(ctx)).To(Succeed())
		opened(ctx, from(nil))
		Expect(client.Trust(ctx, next)).To(Succeed())
		opened(ctx, from(nil))

		server.CA = old
		Expect(server.Renew(ctx)).To(Succeed())
		_, err := from(nil).dial(ctx)
		Expect(err).To(MatchError(ContainSubstring("certificate signed by unknown authority")))
		Expect(err).To(HaveField("Remote", false))
	}, SpecTimeout(program.Limit))

	It("is not resumed by a client that no longer trusts the CA of its session", func(ctx SpecContext) {
		sessions := newSessions()
		t, _ := opened(ctx, from(sessions))
		sessions.await(ctx)
		t.close()
		Expect(client.Trust(ctx, party.NewCA("other servers"))).To(Succeed())
		_, err := from(sessions).dial(ctx)
		Expect(err).To(MatchError(ContainSubstring("certificate signed by unknown authority")))
	}, SpecTimeout(program.Limit))

	DescribeTable("verifies the server that is dialled, by name and by address",
		func(ctx SpecContext, host string, names reloadtest.Options, verified bool) {
			server.Keypair = server.CA.Issue(names)
			Expect(server.Update(ctx)).To(Succeed())
			t, err := (&dialer{keypair: client.Reloader, addr: net.JoinHostPort(host, port)}).dial(ctx)
			if verified {
				Expect(err).NotTo(HaveOccurred())
				t.close()
			} else {
				Expect(err).To(MatchError(MatchRegexp("x509: (certificate is valid for|cannot validate certificate)")))
			}
		},
		Entry("the name", SpecTimeout(program.Limit), "localhost", reloadtest.Options{DNS: []string{"localhost"}}, true),
		Entry("another name", SpecTimeout(program.Limit), "localhost", reloadtest.Options{DNS: []string{"elsewhere"}}, false),
		Entry("the address", SpecTimeout(program.Limit), "127.0.0.1", reloadtest.Options{IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}, true),
		Entry("another address", SpecTimeout(program.Limit), "127.0.0.1", reloadtest.Options{IPs: []net.IP{net.IPv4(127, 0, 0, 2)}}, false),
	)
})

// serveTelling serves as serve does, and tells whom it accepts.
func serveTelling(ctx context.Context, listener *quic.EarlyListener, arrivals chan<- *quic.Conn) error {
	var tunnels sync.WaitGroup
	defer tunnels.Wait()
	for {
		conn, err := listener.Accept(ctx)
		if err != nil {
			return listener.Close()
		}
		arrivals <- conn
		tunnels.Go(func() { echo(ctx, conn) })
	}
}
