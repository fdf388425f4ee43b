package reloadgrpc_test

// credentials_test.go says what handshakes do: what those of credentials.NewTLS do, with what is live.

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/url"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadgrpc"
	"github.com/seed45259946/reload/reloadtest"
)

// beUnavailable matches what a call fails with whose connection cannot be made.
func beUnavailable(text string) OmegaMatcher {
	return And(WithTransform(status.Code, Equal(codes.Unavailable)), MatchError(ContainSubstring(text)))
}

var _ = Describe("client credentials", func() {
	var ca *reloadtest.CA

	BeforeEach(func() { ca = reloadtest.NewCA(reloadtest.Options{}) })

	// The outcome is that of credentials.NewTLS, which is run beside ours.
	DescribeTable("verify the server by the name that gRPC means",
		func(ctx SpecContext, leaf reloadtest.Options, base *tls.Config, authority string, failure string) {
			s := serve(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{ca.Issue(leaf).TLS()}}))
			var options []grpc.DialOption
			if authority != "" {
				options = append(options, grpc.WithAuthority(authority))
			}
			theirs := base.Clone()
			theirs.RootCAs = ca.Pool()
			identity := live(bundle(ca.Issue(reloadtest.Options{}), ca))
			for _, creds := range []credentials.TransportCredentials{
				credentials.NewTLS(theirs),
				reloadgrpc.NewClientCredentials(identity, base),
				reloadgrpc.NewClientCredentials(identity, base, reloadgrpc.Drain()),
				reloadgrpc.NewClientCredentials(identity, base).Clone(),
			} {
				a, err := askAnew(ctx, s, creds, options...)
				if failure != "" {
					Expect(err).To(beUnavailable(failure))
					continue
				}
				Expect(err).NotTo(HaveOccurred())
				Expect(a.Info.State.VerifiedChains).NotTo(BeEmpty())
			}
		},
		Entry("the IP address of the target", SpecTimeout(limit), reloadtest.Options{IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}, &tls.Config{}, "", ""),
		Entry("not another IP address", SpecTimeout(limit), reloadtest.Options{IPs: []net.IP{net.IPv4(10, 0, 0, 1)}}, &tls.Config{}, "",
			"certificate is valid for 10.0.0.1, not 127.0.0.1"),
		Entry("not any name instead of an IP address", SpecTimeout(limit), reloadtest.Options{DNS: []string{"localhost"}}, &tls.Config{}, "",
			"it doesn't contain any IP SANs"),
		Entry("the authority of the channel", SpecTimeout(limit), reloadtest.Options{DNS: []string{"a.example"}}, &tls.Config{}, "a.example", ""),
		Entry("the authority of the channel, with a port", SpecTimeout(limit), reloadtest.Options{DNS: []string{"a.example"}}, &tls.Config{}, "a.example:443", ""),
		Entry("an IP address for an authority", SpecTimeout(limit), reloadtest.Options{IPs: []net.IP{net.ParseIP("2001:db8::1")}}, &tls.Config{}, "[2001:db8::1]:443", ""),
		Entry("not another authority", SpecTimeout(limit), reloadtest.Options{DNS: []string{"a.example"}}, &tls.Config{}, "b.example",
			"certificate is valid for a.example, not b.example"),
		Entry("the ServerName of the config", SpecTimeout(limit), reloadtest.Options{DNS: []string{"a.example"}}, &tls.Config{ServerName: "a.example"}, "", ""),
		Entry("not another ServerName of the config", SpecTimeout(limit), reloadtest.Options{DNS: []string{"a.example"}}, &tls.Config{ServerName: "b.example"}, "",
			"certificate is valid for a.example, not b.example"),
	)

	It("do not trust a CA that is not theirs", func(ctx SpecContext) {
		other := reloadtest.NewCA(reloadtest.Options{})
		s := serve(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{leaf(other).TLS()}}))
		_, err := askAnew(ctx, s, reloadgrpc.NewClientCredentials(live(bundle(leaf(ca), ca)), nil))
		Expect(err).To(beUnavailable("certificate signed by unknown authority"))
	}, SpecTimeout(limit))

	It("show the live leaf to a server on the next connection", func(ctx SpecContext) {
		s := serve(reloadgrpc.NewServerCredentials(live(bundle(leaf(ca), ca)), mutual()))
		first, second := leaf(ca), leaf(ca)
		identity := live(bundle(first, ca))
		creds := reloadgrpc.NewClientCredentials(identity, &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(8)})
		Expect(askAnew(ctx, s, creds)).To(And(HaveField("Client", first.Fingerprint()), HaveField("Resumed", false)))
		Expect(askAnew(ctx, s, creds)).To(And(HaveField("Client", first.Fingerprint()), HaveField("Resumed", true)))
		identity.Store(bundle(second, ca))
		Expect(askAnew(ctx, s, creds)).To(And(HaveField("Client", second.Fingerprint()), HaveField("Resumed", false)))
		Expect(askAnew(ctx, s, creds)).To(And(HaveField("Client", second.Fingerprint()), HaveField("Resumed", true)))
	}, SpecTimeout(limit))

	DescribeTable("neither connect nor resume once the root of the server is withdrawn",
		func(ctx SpecContext, version uint16) {
			next := reloadtest.NewCA(reloadtest.Options{})
			s := serve(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{leaf(ca).TLS()}, MaxVersion: version}))
			own := leaf(ca)
			identity := live(bundle(own, next, ca))
			creds := reloadgrpc.NewClientCredentials(identity, &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(8)})
			Expect(askAnew(ctx, s, creds)).To(HaveField("Resumed", false))
			Expect(askAnew(ctx, s, creds)).To(HaveField("Resumed", true))
			identity.Store(bundle(own, next))
			_, err := askAnew(ctx, s, creds)
			Expect(err).To(beUnavailable("certificate signed by unknown authority"))
		},
		Entry("in TLS 1.2", SpecTimeout(limit), uint16(tls.VersionTLS12)),
		Entry("in TLS 1.3", SpecTimeout(limit), uint16(tls.VersionTLS13)),
	)

	It("say why they refuse every server before anything is loaded, and connect afterwards", func(ctx SpecContext) {
		s := serve(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{leaf(ca).TLS()}}))
		identity := reload.NewStore()
		channel := dial(s, reloadgrpc.NewClientCredentials(identity, &tls.Config{InsecureSkipVerify: true}))
		_, err := ask(ctx, channel)
		Expect(err).To(beUnavailable(reload.ErrNoCertificate.Error()))
		identity.Store(bundle(leaf(ca), ca))
		channel.ResetConnectBackoff()
		Expect(ask(ctx, channel, grpc.WaitForReady(true))).Error().NotTo(HaveOccurred())
	}, SpecTimeout(limit))

	It("refuse a server that does not negotiate HTTP/2", func(ctx SpecContext) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			tls.Server(there, &tls.Config{Certificates: []tls.Certificate{leaf(ca).TLS()}}).Handshake()
		}()
		_, _, err := reloadgrpc.NewClientCredentials(live(bundle(leaf(ca), ca)), nil).ClientHandshake(ctx, "localhost", here)
		Expect(err).To(MatchError(ContainSubstring("missing selected ALPN property")))
	}, SpecTimeout(limit))

	It("give up when the context does", func(ctx SpecContext) {
		here, there := net.Pipe()
		defer there.Close()
		for _, option := range [][]reloadgrpc.Option{nil, {reloadgrpc.Drain()}} {
			over, cancel := context.WithCancel(ctx)
			cancel()
			_, _, err := reloadgrpc.NewClientCredentials(live(bundle(leaf(ca), ca)), nil, option...).ClientHandshake(over, "localhost", here)
			Expect(err).To(MatchError(context.Canceled))
		}
	}, SpecTimeout(limit))

	It("are described as those of credentials.NewTLS are, and cloned with their server name", func() {
		theirs := credentials.NewTLS(&tls.Config{ServerName: "a.example"})
		base := &tls.Config{ServerName: "a.example"}
		ours := reloadgrpc.NewClientCredentials(reload.NewStore(), base)
		Expect(ours.Info()).To(Equal(theirs.Info()))
		clone := ours.Clone()
		//lint:ignore SA1019 deprecated, and part of the interface
		Expect(clone.OverrideServerName("b.example")).To(Succeed())
		Expect(clone.Info()).To(HaveField("ServerName", "b.example"))
		Expect(clone.Clone().Info()).To(HaveField("ServerName", "b.example"))
		Expect(ours.Info()).To(Equal(theirs.Info()))
		Expect(base).To(HaveField("ServerName", "a.example"))
		Expect(reloadgrpc.NewClientCredentials(reload.NewStore(), nil).Info()).To(Equal(credentials.NewTLS(nil).Info()))
	})

	It("verify the server by a name that overrides that of the config, in no clone made before", func(ctx SpecContext) {
		s := serve(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{ca.Issue(reloadtest.Options{DNS: []string{"b.example"}}).TLS()},
		}))
		base := &tls.Config{ServerName: "a.example"}
		theirs := base.Clone()
		theirs.RootCAs = ca.Pool()
		identity := live(bundle(leaf(ca), ca))
		for _, creds := range []credentials.TransportCredentials{
			credentials.NewTLS(theirs),
			reloadgrpc.NewClientCredentials(identity, base),
			reloadgrpc.NewClientCredentials(identity, base, reloadgrpc.Drain()),
		} {
			before := creds.Clone()
			//lint:ignore SA1019 deprecated, and part of the interface
			Expect(creds.OverrideServerName("b.example")).To(Succeed())
			Expect(askAnew(ctx, s, creds)).Error().NotTo(HaveOccurred())
			Expect(askAnew(ctx, s, creds.Clone())).Error().NotTo(HaveOccurred())
			_, err := askAnew(ctx, s, before)
			Expect(err).To(beUnavailable("certificate is valid for b.example, not a.example"))
		}
	}, SpecTimeout(limit))

	It("do not serve", func() {
		_, _, err := reloadgrpc.NewClientCredentials(reload.NewStore(), nil).ServerHandshake(nil)
		Expect(err).To(MatchError("reloadgrpc: client credentials in a server"))
	})
})

