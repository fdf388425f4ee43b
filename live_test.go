package reload_test

// live_test.go holds the specs of LiveClientConfig.

import (
	"cmp"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/fips140"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("LiveClientConfig", Label("fips-client"), func() {
	const unnamed = "no server name to verify"
	var (
		ca, other *reloadtest.CA
		store     *reload.Store
	)
	BeforeEach(func() {
		ca, other = reloadtest.NewCA(reloadtest.Options{Name: "ca"}), reloadtest.NewCA(reloadtest.Options{Name: "other"})
		store = reload.NewStore()
		store.Store(identityOf(ca, "client"))
	})

	// A driver clones the config and may set a name on the clone.
	type names struct{ given, base, driver string }
	DescribeTable("verifies the name", func(ctx SpecContext, n names, refusal string) {
		cfg := store.LiveClientConfig(&tls.Config{ServerName: n.base}, n.given).Clone()
		cfg.ServerName = cmp.Or(n.driver, cfg.ServerName)
		conn, err := newJudge(ctx, ca, ca).dialAs(cfg)
		if refusal != "" {
			Expect(err).To(And(Satisfy(unverified), MatchError(ContainSubstring(refusal))))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		Expect(readVerdict(conn)).To(HaveField("Client", "client"))
	},
		Entry("given", names{given: "localhost"}, ""),
		Entry("given with a final dot", names{given: "localhost."}, ""),
		Entry("given as an IPv4 address", names{given: "127.0.0.1"}, ""),
		Entry("given as an IPv6 address", names{given: "::1"}, ""),
		Entry("given as an IPv6 address in brackets", names{given: "[::1]"}, ""),
		Entry("given, which the server has not", names{given: "example.org"}, "not example.org"),
		Entry("given as an address that the server has not", names{given: "10.0.0.1"}, "not 10.0.0.1"),
		Entry("given, whatever the driver sets", names{given: "localhost", driver: "10.0.0.1"}, ""),
		Entry("given, though the server has the driver's", names{given: "example.org", driver: "localhost"}, "not example.org"),
		Entry("given before that of base", names{given: "localhost", base: "example.org"}, ""),
		Entry("of base, an address", names{base: "127.0.0.1"}, ""),
		Entry("of base, an address that the server has not", names{base: "10.0.0.1"}, "not 10.0.0.1"),
		Entry("that the driver sets", names{driver: "localhost"}, ""),
		Entry("that the driver sets, which the server has not", names{driver: "example.org"}, "not example.org"),
		Entry("never with an address from the driver", names{driver: "127.0.0.1"}, unnamed),
		Entry("never without any", names{}, unnamed),
	)

	DescribeTable("follows roots added and withdrawn", func(ctx SpecContext, version uint16) {
		cfg := store.LiveClientConfig(&tls.Config{MaxVersion: version}, "127.0.0.1")
		judge := newJudge(ctx, ca, ca)
		client := ca.Issue(reloadtest.Options{Name: "client"})
		Expect(judge.meet(cfg)).To(HaveField("Client", "client"))

		judge.present(other.Issue(reloadtest.Options{}))
		Expect(judge.meet(cfg)).Error().To(Satisfy(unverified))
		store.Store(bundleOf(client, ca, other))
		Expect(judge.meet(cfg)).To(HaveField("Client", "client"))
		store.Store(bundleOf(client, ca))
		Expect(judge.meet(cfg)).Error().To(Satisfy(unverified))
	}, tlsVersions)

	DescribeTable("presents the live identity, with a session cache in base", func(ctx SpecContext, version uint16) {
		cfg := store.LiveClientConfig(&tls.Config{MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(8)}, "localhost")
		judge := newJudge(ctx, ca, ca)
		Expect(judge.meet(cfg)).To(Equal(verdictOn{Client: "client"}))
		store.Store(identityOf(ca, "renewed"))
		Expect(judge.meet(cfg)).To(Equal(verdictOn{Client: "renewed"}))

		cfg = cfg.Clone()
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(8) // by the driver
		for range 2 {
			Expect(judge.meet(cfg)).To(Equal(verdictOn{Client: "renewed"}), "nothing is resumed")
		}
	}, tlsVersions)

	DescribeTable("verifies a session that a driver resumes against all odds", func(ctx SpecContext, version uint16) {
		var asked atomic.Int32
		cfg := store.LiveClientConfig(&tls.Config{
			MaxVersion:            version,
			VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error { asked.Add(1); return nil },
			VerifyConnection:      func(tls.ConnectionState) error { asked.Add(10); return nil },
		}, "localhost").Clone()
		cfg.ClientSessionCache, cfg.SessionTicketsDisabled = tls.NewLRUClientSessionCache(8), false
		judge := newJudge(ctx, ca, ca)
		Expect(judge.meet(cfg)).To(Equal(verdictOn{Client: "client"}))
		Expect(judge.meet(cfg)).To(Equal(verdictOn{Client: "client", Resumed: true}))
		Expect(asked.Load()).To(BeEquivalentTo(21), "the hooks run when crypto/tls would run them")

		store.Store(identityOf(other, "client"))
		Expect(judge.meet(cfg)).Error().To(Satisfy(unverified))
	}, tlsVersions)

	It("verifies what crypto/tls verifies", func(ctx SpecContext) {
		judge := newJudge(ctx, ca, ca)
		judge.present(ca.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{}))
		Expect(judge.meet(store.LiveClientConfig(nil, "localhost"))).To(HaveField("Client", "client"), "through intermediates")

		judge.present(ca.Issue(reloadtest.Options{Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}))
		Expect(judge.meet(store.LiveClientConfig(nil, "localhost"))).Error().To(Satisfy(unverified), "the usage")

		judge.present(ca.Issue(reloadtest.Options{}))
		later := func() time.Time { return time.Now().Add(48 * time.Hour) }
		_, err := judge.meet(store.LiveClientConfig(&tls.Config{Time: later}, "localhost"))
		var invalid x509.CertificateInvalidError
		Expect(errors.As(err, &invalid)).To(BeTrue(), "the time, by the clock of base")
		Expect(invalid.Reason).To(Equal(x509.Expired))
		Expect(err).To(Satisfy(unverified))
	})

	It("allows the keys that crypto/tls allows", func(ctx SpecContext) {
		key, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
		Expect(err).NotTo(HaveOccurred())
		odd := reloadtest.NewCA(reloadtest.Options{Signer: key})
		store.Store(bundleOf(nil, odd))
		judge := newJudge(ctx, odd, nil)
		_, static := judge.meet(&tls.Config{RootCAs: odd.Pool()})
		_, live := judge.meet(store.LiveClientConfig(nil, "localhost"))
		for _, err := range []error{static, live} {
			Expect(unverified(err)).To(Equal(fips140.Enabled()), "%v", err)
		}
	})

	DescribeTable("refuses every server while nothing is loaded", func(ctx SpecContext, version uint16) {
		judge := newJudge(ctx, ca, nil)
		cfg := new(reload.Store).LiveClientConfig(&tls.Config{MaxVersion: version, RootCAs: ca.Pool()}, "localhost")
		Expect(judge.meet(cfg)).Error().To(And(MatchError(reload.ErrNoCertificate), Satisfy(unverified)))

		cfg = store.LiveClientConfig(&tls.Config{MaxVersion: version}, "localhost")
		Expect(judge.meet(cfg)).To(Equal(verdictOn{}))
		store.Store(nil)
		Expect(judge.meet(cfg)).Error().To(And(MatchError(reload.ErrNoCertificate), Satisfy(unverified)))
	}, tlsVersions)

	It("sends no certificate from a trust-only bundle", func(ctx SpecContext) {
		store.Store(bundleOf(nil, ca))
		judge := newJudge(ctx, ca, ca)
		cfg := store.LiveClientConfig(&tls.Config{Certificates: []tls.Certificate{ca.Issue(reloadtest.Options{}).TLS()}}, "localhost")
		Expect(judge.meet(cfg)).Error().To(MatchError(ContainSubstring("remote error")))
		judge.accept(tls.VerifyClientCertIfGiven)
		Expect(judge.meet(cfg)).To(Equal(verdictOn{}))
	})

	It("leaves the roots of base where the bundle has no CA file", func(ctx SpecContext) {
		store.Store(bundleOf(ca.Issue(reloadtest.Options{Name: "client"})))
		judge := newJudge(ctx, ca, ca)
		Expect(judge.meet(store.LiveClientConfig(&tls.Config{RootCAs: ca.Pool()}, "localhost"))).To(HaveField("Client", "client"))
		Expect(judge.meet(store.LiveClientConfig(nil, "localhost"))).Error().To(Satisfy(unverified))
	})

	It("runs the hooks of base after the verification and shows them the chains", func(ctx SpecContext) {
		var peer, connection atomic.Pointer[[][]*x509.Certificate]
		base := &tls.Config{
			VerifyPeerCertificate: func(raw [][]byte, chains [][]*x509.Certificate) error {
				Expect(raw).To(HaveLen(1))
				peer.Store(&chains)
				return nil
			},
			VerifyConnection: func(cs tls.ConnectionState) error {
				connection.Store(&cs.VerifiedChains)
				return nil
			},
		}
		judge := newJudge(ctx, ca, ca)
		Expect(judge.meet(store.LiveClientConfig(base, "localhost"))).To(HaveField("Client", "client"))
		for _, chains := range []*[][]*x509.Certificate{peer.Swap(nil), connection.Swap(nil)} {
			Expect(*chains).To(HaveLen(1))
			Expect((*chains)[0][1].Equal(ca.Cert)).To(BeTrue())
		}
		Expect(judge.meet(store.LiveClientConfig(base, "example.org"))).Error().To(Satisfy(unverified))
		Expect(peer.Load()).To(BeNil())
		Expect(connection.Load()).To(BeNil())

		for _, refuse := range []func(error){
			func(err error) { base.VerifyConnection = func(tls.ConnectionState) error { return err } },
			func(err error) {
				base.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { return err }
			},
		} {
			reason := errors.New("not today")
			refuse(reason)
			Expect(judge.meet(store.LiveClientConfig(base, "localhost"))).Error().To(MatchError(reason))
		}
	})

	It("still verifies, by the roots it was made with, for a driver that clears InsecureSkipVerify", func(ctx SpecContext) {
		cfg := store.LiveClientConfig(nil, "localhost")
		cfg.InsecureSkipVerify = false
		judge := newJudge(ctx, ca, ca)
		Expect(judge.meet(cfg)).To(HaveField("Client", "client"))
		store.Store(bundleOf(ca.Issue(reloadtest.Options{}), other))
		Expect(judge.meet(cfg)).Error().To(Satisfy(unverified), "the live roots have the last word")

		cfg = new(reload.Store).LiveClientConfig(nil, "localhost")
		Expect(cfg.RootCAs.Equal(x509.NewCertPool())).To(BeTrue())
	})
})

