package reload_test

//lint:file-ignore SA1019 deprecated fields are in use, and must not get in the way

// resumption_test.go shows who may come back after a rotation, with a session ticket and without, and whose keys seal the
// tickets.

import (
	"crypto/rand"
	"crypto/tls"
	"os"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("A client that comes back", func() {
	var (
		serverCA, clientCA *reloadtest.CA
		store              *reload.Store
		server, client     *tls.Config
		late               time.Duration // how far the server's clock has moved on
	)
	BeforeEach(func() {
		serverCA = reloadtest.NewCA(reloadtest.Options{Name: "server CA"})
		clientCA = reloadtest.NewCA(reloadtest.Options{Name: "client CA"})
		store = reload.NewStore()
		store.Store(generation(serverCA, clientCA))
		late = 0
		server = store.ServerConfig(&tls.Config{
			ClientAuth: tls.RequireAndVerifyClientCert,
			Time:       func() time.Time { return time.Now().Add(late) },
		})
		client = visitorOf(serverCA, clientCA.Issue(reloadtest.Options{NotAfter: time.Now().Add(time.Hour)}))
	})

	type change struct {
		after         string
		happens       func()
		resumes, anew types.GomegaMatcher // with a ticket, without
	}
	unknown := beRefused("unknown authority")
	for _, c := range []change{
		{"nothing", func() {}, beResumed(), beFull()},
		{"the leaf is rotated", func() { store.Store(generation(serverCA, clientCA)) }, beResumed(), beFull()},
		{"a CA is added", func() { store.Store(generation(serverCA, clientCA, serverCA)) }, beResumed(), beFull()},
		{"its CA is renewed with the same key", func() {
			store.Store(generation(serverCA, clientCA.Renew(reloadtest.Options{})))
		}, beFull(), beFull()},
		{"its CA is withdrawn", func() { store.Store(generation(serverCA, serverCA)) }, unknown, unknown},
		{"the CA file is gone", func() { store.Store(generation(serverCA)) }, beRefused(reload.ErrNoClientCAs.Error()), beRefused(reload.ErrNoClientCAs.Error())},
		{"its certificate expired", func() { late = 2 * time.Hour }, beRefused("expired"), beRefused("expired")},
	} {
		DescribeTable("after "+c.after, Label("fips-server"),
			func(version uint16) {
				client.MinVersion, client.MaxVersion = version, version
				with, without := client.Clone(), client.Clone()
				with.ClientSessionCache = tls.NewLRUClientSessionCache(0)
				Expect(visit(server, with)).To(beFull())
				Expect(visit(server, with)).To(beResumed())
				c.happens()
				Expect(visit(server, with)).To(c.resumes, "with a ticket")
				Expect(visit(server, without)).To(c.anew, "without")
			},
			Entry("in TLS 1.2", uint16(tls.VersionTLS12)),
			Entry("in TLS 1.3", uint16(tls.VersionTLS13)),
		)
	}

	DescribeTable("without a certificate resumes across rotations",
		func(version uint16) {
			server = store.ServerConfig(nil)
			client = &tls.Config{RootCAs: serverCA.Pool(), ServerName: "localhost", MaxVersion: version}
			client.ClientSessionCache = tls.NewLRUClientSessionCache(0)
			Expect(visit(server, client)).To(beFull())
			for range 20 {
				store.Store(generation(serverCA))
				Expect(visit(server, client)).To(beResumed())
			}
		},
		Entry("in TLS 1.2", uint16(tls.VersionTLS12)),
		Entry("in TLS 1.3", uint16(tls.VersionTLS13)),
	)

	DescribeTable("is served the same in FIPS mode",
		func(ctx SpecContext, mode string) {
			if strings.Contains(os.Getenv("GODEBUG"), "fips140=") {
				Skip("already run again")
			}
			rerun(ctx, "fips-server", func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "GODEBUG=fips140="+mode) })
		},
		Entry("on", SpecTimeout(2*time.Minute), "on"),
		Entry("only", SpecTimeout(2*time.Minute), "only"),
	)

	Describe("ticket keys", func() {
		var frozen *frozenSession

		BeforeEach(func() {
			frozen = &frozenSession{inner: tls.NewLRUClientSessionCache(0)}
			client = visitorOf(serverCA, clientCA.Issue(reloadtest.Options{NotAfter: time.Now().Add(30 * 24 * time.Hour)}))
			client.ClientSessionCache = frozen
		})
		rotate := func() { store.Store(generation(serverCA, clientCA)) }

		It("are made, rotated daily and dropped after a week by crypto/tls, whatever the generation", func() {
			Expect(visit(server, client)).To(beFull())
			frozen.frozen = true
			for _, late = range []time.Duration{0, 23 * time.Hour, 25 * time.Hour, 50 * time.Hour, 7*24*time.Hour - time.Hour} {
				rotate()
				Expect(visit(server, client)).To(beResumed(), "%s later", late)
			}
			late = 7*24*time.Hour + time.Hour
			Expect(visit(server, client)).To(beFull())
		})

		DescribeTable("set on base are shared by servers, and can be changed on the config returned",
			func(auth tls.ClientAuthType) {
				base := &tls.Config{ClientAuth: auth}
				old := [][32]byte{aKey()}
				base.SetSessionTicketKeys(old)
				first, second := store.ServerConfig(base), store.ServerConfig(base)
				Expect(visit(first, client)).To(beFull())
				frozen.frozen = true
				rotate()
				Expect(visit(second, client)).To(beResumed())

				second.SetSessionTicketKeys([][32]byte{aKey(), old[0]})
				Expect(visit(second, client)).To(beResumed(), "the old key still opens")
				second.SetSessionTicketKeys([][32]byte{aKey()})
				Expect(visit(second, client)).To(beFull(), "the old key was withdrawn")
				rotate()
				Expect(visit(second, client)).To(beFull())
				Expect(visit(first, client)).To(beResumed())
			},
			Entry("plain", tls.NoClientCert),
			Entry("verifying clients", tls.RequireAndVerifyClientCert),
		)

		It("in the deprecated field of base are used", func() {
			key := aKey()
			first := store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketKey: key})
			second := store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketKey: key})
			Expect(visit(first, client)).To(beFull())
			frozen.frozen = true
			rotate()
			Expect(visit(second, client)).To(beResumed())
			second.SetSessionTicketKeys([][32]byte{aKey()})
			Expect(visit(second, client)).To(beFull(), "that key was withdrawn")
		})

		It("set on a clone that a server made are used", func() {
			clone := server.Clone()
			clone.SetSessionTicketKeys([][32]byte{aKey()})
			Expect(visit(clone, client)).To(beFull())
			frozen.frozen = true
			rotate()
			Expect(visit(clone, client)).To(beResumed())
			clone.SetSessionTicketKeys([][32]byte{aKey()})
			Expect(visit(clone, client)).To(beFull())
		})

		It("give way to the user's own wrapping of sessions", func() {
			keys := new(tls.Config)
			var wrapped, unwrapped int
			own := store.ServerConfig(&tls.Config{
				ClientAuth: tls.RequireAndVerifyClientCert,
				WrapSession: func(cs tls.ConnectionState, ss *tls.SessionState) ([]byte, error) {
					wrapped++
					return keys.EncryptTicket(cs, ss)
				},
				UnwrapSession: func(ticket []byte, cs tls.ConnectionState) (*tls.SessionState, error) {
					unwrapped++
					return keys.DecryptTicket(ticket, cs)
				},
			})
			client.NextProtos = []string{"h3"}
			for _, served := range []*tls.Config{own, asHTTP3(own)} {
				wrapped, unwrapped = 0, 0
				client.ClientSessionCache = tls.NewLRUClientSessionCache(0)
				Expect(visit(served, client)).To(beFull())
				rotate()
				Expect(visit(served, client)).To(beResumed())
				Expect(wrapped).To(Equal(2))
				Expect(unwrapped).To(Equal(1))
			}
		})

		It("are not used where tickets are disabled", func() {
			off := store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketsDisabled: true})
			client.NextProtos = []string{"h3"}
			for _, served := range []*tls.Config{off, asHTTP3(off)} {
				Expect(visit(served, client)).To(beFull())
				Expect(visit(served, client)).To(beFull())
			}
		})

		When("quic-go serves HTTP/3", func() {
			DescribeTable("outlive a generation",
				func(base *tls.Config) {
					own := store.ServerConfig(base)
					served := asHTTP3(own)
					client.NextProtos = []string{"h3"}
					Expect(visit(served, client)).To(beFull())
					frozen.frozen = true
					for range 3 {
						rotate()
						Expect(visit(served, client)).To(beResumed())
					}
				},
				Entry("plain", &tls.Config{}),
				Entry("verifying clients", &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}),
				Entry("with a config of the user's", &tls.Config{
					GetConfigForClient: func() func(*tls.ClientHelloInfo) (*tls.Config, error) {
						theirs := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}
						return func(*tls.ClientHelloInfo) (*tls.Config, error) { return theirs, nil }
					}(),
				}),
			)

			It("are those of the config returned", func() {
				served := asHTTP3(server)
				server.SetSessionTicketKeys([][32]byte{aKey()})
				client.NextProtos = []string{"h3"}
				Expect(visit(served, client)).To(beFull())
				frozen.frozen = true
				Expect(visit(served, client)).To(beResumed())
				server.SetSessionTicketKeys([][32]byte{aKey()})
				Expect(visit(served, client)).To(beFull())
			})
		})
	})
})

