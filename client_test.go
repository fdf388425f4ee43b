package reload_test

// client_test.go holds the specs of ClientConfig, and the TLS server that judges clients in all client specs.

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// tlsVersions runs a table once for each version.
var tlsVersions = []TableEntry{
	Entry("over TLS 1.2", uint16(tls.VersionTLS12), SpecTimeout(time.Minute)),
	Entry("over TLS 1.3", uint16(tls.VersionTLS13), SpecTimeout(time.Minute)),
}

var _ = Describe("ClientConfig", Label("fips-client"), func() {
	var (
		ca, other *reloadtest.CA
		store     *reload.Store
	)
	BeforeEach(func() {
		ca, other = reloadtest.NewCA(reloadtest.Options{Name: "ca"}), reloadtest.NewCA(reloadtest.Options{Name: "other"})
		store = reload.NewStore()
	})

	It("presents the live identity to a server it verifies with the live roots", func(ctx SpecContext) {
		store.Store(identityOf(ca, "one"))
		judge := newJudge(ctx, ca, ca)
		Expect(judge.meet(store.ClientConfig(nil))).To(HaveField("Client", "one"))

		store.Store(identityOf(ca, "two"))
		Expect(judge.meet(store.ClientConfig(nil))).To(HaveField("Client", "two"))
	})

	It("keeps a config to the generation it was made in", func(ctx SpecContext) {
		store.Store(identityOf(ca, "one"))
		cfg := store.ClientConfig(nil)
		store.Store(bundleOf(other.Issue(reloadtest.Options{Name: "two"}), other))
		Expect(newJudge(ctx, ca, ca).meet(cfg)).To(HaveField("Client", "one"))
	})

	DescribeTable("verifies the host as crypto/tls does", func(ctx SpecContext, name string, match any) {
		store.Store(identityOf(ca, "client"))
		_, err := newJudge(ctx, ca, ca).meet(store.ClientConfig(&tls.Config{ServerName: name}))
		Expect(err).To(Satisfy(match))
	},
		Entry("a host name", "localhost", succeeded),
		Entry("a host name in capitals, with a final dot", "LOCALHOST.", succeeded),
		Entry("an IPv4 address", "127.0.0.1", succeeded),
		Entry("an IPv6 address in brackets", "[::1]", succeeded),
		Entry("another host name", "example.org", unverified),
		Entry("another address", "10.0.0.1", unverified),
	)

	DescribeTable("follows roots added and withdrawn", func(ctx SpecContext, version uint16) {
		base := &tls.Config{MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
		client := ca.Issue(reloadtest.Options{Name: "client"})
		judge := newJudge(ctx, ca, ca)
		store.Store(bundleOf(client, ca))
		Expect(judge.meet(store.ClientConfig(base))).To(HaveField("Client", "client"))

		judge.present(other.Issue(reloadtest.Options{}))
		judge.forget()
		Expect(judge.meet(store.ClientConfig(base))).Error().To(Satisfy(unverified))
		store.Store(bundleOf(client, ca, other))
		Expect(judge.meet(store.ClientConfig(base))).To(HaveField("Client", "client"))

		store.Store(bundleOf(client, ca))
		Expect(judge.meet(store.ClientConfig(base))).Error().To(Satisfy(unverified), "neither anew nor by resumption")
	}, tlsVersions)

	DescribeTable("resumes sessions under the identity they were made with, and no other", func(ctx SpecContext, version uint16) {
		base := &tls.Config{MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
		judge := newJudge(ctx, ca, ca)
		one := ca.Issue(reloadtest.Options{Name: "one"})
		store.Store(bundleOf(one, ca))
		Expect(judge.meet(store.ClientConfig(base))).To(Equal(verdictOn{Client: "one"}))
		Expect(judge.meet(store.ClientConfig(base))).To(Equal(verdictOn{Client: "one", Resumed: true}))

		store.Store(bundleOf(one, ca, other))
		Expect(judge.meet(store.ClientConfig(base))).To(Equal(verdictOn{Client: "one", Resumed: true}), "a new root changes no identity")

		store.Store(identityOf(ca, "two"))
		Expect(judge.meet(store.ClientConfig(base))).To(Equal(verdictOn{Client: "two"}))
		Expect(judge.meet(store.ClientConfig(base))).To(Equal(verdictOn{Client: "two", Resumed: true}))

		store.Store(bundleOf(nil, ca))
		judge.accept(tls.VerifyClientCertIfGiven)
		Expect(judge.meet(store.ClientConfig(base))).To(Equal(verdictOn{}), "no identity is one, too")
	}, tlsVersions)

	It("files a late ticket under the identity of its connection", func(ctx SpecContext) {
		base := &tls.Config{MaxVersion: tls.VersionTLS13, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
		judge := newJudge(ctx, ca, ca)
		store.Store(identityOf(ca, "one"))
		conn, err := judge.dial(store.ClientConfig(base)) // its ticket is there once something is read
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()

		store.Store(identityOf(ca, "two"))
		Expect(readVerdict(conn)).To(Equal(verdictOn{Client: "one"}))
		Expect(judge.meet(store.ClientConfig(base))).To(Equal(verdictOn{Client: "two"}))
	})

	DescribeTable("sends what Config.Certificates would send", func(ctx SpecContext, version uint16) {
		judge := newJudge(ctx, ca, other)
		judge.accept(tls.VerifyClientCertIfGiven)
		client := ca.Issue(reloadtest.Options{Name: "client"})
		static := &tls.Config{MaxVersion: version, RootCAs: ca.Pool(), Certificates: []tls.Certificate{client.TLS()}}
		Expect(judge.meet(static)).To(Equal(verdictOn{}), "nothing to a server that asks for other CAs")

		store.Store(bundleOf(client, ca))
		Expect(judge.meet(store.ClientConfig(&tls.Config{MaxVersion: version}))).To(Equal(verdictOn{}))
		judge.trust(ca)
		Expect(judge.meet(store.ClientConfig(&tls.Config{MaxVersion: version}))).To(HaveField("Client", "client"))
	}, tlsVersions)

	DescribeTable("sends no certificate from a trust-only bundle", func(ctx SpecContext, version uint16) {
		store.Store(bundleOf(nil, ca))
		judge := newJudge(ctx, ca, ca)
		Expect(judge.meet(store.ClientConfig(&tls.Config{MaxVersion: version}))).Error().To(MatchError(ContainSubstring("remote error")))
		judge.accept(tls.VerifyClientCertIfGiven)
		Expect(judge.meet(store.ClientConfig(&tls.Config{MaxVersion: version}))).To(Equal(verdictOn{}))
	}, tlsVersions)

	DescribeTable("refuses every server while nothing is loaded", func(ctx SpecContext, version uint16) {
		judge := newJudge(ctx, ca, nil)
		base := &tls.Config{
			MaxVersion:         version,
			RootCAs:            ca.Pool(),
			InsecureSkipVerify: true,
			Certificates:       []tls.Certificate{ca.Issue(reloadtest.Options{}).TLS()},
			ClientSessionCache: tls.NewLRUClientSessionCache(8),
			VerifyConnection:   func(tls.ConnectionState) error { return nil },
		}
		Expect(judge.meet(base)).To(Equal(verdictOn{}))

		Expect(judge.meet(store.ClientConfig(base))).Error().To(MatchError(reload.ErrNoCertificate))
		Expect(judge.meet(store.ClientConfig(nil))).Error().To(MatchError(reload.ErrNoCertificate))
		store.Store(identityOf(ca, "client"))
		store.Store(nil)
		Expect(judge.meet(store.ClientConfig(base))).Error().To(MatchError(reload.ErrNoCertificate))
		Expect(new(reload.Store).ClientConfig(nil).GetClientCertificate(nil)).Error().To(MatchError(reload.ErrNoCertificate))
	}, tlsVersions)

	It("keeps what it does not own of base, and base as it is", func(ctx SpecContext) {
		var asked atomic.Int32
		base := &tls.Config{
			ServerName:            "localhost",
			NextProtos:            []string{"ours"},
			MinVersion:            tls.VersionTLS13,
			Certificates:          []tls.Certificate{other.Issue(reloadtest.Options{}).TLS()},
			RootCAs:               other.Pool(),
			VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error { asked.Add(1); return nil },
			VerifyConnection:      func(tls.ConnectionState) error { asked.Add(10); return nil },
		}
		store.Store(identityOf(ca, "client"))
		cfg := store.ClientConfig(base)
		Expect(cfg).To(And(HaveField("NextProtos", base.NextProtos), HaveField("MinVersion", base.MinVersion), HaveField("InsecureSkipVerify", false)))
		Expect(newJudge(ctx, ca, ca).meet(cfg)).To(HaveField("Client", "client"))
		Expect(asked.Load()).To(BeEquivalentTo(11))
		Expect(base.Certificates).To(HaveLen(1))
		Expect(base.RootCAs.Equal(other.Pool())).To(BeTrue())
		Expect(store.ClientConfig(base)).NotTo(BeIdenticalTo(cfg))

		base.VerifyConnection = func(tls.ConnectionState) error { return errors.New("not today") }
		Expect(newJudge(ctx, ca, ca).meet(store.ClientConfig(base))).Error().To(MatchError("not today"))
	})

	It("leaves the roots of base where the bundle has no CA file", func(ctx SpecContext) {
		store.Store(bundleOf(ca.Issue(reloadtest.Options{Name: "client"})))
		judge := newJudge(ctx, ca, ca)
		Expect(judge.meet(store.ClientConfig(&tls.Config{RootCAs: ca.Pool()}))).To(HaveField("Client", "client"))
		Expect(judge.meet(store.ClientConfig(nil))).Error().To(Satisfy(unverified))
	})

	It("takes a bundle made by hand", func(ctx SpecContext) {
		base := &tls.Config{RootCAs: ca.Pool(), ClientSessionCache: tls.NewLRUClientSessionCache(8)}
		judge := newJudge(ctx, ca, ca)
		for _, name := range []string{"one", "two"} {
			store.Store(&reload.Bundle{Cert: ca.Issue(reloadtest.Options{Name: name}).TLS()})
			Expect(judge.meet(store.ClientConfig(base))).To(Equal(verdictOn{Client: name}))
		}
	})

	It("gives each handshake the identity and the roots of one generation while others are published", func(ctx SpecContext) {
		type side struct {
			judge  *judge
			bundle *reload.Bundle
		}
		sides := []side{
			{newJudge(ctx, ca, ca), identityOf(ca, "one")},
			{newJudge(ctx, other, other), bundleOf(other.Issue(reloadtest.Options{Name: "two"}), other)},
		}
		store.Store(sides[0].bundle)
		done := make(chan struct{})
		var swaps sync.WaitGroup
		swaps.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
					store.Store(sides[i%2].bundle)
				}
			}
		})
		defer swaps.Wait()
		defer close(done)
		var met int
		for range 20 {
			cfg := store.ClientConfig(nil)
			for _, s := range sides {
				if _, err := s.judge.meet(cfg.Clone()); err == nil {
					met++
				}
			}
		}
		Expect(met).To(Equal(20), "each config suits one side in both respects")
	})
})

