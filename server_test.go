package reload_test

//lint:file-ignore SA1019 deprecated fields are in use, and must not get in the way

// server_test.go shakes hands with servers whose config follows a Store.

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("ServerConfig", func() {
	var (
		serverCA, clientCA *reloadtest.CA
		store              *reload.Store
		visitor            *tls.Config // a client with a certificate of clientCA
	)
	BeforeEach(func() {
		serverCA = reloadtest.NewCA(reloadtest.Options{Name: "server CA"})
		clientCA = reloadtest.NewCA(reloadtest.Options{Name: "client CA"})
		store = reload.NewStore()
		store.Store(generation(serverCA, clientCA))
		visitor = visitorOf(serverCA, clientCA.Issue(reloadtest.Options{Name: "visitor"}))
	})

	for _, name := range []string{"localhost", ""} {
		It(fmt.Sprintf("presents the live leaf to a client that sends the name %q", name), func() {
			server := store.ServerConfig(nil)
			visitor.ServerName = name
			visitor.InsecureSkipVerify = true
			for range 3 {
				b := generation(serverCA)
				store.Store(b)
				Expect(visit(server, visitor).leaf()).To(Equal(b.Fingerprint))
			}
		})

		It(fmt.Sprintf("lets no certificate of base win, for the name %q", name), func() {
			stale := serverCA.Issue(reloadtest.Options{}).TLS()
			base := &tls.Config{
				Certificates:      []tls.Certificate{stale, stale},
				NameToCertificate: map[string]*tls.Certificate{"localhost": &stale},
				GetCertificate:    func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &stale, nil },
			}
			visitor.ServerName = name
			visitor.InsecureSkipVerify = true
			Expect(visit(store.ServerConfig(base), visitor).leaf()).To(Equal(store.Load().Fingerprint))
			Expect(base.Certificates).To(HaveLen(2), "base is the caller's")
		})

		It(fmt.Sprintf("lets no certificate win that a server adds to its clone, for the name %q", name), func() {
			clone := store.ServerConfig(&tls.Config{NextProtos: []string{"h2"}}).Clone()
			clone.Certificates = []tls.Certificate{serverCA.Issue(reloadtest.Options{}).TLS()}
			visitor.ServerName = name
			visitor.InsecureSkipVerify = true
			visitor.NextProtos = []string{"h2"}
			v := visit(clone, visitor)
			Expect(v.leaf()).To(Equal(store.Load().Fingerprint))
			Expect(v.client.NegotiatedProtocol).To(Equal("h2"))
		})
	}

	DescribeTable("serves every key type after any other",
		func(auth tls.ClientAuthType) {
			server := store.ServerConfig(&tls.Config{ClientAuth: auth})
			for _, key := range []reloadtest.KeyType{reloadtest.RSA2048, reloadtest.ECDSAP384, reloadtest.Ed25519, reloadtest.RSA2048} {
				k := serverCA.Issue(reloadtest.Options{Key: key})
				store.Store(must(reload.BundleFromPEM(k.CertPEM, k.KeyPEM, clientCA.PEM())))
				for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
					visitor.MaxVersion = version
					Expect(visit(server, visitor).leaf()).To(Equal(k.Fingerprint()))
				}
			}
		},
		Entry("without client certificates", tls.NoClientCert),
		Entry("with client certificates", tls.RequireAndVerifyClientCert),
	)

	When("nothing is loaded", func() {
		DescribeTable("refuses the handshake with ErrNoCertificate",
			func(auth tls.ClientAuthType, empty func()) {
				server := store.ServerConfig(&tls.Config{ClientAuth: auth})
				visitor.ClientSessionCache = tls.NewLRUClientSessionCache(0)
				Expect(visit(server, visitor)).To(beFull())
				Expect(visit(server, visitor)).To(beResumed())
				empty()
				Expect(visit(server, visitor).serverErr).To(MatchErrorStrictly(reload.ErrNoCertificate))

				var zero reload.Store
				v := visit(zero.ServerConfig(&tls.Config{ClientAuth: auth}), visitor)
				Expect(v.serverErr).To(MatchErrorStrictly(reload.ErrNoCertificate))
			},
			Entry("plain", tls.NoClientCert, func() { store.Store(nil) }),
			Entry("verifying clients", tls.RequireAndVerifyClientCert, func() { store.Store(nil) }),
			Entry("with trust alone", tls.NoClientCert, func() { store.Store(must(reload.BundleFromPEM(nil, nil, serverCA.PEM()))) }),
		)

		It("serves as soon as something is", func() {
			var zero reload.Store
			server := zero.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert})
			Expect(visit(server, visitor)).To(beRefused())
			zero.Store(generation(serverCA, clientCA))
			Expect(visit(server, visitor)).To(beFull())
		})
	})

	It("feeds any number of servers from one Store", func() {
		first, second := store.ServerConfig(nil), store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert})
		listener := &tls.Config{GetCertificate: store.GetCertificate}
		b := generation(serverCA, clientCA)
		store.Store(b)
		for _, server := range []*tls.Config{first, second, listener} {
			Expect(visit(server, visitor).leaf()).To(Equal(b.Fingerprint))
		}
	})

	Describe("verifying clients", func() {
		DescribeTable("admits a client according to",
			func(auth tls.ClientAuthType, known, unknown, none types.GomegaMatcher) {
				server := store.ServerConfig(&tls.Config{ClientAuth: auth})
				Expect(visit(server, visitor)).To(known)
				stranger := reloadtest.NewCA(reloadtest.Options{}).Issue(reloadtest.Options{})
				Expect(visit(server, visitorOf(serverCA, stranger))).To(unknown)
				Expect(visit(server, &tls.Config{RootCAs: serverCA.Pool(), ServerName: "localhost"})).To(none)
			},
			Entry("NoClientCert", tls.NoClientCert, beFull(), beFull(), beFull()),
			Entry("RequestClientCert", tls.RequestClientCert, beFull(), beFull(), beFull()),
			Entry("RequireAnyClientCert", tls.RequireAnyClientCert, beFull(), beFull(), beRefused()),
			Entry("VerifyClientCertIfGiven", tls.VerifyClientCertIfGiven, beFull(), beRefused(), beFull()),
			Entry("RequireAndVerifyClientCert", tls.RequireAndVerifyClientCert, beFull(), beRefused(), beRefused()),
		)

		It("names the live CAs to clients, and shows handlers the verified chain", func() {
			server := store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert})
			store.Store(generation(serverCA, clientCA, serverCA))
			var named [][]byte
			certificate := visitor.GetClientCertificate
			visitor.GetClientCertificate = func(req *tls.CertificateRequestInfo) (*tls.Certificate, error) {
				named = req.AcceptableCAs
				return certificate(req)
			}
			v := visit(server, visitor)
			Expect(v).To(beFull())
			Expect(named).To(ConsistOf(clientCA.Cert.RawSubject, serverCA.Cert.RawSubject))
			Expect(v.server.VerifiedChains).To(HaveLen(1))
		})

		DescribeTable("names no CAs to clients whose certificates are only asked for",
			func(auth tls.ClientAuthType, configure func() *tls.Config) {
				server := configure()
				server.ClientAuth = auth
				asked := false
				visitor.GetClientCertificate = func(req *tls.CertificateRequestInfo) (*tls.Certificate, error) {
					asked = true
					Expect(req.AcceptableCAs).To(BeEmpty())
					return new(tls.Certificate), nil
				}
				visit(server, visitor)
				Expect(asked).To(BeTrue())
			},
			Entry("RequestClientCert", tls.RequestClientCert, func() *tls.Config { return store.ServerConfig(nil) }),
			Entry("RequireAnyClientCert", tls.RequireAnyClientCert, func() *tls.Config {
				return store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAnyClientCert})
			}),
		)

		DescribeTable("refuses the handshake with ErrNoClientCAs while there is no CA file",
			func(auth tls.ClientAuthType) {
				store.Store(generation(serverCA))
				server := store.ServerConfig(&tls.Config{ClientAuth: auth})
				Expect(visit(server, visitor).serverErr).To(MatchErrorStrictly(reload.ErrNoClientCAs))
				store.Store(generation(serverCA, clientCA))
				Expect(visit(server, visitor)).To(beFull())
			},
			Entry("VerifyClientCertIfGiven", tls.VerifyClientCertIfGiven),
			Entry("RequireAndVerifyClientCert", tls.RequireAndVerifyClientCert),
		)

		It("keeps the ClientCAs of base, which follow nothing", func() {
			server := store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clientCA.Pool()})
			for _, b := range []*reload.Bundle{generation(serverCA), generation(serverCA, serverCA)} {
				store.Store(b)
				Expect(visit(server, visitor).leaf()).To(Equal(b.Fingerprint))
				Expect(visit(server, visitorOf(serverCA, serverCA.Issue(reloadtest.Options{})))).To(beRefused())
			}
		})

		When("a server drops the callbacks", func() {
			withoutCallbacks := func(cfg *tls.Config) *tls.Config {
				cfg.GetConfigForClient = nil
				return cfg
			}
			insider := func() *tls.Config { return visitorOf(serverCA, clientCA.Issue(reloadtest.Options{})) }

			It("trusts what was live when the config was made", func() {
				server := withoutCallbacks(store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}))
				store.Store(generation(serverCA, serverCA))
				Expect(visit(server, insider())).To(beFull())
				Expect(visit(server, visitorOf(serverCA, serverCA.Issue(reloadtest.Options{})))).To(beRefused())
			})

			DescribeTable("trusts nobody where there was nothing to trust",
				func(auth tls.ClientAuthType, b func() *reload.Bundle) {
					store.Store(b())
					server := withoutCallbacks(store.ServerConfig(&tls.Config{ClientAuth: auth}))
					store.Store(generation(serverCA, clientCA))
					server.ClientAuth = tls.RequireAndVerifyClientCert
					Expect(visit(server, insider())).To(beRefused())
				},
				Entry("no bundle", tls.RequireAndVerifyClientCert, func() *reload.Bundle { return nil }),
				Entry("no CA file", tls.RequireAndVerifyClientCert, func() *reload.Bundle { return generation(serverCA) }),
				Entry("no ClientAuth yet", tls.NoClientCert, func() *reload.Bundle { return generation(serverCA, clientCA) }),
			)

			It("does not let others add to the bundle's own pool", func() {
				server := store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert})
				server.ClientCAs.AddCert(serverCA.Cert)
				Expect(store.Load().ClientCAs.Equal(clientCA.Pool())).To(BeTrue())
			})
		})
	})

	Describe("in place", func() {
		var server *tls.Config
		BeforeEach(func() {
			server = new(tls.Config)
			store.ConfigureServer(server)
		})

		It("verifies clients by a ClientAuth that is set later", func() {
			server.ClientAuth = tls.RequireAndVerifyClientCert
			Expect(visit(server, &tls.Config{RootCAs: serverCA.Pool(), ServerName: "localhost"})).To(beRefused())
			Expect(visit(server, visitor)).To(beFull())
			store.Store(generation(serverCA, serverCA))
			Expect(visit(server, visitor)).To(beRefused())
		})

		It("verifies clients by a ClientAuth that is set later on a clone", func() {
			clone := server.Clone()
			clone.ClientAuth = tls.RequireAndVerifyClientCert
			Expect(visit(clone, &tls.Config{RootCAs: serverCA.Pool(), ServerName: "localhost"})).To(beRefused())
			Expect(visit(clone, visitor)).To(beFull())
			store.Store(generation(serverCA, serverCA))
			Expect(visit(clone, visitor)).To(beRefused())
		})

		DescribeTable("keeps ClientCAs that are set later",
			func(served func() *tls.Config) {
				later := served()
				later.ClientAuth, later.ClientCAs = tls.RequireAndVerifyClientCert, serverCA.Pool()
				b := generation(serverCA, clientCA)
				store.Store(b)
				Expect(visit(later, visitor)).To(beRefused())
				Expect(visit(later, visitorOf(serverCA, serverCA.Issue(reloadtest.Options{}))).leaf()).To(Equal(b.Fingerprint))
			},
			Entry("in place", func() *tls.Config { return server }),
			Entry("on a clone", func() *tls.Config { return server.Clone() }),
		)

		It("keeps to other fields that are set later", func() {
			server.ClientAuth = tls.RequireAndVerifyClientCert
			server.MinVersion = tls.VersionTLS13
			server.NextProtos = []string{"b", "a"}
			visitor.NextProtos = []string{"a", "b"}
			Expect(visit(server, visitor).client.NegotiatedProtocol).To(Equal("b"))
			visitor.MaxVersion = tls.VersionTLS12
			Expect(visit(server, visitor)).To(beRefused())
		})

		It("can be done twice, for two stores too", func() {
			other := reload.NewStore()
			other.Store(generation(serverCA, serverCA))
			other.ConfigureServer(server)
			store.ConfigureServer(server)
			Expect(visit(server, visitor).leaf()).To(Equal(store.Load().Fingerprint))
		})
	})

	Describe("the user's own hooks", func() {
		DescribeTable("calls VerifyConnection on every handshake",
			func(auth tls.ClientAuthType) {
				var calls int
				refuse := errors.New("revoked")
				var verdict error
				server := store.ServerConfig(&tls.Config{ClientAuth: auth, VerifyConnection: func(tls.ConnectionState) error {
					calls++
					return verdict
				}})
				visitor.ClientSessionCache = tls.NewLRUClientSessionCache(0)
				Expect(visit(server, visitor)).To(beFull())
				Expect(visit(server, visitor)).To(beResumed())
				Expect(calls).To(Equal(2))
				verdict = refuse
				Expect(visit(server, visitor).serverErr).To(MatchErrorStrictly(refuse))
			},
			Entry("plain", tls.NoClientCert),
			Entry("verifying clients", tls.RequireAndVerifyClientCert),
		)

		It("calls VerifyPeerCertificate with the verified chain", func() {
			var chains [][]*x509.Certificate
			server := store.ServerConfig(&tls.Config{
				ClientAuth: tls.RequireAndVerifyClientCert,
				VerifyPeerCertificate: func(_ [][]byte, verified [][]*x509.Certificate) error {
					chains = verified
					return nil
				},
			})
			Expect(visit(server, visitor)).To(beFull())
			Expect(chains).To(HaveLen(1))
		})

		Describe("GetConfigForClient", func() {
			var (
				answer  *tls.Config
				failure error
				server  *tls.Config
			)
			BeforeEach(func() {
				answer, failure = nil, nil
				server = store.ServerConfig(&tls.Config{
					ClientAuth:         tls.RequireAndVerifyClientCert,
					GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return answer, failure },
				})
			})

			It("may return nil", func() {
				Expect(visit(server, visitor)).To(beFull())
				store.Store(generation(serverCA, serverCA))
				Expect(visit(server, visitor)).To(beRefused())
			})

			It("may fail", func() {
				failure = errors.New("not you")
				Expect(visit(server, visitor).serverErr).To(MatchErrorStrictly(failure))
			})

			It("may return a config, which has the live leaf in place of its own", func() {
				stale := serverCA.Issue(reloadtest.Options{}).TLS()
				answer = &tls.Config{Certificates: []tls.Certificate{stale}, NextProtos: []string{"theirs"}}
				visitor.NextProtos = []string{"theirs"}
				v := visit(server, visitor)
				Expect(v.leaf()).To(Equal(store.Load().Fingerprint))
				Expect(v.client.NegotiatedProtocol).To(Equal("theirs"))
				Expect(v.server.PeerCertificates).To(BeEmpty(), "its ClientAuth counts")
				Expect(answer.Certificates).To(HaveLen(1), "it is the user's")
			})

			It("may return a config that verifies clients, by the live ClientCAs if it has none", func() {
				answer = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}
				visitor.ClientSessionCache = tls.NewLRUClientSessionCache(0)
				Expect(visit(server, visitor)).To(beFull())
				Expect(visit(server, visitor)).To(beResumed())
				store.Store(generation(serverCA, serverCA))
				Expect(visit(server, visitor)).To(beRefused())
				store.Store(generation(serverCA))
				Expect(visit(server, visitor).serverErr).To(MatchErrorStrictly(reload.ErrNoClientCAs))
				answer = server.Clone()
				Expect(visit(server, visitor).serverErr).To(MatchErrorStrictly(reload.ErrNoClientCAs))
			})

			It("may return a config with ClientCAs and ticket keys of its own", func() {
				answer = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clientCA.Pool()}
				answer.SetSessionTicketKeys([][32]byte{{1}})
				visitor.ClientSessionCache = tls.NewLRUClientSessionCache(0)
				store.Store(generation(serverCA, serverCA))
				Expect(visit(server, visitor)).To(beFull())
				Expect(visit(server, visitor)).To(beResumed())
				answer.SetSessionTicketKeys([][32]byte{{2}})
				Expect(visit(server, visitor)).To(beFull())
			})
		})
	})

	It("passes on every field that it does not own", func() {
		owned := []string{"Certificates", "NameToCertificate", "GetCertificate", "GetConfigForClient", "ClientCAs",
			"SessionTicketKey", "VerifyConnection"}
		base := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketKey: [32]byte{1}}
		fields := reflect.ValueOf(base).Elem()
		for i := range fields.NumField() {
			if f := fields.Type().Field(i); f.IsExported() && !slices.Contains(owned, f.Name) && f.Name != "ClientAuth" {
				fields.Field(i).Set(something(f.Type))
			}
		}
		inner, err := store.ServerConfig(base).GetConfigForClient(&tls.ClientHelloInfo{})
		Expect(err).NotTo(HaveOccurred())
		for i := range fields.NumField() {
			f := fields.Type().Field(i)
			if !f.IsExported() || slices.Contains(owned, f.Name) {
				continue
			}
			got, want := reflect.ValueOf(inner).Elem().Field(i), fields.Field(i)
			Expect(want.IsZero()).To(BeFalse(), f.Name)
			if f.Type.Kind() == reflect.Func {
				Expect(got.Pointer()).To(Equal(want.Pointer()), f.Name)
			} else {
				Expect(got.Interface()).To(Equal(want.Interface()), f.Name)
			}
		}
		Expect(inner.SessionTicketKey).To(BeZero(), "keys are the serving config's")
	})

	It("knows every field of tls.Config", func() {
		// A field that is not here may be one that must not be copied, or must stay with the serving config.
		known := strings.Fields(`Rand Time Certificates NameToCertificate GetCertificate GetClientCertificate
			GetConfigForClient VerifyPeerCertificate VerifyConnection RootCAs NextProtos ServerName ClientAuth ClientCAs
			InsecureSkipVerify CipherSuites PreferServerCipherSuites SessionTicketsDisabled SessionTicketKey
			ClientSessionCache UnwrapSession WrapSession MinVersion MaxVersion CurvePreferences
			DynamicRecordSizingDisabled Renegotiation KeyLogWriter EncryptedClientHelloConfigList
			EncryptedClientHelloRejectionVerify GetEncryptedClientHelloKeys EncryptedClientHelloKeys`)
		var fields []string
		for _, f := range reflect.VisibleFields(reflect.TypeFor[tls.Config]()) {
			if f.IsExported() {
				fields = append(fields, f.Name)
			}
		}
		Expect(fields).To(ConsistOf(known))
	})

	DescribeTable("adds no allocation of its own to a handshake",
		func(auth tls.ClientAuthType) {
			server := store.ServerConfig(&tls.Config{ClientAuth: auth, NextProtos: []string{"h2", "http/1.1"}})
			hello := new(tls.ClientHelloInfo)
			Expect(testing.AllocsPerRun(100, func() {
				if _, err := server.GetConfigForClient(hello); err != nil {
					panic(err)
				}
			})).To(BeZero())
		},
		Entry("plain", tls.NoClientCert),
		Entry("verifying clients", tls.RequireAndVerifyClientCert),
	)

	It("serves handshakes and swaps at the same time", func(ctx SpecContext) {
		server := store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert})
		bundles := []*reload.Bundle{store.Load(), generation(serverCA, clientCA), generation(serverCA, clientCA, serverCA)}
		var failed, done atomic.Int32
		for range 3 {
			go func() {
				defer GinkgoRecover()
				defer done.Add(1)
				client := visitor.Clone()
				client.ClientSessionCache = tls.NewLRUClientSessionCache(0)
				for range 15 {
					if v := visit(server, client); v.clientErr != nil || v.serverErr != nil {
						failed.Add(1)
					}
				}
			}()
		}
		for i := 0; done.Load() < 3; i++ {
			store.Store(bundles[i%len(bundles)])
			visit(server, visitor)
		}
		Expect(failed.Load()).To(BeZero())
	}, SpecTimeout(time.Minute))
})