// Not in FIPS 140-3 mode, which has no X25519.
var _ = Describe("LiveClientConfig with Encrypted Client Hello", func() {
	It("believes no server that rejects it", func(ctx SpecContext) {
		ca, store := reloadtest.NewCA(reloadtest.Options{}), reload.NewStore()
		store.Store(bundleOf(nil, ca))
		judge := newJudge(ctx, ca, nil)
		judge.present(ca.Issue(reloadtest.Options{DNS: []string{"secret.example", "public.example"}}))
		theirs, stale := newECHKey("public.example"), newECHKey("public.example")
		judge.change(func(cfg *tls.Config) { cfg.EncryptedClientHelloKeys = []tls.EncryptedClientHelloKey{theirs} })
		base := &tls.Config{EncryptedClientHelloConfigList: echList(theirs)}
		Expect(judge.meet(store.LiveClientConfig(base, "secret.example"))).To(Equal(verdictOn{}), "one that accepts it")
		Expect(judge.meet(store.LiveClientConfig(base, "other.example"))).Error().To(Satisfy(unverified))

		base.EncryptedClientHelloConfigList = echList(stale)
		Expect(judge.meet(store.LiveClientConfig(base, "secret.example"))).Error().To(Satisfy(unverified))

		base.EncryptedClientHelloRejectionVerify = func(tls.ConnectionState) error { return nil }
		_, err := judge.meet(store.LiveClientConfig(base, "secret.example"))
		var rejected *tls.ECHRejectionError
		Expect(errors.As(err, &rejected)).To(BeTrue(), "base decides: %v", err)
		Expect(rejected.RetryConfigList).To(Equal(echList(theirs)))
	})
})

// newECHKey makes a key and its ECHConfig (RFC 9849): DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM.
func newECHKey(publicName string) tls.EncryptedClientHelloKey {
	GinkgoHelper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	pub := key.PublicKey().Bytes()

	contents := []byte{pub[0], 0x00, 0x20} // id, KEM
	contents = binary.BigEndian.AppendUint16(contents, uint16(len(pub)))
	contents = append(contents, pub...)
	contents = append(contents, 0, 4, 0, 1, 0, 1, 32, byte(len(publicName))) // ciphers, longest name
	contents = append(contents, publicName...)
	contents = append(contents, 0, 0) // extensions

	config := binary.BigEndian.AppendUint16([]byte{0xfe, 0x0d}, uint16(len(contents)))
	return tls.EncryptedClientHelloKey{Config: append(config, contents...), PrivateKey: key.Bytes(), SendAsRetry: true}
}

// echList makes the ECHConfigList of one key, as DNS has it.
func echList(key tls.EncryptedClientHelloKey) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(key.Config))), key.Config...)
}