// The suite runs itself again with every spec of the client in FIPS 140-3 mode.
var _ = DescribeTable("clients in FIPS 140-3 mode", Label("fips-parent"), func(ctx SpecContext, mode string) {
	rerun(ctx, "fips-client", func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "GODEBUG=fips140="+mode) })
},
	Entry("behave the same when it is on", "on", SpecTimeout(5*time.Minute)),
	Entry("behave the same when nothing else is allowed", "only", SpecTimeout(5*time.Minute)),
)

// succeeded and unverified are what handshakes end with.
func succeeded(err error) bool { return err == nil }

func unverified(err error) bool {
	var verification *tls.CertificateVerificationError
	return errors.As(err, &verification)
}

// bundleOf publishes nothing yet: it makes the bundle of a keypair, nil for none, and a CA file.
func bundleOf(k *reloadtest.Keypair, cas ...*reloadtest.CA) *reload.Bundle {
	GinkgoHelper()
	var cert, key, roots []byte
	if k != nil {
		cert, key = k.CertPEM, k.KeyPEM
	}
	for _, ca := range cas {
		roots = append(roots, ca.PEM()...)
	}
	b, err := reload.BundleFromPEM(cert, key, roots)
	Expect(err).NotTo(HaveOccurred())
	return b
}

// identityOf makes a bundle whose leaf and only root are ca's.
func identityOf(ca *reloadtest.CA, name string) *reload.Bundle {
	GinkgoHelper()
	return bundleOf(ca.Issue(reloadtest.Options{Name: name}), ca)
}