var _ = Describe("server credentials", func() {
	var ca *reloadtest.CA

	BeforeEach(func() { ca = reloadtest.NewCA(reloadtest.Options{}) })

	DescribeTable("show the live leaf, and resume sessions across a rotation of it",
		func(ctx SpecContext, version uint16, base *tls.Config) {
			first, second := leaf(ca), leaf(ca)
			source := live(bundle(first, ca))
			s := serve(reloadgrpc.NewServerCredentials(source, base))
			creds := reloadgrpc.NewClientCredentials(live(bundle(leaf(ca), ca)), &tls.Config{
				ClientSessionCache: tls.NewLRUClientSessionCache(8), MaxVersion: version,
			})
			Expect(askAnew(ctx, s, creds)).To(And(HaveField("Server", first.Fingerprint()), HaveField("Resumed", false)))
			source.Store(bundle(second, ca))
			Expect(askAnew(ctx, s, creds)).To(HaveField("Resumed", true))
			Expect(askAnew(ctx, s, reloadgrpc.NewClientCredentials(live(bundle(leaf(ca), ca)), nil))).To(HaveField("Server", second.Fingerprint()))
		},
		Entry("in TLS 1.2", SpecTimeout(limit), uint16(tls.VersionTLS12), &tls.Config{}),
		Entry("in TLS 1.3", SpecTimeout(limit), uint16(tls.VersionTLS13), &tls.Config{}),
		Entry("in TLS 1.2, with clients verified", SpecTimeout(limit), uint16(tls.VersionTLS12), mutual()),
		Entry("in TLS 1.3, with clients verified", SpecTimeout(limit), uint16(tls.VersionTLS13), mutual()),
	)

	It("serve any number of servers, which resume each other's sessions", func(ctx SpecContext) {
		served := reloadgrpc.NewServerCredentials(live(bundle(leaf(ca), ca)), mutual())
		creds := reloadgrpc.NewClientCredentials(live(bundle(leaf(ca), ca)), &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(8)})
		Expect(askAnew(ctx, serve(served), creds, grpc.WithAuthority("localhost"))).To(HaveField("Resumed", false))
		Expect(askAnew(ctx, serve(served), creds, grpc.WithAuthority("localhost"))).To(HaveField("Resumed", true))
	}, SpecTimeout(limit))

	DescribeTable("let a client whose CA was withdrawn neither connect nor resume",
		func(ctx SpecContext, version uint16, clone bool) {
			others := reloadtest.NewCA(reloadtest.Options{})
			own := leaf(ca)
			source := live(bundle(own, ca, others))
			served := reloadgrpc.NewServerCredentials(source, mutual())
			if clone {
				served = served.Clone()
			}
			s := serve(served)
			resuming := reloadgrpc.NewClientCredentials(live(bundle(leaf(others), ca)), &tls.Config{
				ClientSessionCache: tls.NewLRUClientSessionCache(8), MaxVersion: version,
			})
			fresh := reloadgrpc.NewClientCredentials(live(bundle(leaf(others), ca)), &tls.Config{MaxVersion: version})
			Expect(askAnew(ctx, s, resuming)).To(HaveField("Resumed", false))
			Expect(askAnew(ctx, s, resuming)).To(HaveField("Resumed", true))

			source.Store(bundle(own, ca))
			// What the client hears of it depends on whether the alert or the end of the connection reaches it first.
			for _, creds := range []credentials.TransportCredentials{resuming, fresh} {
				_, err := askAnew(ctx, s, creds)
				Expect(err).To(beUnavailable(""))
			}
			Expect(askAnew(ctx, s, reloadgrpc.NewClientCredentials(live(bundle(leaf(ca), ca)), nil))).Error().NotTo(HaveOccurred())
		},
		Entry("in TLS 1.2", SpecTimeout(limit), uint16(tls.VersionTLS12), false),
		Entry("in TLS 1.3", SpecTimeout(limit), uint16(tls.VersionTLS13), false),
		Entry("in TLS 1.3, with a clone of the credentials", SpecTimeout(limit), uint16(tls.VersionTLS13), true),
	)

	DescribeTable("refuse with the cause",
		func(ctx SpecContext, source func() *reload.Store, base *tls.Config, cause error) {
			here, there := net.Pipe()
			go func() {
				defer here.Close()
				tls.Client(here, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).Handshake()
			}()
			_, _, err := reloadgrpc.NewServerCredentials(source(), base).ServerHandshake(there)
			Expect(err).To(MatchError(cause))
		},
		Entry("nothing is loaded", SpecTimeout(limit), reload.NewStore, nil, reload.ErrNoCertificate),
		Entry("clients are to be verified and there is no CA file", SpecTimeout(limit),
			func() *reload.Store { return live(bundle(leaf(ca))) }, mutual(), reload.ErrNoClientCAs),
	)

	DescribeTable("negotiate HTTP/2 with a client in any language",
		func(ctx SpecContext, base *tls.Config, offered []string, negotiated string) {
			s := serve(reloadgrpc.NewServerCredentials(live(bundle(leaf(ca), ca)), base))
			dialer := tls.Dialer{Config: &tls.Config{
				RootCAs: ca.Pool(), NextProtos: offered, Certificates: []tls.Certificate{leaf(ca).TLS()},
			}}
			c, err := dialer.DialContext(ctx, "tcp", s.addr)
			Expect(err).NotTo(HaveOccurred())
			defer c.Close()
			Expect(c.(*tls.Conn).ConnectionState().NegotiatedProtocol).To(Equal(negotiated))
			if negotiated == "" {
				Expect(io.ReadAll(c)).Error().NotTo(HaveOccurred()) // closed
			}
		},
		Entry("", SpecTimeout(limit), nil, []string{"h2"}, "h2"),
		Entry("when it verifies clients", SpecTimeout(limit), mutual(), []string{"h2"}, "h2"),
		Entry("when it verifies clients and names its own protocols", SpecTimeout(limit),
			&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"other"}}, []string{"http/1.1", "h2"}, "h2"),
		Entry("and serve none that does not know it", SpecTimeout(limit), mutual(), nil, ""),
	)

	It("are described as those of credentials.NewTLS are", func() {
		Expect(reloadgrpc.NewServerCredentials(reload.NewStore(), nil).Info()).To(Equal(credentials.NewTLS(nil).Info()))
		Expect(reloadgrpc.NewServerCredentials(reload.NewStore(), nil).Clone().Info()).To(Equal(credentials.NewTLS(nil).Info()))
	})

	It("do not dial", func(ctx SpecContext) {
		_, _, err := reloadgrpc.NewServerCredentials(reload.NewStore(), nil).ClientHandshake(ctx, "localhost", nil)
		Expect(err).To(MatchError("reloadgrpc: server credentials in a client"))
	}, SpecTimeout(limit))
})