// frozenSession keeps the first session it was given, once frozen, as the thief of a ticket would.
type frozenSession struct {
	inner  tls.ClientSessionCache
	frozen bool
}

func (f *frozenSession) Get(name string) (*tls.ClientSessionState, bool) { return f.inner.Get(name) }

func (f *frozenSession) Put(name string, s *tls.ClientSessionState) {
	if !f.frozen {
		f.inner.Put(name, s)
	}
}

func aKey() (key [32]byte) {
	must(rand.Read(key[:]))
	return key
}

// asHTTP3 does to a config what quic-go's http3.Server does: it serves on a clone, and wraps the sealing of tickets in
// that and in every config that GetConfigForClient returns, by default with the keys of the config at hand.
func asHTTP3(cfg *tls.Config) *tls.Config {
	_, _ = cfg.DecryptTicket(nil, tls.ConnectionState{}) // has the keys made before they are cloned
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"h3"}
	wrap, unwrap := cfg.WrapSession, cfg.UnwrapSession
	if wrap == nil {
		wrap = cfg.EncryptTicket
	}
	if unwrap == nil {
		unwrap = cfg.DecryptTicket
	}
	cfg.WrapSession = func(cs tls.ConnectionState, ss *tls.SessionState) ([]byte, error) { return wrap(cs, ss) }
	cfg.UnwrapSession = func(ticket []byte, cs tls.ConnectionState) (*tls.SessionState, error) { return unwrap(ticket, cs) }
	if perClient := cfg.GetConfigForClient; perClient != nil {
		cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			cfg, err := perClient(hello)
			if cfg == nil || err != nil {
				return nil, err
			}
			return asHTTP3(cfg), nil
		}
	}
	return cfg
}