// judge is a TLS server that tells each client whom it takes it for.
type judge struct {
	addr string
	cfg  atomic.Pointer[tls.Config]
}

// verdictOn a client: the common name it proved, empty without one, and whether the session was resumed.
type verdictOn struct {
	Client  string
	Resumed bool
}

// newJudge starts a judge with a leaf of ca that requires clients of clientCA; nil asks for none.
func newJudge(ctx SpecContext, ca, clientCA *reloadtest.CA) *judge {
	GinkgoHelper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	j := &judge{addr: listener.Addr().String()}
	cfg := &tls.Config{Certificates: []tls.Certificate{ca.Issue(reloadtest.Options{}).TLS()}}
	if clientCA != nil {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, clientCA.Pool()
	}
	j.cfg.Store(cfg)
	j.forget()

	var clients sync.WaitGroup
	clients.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			clients.Go(func() { j.serve(conn) })
		}
	})
	DeferCleanup(func() {
		listener.Close()
		clients.Wait()
	})
	return j
}

// serve tells one client its verdict.
func (j *judge) serve(raw net.Conn) {
	defer raw.Close()
	conn := tls.Server(raw, j.cfg.Load())
	if conn.Handshake() != nil {
		return
	}
	verdict := verdictOn{Resumed: conn.ConnectionState().DidResume}
	if certs := conn.ConnectionState().PeerCertificates; len(certs) > 0 {
		verdict.Client = certs[0].Subject.CommonName
	}
	json.NewEncoder(conn).Encode(verdict)
	conn.CloseWrite()
	io.Copy(io.Discard, conn) // let the client close first
}