var _ = Describe("both sides", func() {
	DescribeTable("know of each other what credentials.NewTLS tells",
		func(ctx SpecContext, options ...reloadgrpc.Option) {
			ca := reloadtest.NewCA(reloadtest.Options{})
			workload := named(ca, "spiffe://example.org/workload")
			source := live(bundle(workload, ca))
			seen := make(chan credentials.AuthInfo, 1)
			served := watching{reloadgrpc.NewServerCredentials(source, mutual(), options...), seen}
			channel := dial(serve(served), reloadgrpc.NewClientCredentials(source, nil, options...),
				grpc.WithAuthority("localhost"), grpc.WithPerRPCCredentials(token{}))
			a, err := ask(ctx, channel, grpc.CallAuthority("localhost:443"))
			Expect(err).NotTo(HaveOccurred())
			for _, info := range []credentials.AuthInfo{a.Info, <-seen} {
				tlsInfo := info.(credentials.TLSInfo)
				Expect(tlsInfo.State.VerifiedChains).To(HaveLen(1))
				Expect(tlsInfo.State.NegotiatedProtocol).To(Equal("h2"))
				Expect(tlsInfo.SPIFFEID).To(HaveField("Path", "/workload"))
				Expect(credentials.CheckSecurityLevel(info, credentials.PrivacyAndIntegrity)).To(Succeed())
			}
			_, err = ask(ctx, channel, grpc.CallAuthority("other.example"))
			Expect(err).To(beUnavailable("failed to validate authority"))
		},
		Entry("", SpecTimeout(limit)),
		Entry("when they drain", SpecTimeout(limit), reloadgrpc.Drain()),
	)

	It("follow a Reloader", func(ctx SpecContext) {
		ca := reloadtest.NewCA(reloadtest.Options{})
		first, second := leaf(ca), leaf(ca)
		volume, err := reloadtest.NewKubelet(GinkgoT().TempDir(), first.Files(ca))
		Expect(err).NotTo(HaveOccurred())
		r, err := reload.NewReloader(reload.FromDir(volume.Dir), "grpc", quiet)
		Expect(err).NotTo(HaveOccurred())
		s := serve(reloadgrpc.NewServerCredentials(r, mutual()))
		creds := reloadgrpc.NewClientCredentials(r, nil)
		Expect(askAnew(ctx, s, creds)).To(And(HaveField("Server", first.Fingerprint()), HaveField("Client", first.Fingerprint())))
		Expect(volume.Update(second.Files(ca))).To(Succeed())
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(askAnew(ctx, s, creds)).To(And(HaveField("Server", second.Fingerprint()), HaveField("Client", second.Fingerprint())))
	}, SpecTimeout(limit))
})