// generation returns a bundle with a new leaf of ca; cas are in its CA file.
func generation(ca *reloadtest.CA, cas ...*reloadtest.CA) *reload.Bundle {
	GinkgoHelper()
	k := ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(60 * 24 * time.Hour)})
	var caPEM []byte
	for _, ca := range cas {
		caPEM = append(caPEM, ca.PEM()...)
	}
	return must(reload.BundleFromPEM(k.CertPEM, k.KeyPEM, caPEM))
}

// visitorOf returns the config of a client that trusts ca and presents k whichever CAs the server names.
func visitorOf(ca *reloadtest.CA, k *reloadtest.Keypair) *tls.Config {
	cert := k.TLS()
	return &tls.Config{
		RootCAs:    ca.Pool(),
		ServerName: "localhost",
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &cert, nil
		},
	}
}

// visited is how one connection went, on both sides.
type visited struct {
	client, server       tls.ConnectionState
	clientErr, serverErr error
}

// visit makes one connection, over which the server sends a byte. A client of TLS 1.3 takes its handshake to be over
// before the server has judged its certificate, and session tickets come with the first read, so that it reads.
func visit(server, client *tls.Config) (v visited) {
	listener := must(net.Listen("tcp", "127.0.0.1:0")) // net.Pipe has no buffer: an alert that crosses a flight blocks
	defer listener.Close()
	near := must(net.Dial("tcp", listener.Addr().String()))
	defer near.Close()
	far := must(listener.Accept())
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer far.Close()
		conn := tls.Server(far, server)
		if v.serverErr = conn.Handshake(); v.serverErr != nil {
			return
		}
		v.server = conn.ConnectionState()
		_, v.serverErr = conn.Write([]byte{1})
	}()
	conn := tls.Client(near, client)
	v.clientErr = conn.Handshake()
	if v.clientErr == nil {
		_, v.clientErr = io.ReadFull(conn, make([]byte, 1))
		v.client = conn.ConnectionState()
	}
	near.Close()
	<-served
	return v
}