// change lets the next handshakes have another config with the same ticket keys.
func (j *judge) change(how func(*tls.Config)) {
	cfg := j.cfg.Load().Clone()
	how(cfg)
	j.cfg.Store(cfg)
}

// present another leaf.
func (j *judge) present(k *reloadtest.Keypair) {
	j.change(func(cfg *tls.Config) { cfg.Certificates = []tls.Certificate{k.TLS()} })
}

// trust the clients of ca.
func (j *judge) trust(ca *reloadtest.CA) {
	j.change(func(cfg *tls.Config) { cfg.ClientCAs = ca.Pool() })
}

// accept clients by another rule.
func (j *judge) accept(auth tls.ClientAuthType) {
	j.change(func(cfg *tls.Config) { cfg.ClientAuth = auth })
}

// forget all sessions.
func (j *judge) forget() {
	var key [32]byte
	rand.Read(key[:])
	j.change(func(cfg *tls.Config) { cfg.SetSessionTicketKeys([][32]byte{key}) })
}

// dial connects a client, to localhost unless cfg says otherwise.
func (j *judge) dial(cfg *tls.Config) (*tls.Conn, error) {
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = "localhost"
	}
	return j.dialAs(cfg)
}

// dialAs connects a client with cfg as it is, without the name tls.Dial would fill in.
func (j *judge) dialAs(cfg *tls.Config) (*tls.Conn, error) {
	raw, err := net.Dial("tcp", j.addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, cfg)
	if err := conn.Handshake(); err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

// meet connects a client and reads its verdict, without which a TLS 1.3 client cannot know that it was accepted.
func (j *judge) meet(cfg *tls.Config) (verdictOn, error) {
	conn, err := j.dial(cfg)
	if err != nil {
		return verdictOn{}, err
	}
	defer conn.Close()
	return readVerdict(conn)
}

func readVerdict(conn *tls.Conn) (v verdictOn, _ error) {
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return v, err
	}
	return v, json.NewDecoder(bytes.NewReader(line)).Decode(&v)
}