// watching notes what each handshake of a server has found out.
type watching struct {
	credentials.TransportCredentials
	seen chan<- credentials.AuthInfo
}

func (w watching) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := w.TransportCredentials.ServerHandshake(raw)
	if err == nil {
		w.seen <- info
	}
	return c, info, err
}

// token goes out on secure connections only.
type token struct{}

func (token) RequireTransportSecurity() bool { return true }
func (token) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	info, _ := credentials.RequestInfoFromContext(ctx)
	return map[string]string{"authorization": "Bearer token"},
		credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity)
}

// named issues a leaf for localhost and a URI.
func named(ca *reloadtest.CA, uri string) *reloadtest.Keypair {
	GinkgoHelper()
	k := leaf(ca)
	id, err := url.Parse(uri)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), NotBefore: k.Leaf.NotBefore, NotAfter: k.Leaf.NotAfter,
		DNSNames: k.Leaf.DNSNames, IPAddresses: k.Leaf.IPAddresses, URIs: []*url.URL{id},
		KeyUsage: k.Leaf.KeyUsage, ExtKeyUsage: k.Leaf.ExtKeyUsage,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Cert, k.Key.Public(), ca.Key)
	Expect(err).NotTo(HaveOccurred())
	k.CertPEM = pemOf(der)
	return k
}

// quiet keeps a Reloader out of the way: it looks when it is told to.
func quiet(o *reload.WatchOptions) { o.PollOnly, o.Resync = true, time.Hour }