// leaf returns the fingerprint of the leaf that the client was shown, or why it was not.
func (v visited) leaf() string {
	if v.clientErr != nil || v.serverErr != nil {
		return fmt.Sprintf("%v; %v", v.clientErr, v.serverErr)
	}
	return (&reloadtest.Keypair{Leaf: v.client.PeerCertificates[0]}).Fingerprint()
}

func (v visited) went() string {
	switch {
	case v.clientErr != nil || v.serverErr != nil:
		return fmt.Sprintf("refused: %v; %v", v.serverErr, v.clientErr)
	case v.server.DidResume:
		return "resumed"
	default:
		return "full"
	}
}

func beFull() types.GomegaMatcher    { return WithTransform(visited.went, Equal("full")) }
func beResumed() types.GomegaMatcher { return WithTransform(visited.went, Equal("resumed")) }

// beRefused is about a server that would not have the client, with any of the given words in its error.
func beRefused(words ...string) types.GomegaMatcher {
	if len(words) == 0 {
		return WithTransform(func(v visited) error { return v.serverErr }, HaveOccurred())
	}
	var either []types.GomegaMatcher
	for _, w := range words {
		either = append(either, MatchError(ContainSubstring(w)))
	}
	return WithTransform(func(v visited) error { return v.serverErr }, Or(either...))
}

// something returns a value of t that is not zero.
func something(t reflect.Type) reflect.Value {
	switch t.Kind() {
	case reflect.Func:
		return reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value { panic("called") })
	case reflect.Slice:
		return reflect.MakeSlice(t, 1, 1)
	case reflect.Pointer:
		return reflect.New(t.Elem())
	case reflect.Bool:
		return reflect.ValueOf(true)
	case reflect.String:
		return reflect.ValueOf("something")
	case reflect.Interface:
		for _, v := range []any{io.LimitReader(nil, 0), io.Discard, tls.NewLRUClientSessionCache(0)} {
			if reflect.TypeOf(v).Implements(t) {
				return reflect.ValueOf(v)
			}
		}
		panic("no " + t.String())
	default:
		v := reflect.New(t).Elem()
		if v.CanInt() {
			v.SetInt(1)
		} else {
			v.SetUint(1)
		}
		return v
	}
}

func must[T any](v T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return v
}
