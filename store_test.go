package reload_test

// store_test.go says what readers of a store get, and how subscribers are told of swaps.

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
)

var _ = Describe("Store", func() {
	var good, trustOnly *reload.Bundle
	BeforeEach(func() {
		var err error
		good, err = reload.BundleFromPEM(fullchain, privkey, fixture("accept/ca.pem"))
		Expect(err).NotTo(HaveOccurred())
		trustOnly, err = reload.BundleFromPEM(nil, nil, fixture("accept/ca.pem"))
		Expect(err).NotTo(HaveOccurred())
	})

	DescribeTable("answers ErrNoCertificate while it is empty",
		func(store *reload.Store) {
			Expect(store.Load()).To(BeNil())
			cert, err := store.GetCertificate(&tls.ClientHelloInfo{})
			Expect(err).To(MatchErrorStrictly(reload.ErrNoCertificate))
			Expect(cert).To(BeNil())
			cert, err = store.GetClientCertificate(&tls.CertificateRequestInfo{})
			Expect(err).To(MatchErrorStrictly(reload.ErrNoCertificate))
			Expect(cert).To(BeNil())
		},
		Entry("the zero Store", new(reload.Store)),
		Entry("a new one", reload.NewStore()),
		Entry("an emptied one", func() *reload.Store {
			s := reload.NewStore()
			s.Store(new(reload.Bundle))
			s.Store(nil)
			return s
		}()),
	)

	It("is empty again after a nil bundle, and open handshakes fail without a panic", func() {
		store := reload.NewStore()
		store.Store(good)
		Expect(store.Load()).To(BeIdenticalTo(good))
		store.Store(nil)
		Expect(store.Load()).To(BeNil())
		err := overPipe(
			&tls.Config{InsecureSkipVerify: true, GetClientCertificate: store.GetClientCertificate},
			&tls.Config{ClientAuth: tls.RequestClientCert, GetCertificate: store.GetCertificate})
		Expect(err).To(MatchError(reload.ErrNoCertificate))
	})

	It("serves the live leaf whatever name is asked for", func() {
		store := reload.NewStore()
		store.Store(good)
		for _, hello := range []*tls.ClientHelloInfo{nil, {}, {ServerName: "localhost"}, {ServerName: "another.example"}} {
			Expect(store.GetCertificate(hello)).To(BeIdenticalTo(&good.Cert))
		}
	})

	It("serves a new bundle to every handshake after it was stored", func() {
		store := reload.NewStore()
		for _, b := range rotations(3) {
			store.Store(b)
			Expect(mutual(store)).To(Succeed())
			Expect(store.GetCertificate(nil)).To(BeIdenticalTo(&b.Cert))
		}
	})

	DescribeTable("never answers a hook with neither certificate nor error",
		func(bundle func() *reload.Bundle, server, client answer) {
			store := reload.NewStore()
			store.Store(bundle())
			cert, err := store.GetCertificate(&tls.ClientHelloInfo{})
			Expect(answerOf(cert, err)).To(Equal(server))
			cert, err = store.GetClientCertificate(request(tls.VersionTLS13))
			Expect(answerOf(cert, err)).To(Equal(client))
		},
		Entry("nil", func() *reload.Bundle { return nil }, noCertificate, noCertificate),
		Entry("zero", func() *reload.Bundle { return new(reload.Bundle) }, noCertificate, anEmptyOne),
		Entry("trust alone", func() *reload.Bundle { return trustOnly }, noCertificate, anEmptyOne),
		Entry("a keypair", func() *reload.Bundle { return good }, aCertificate, aCertificate),
		Entry("one made by hand", func() *reload.Bundle {
			return &reload.Bundle{Cert: tls.Certificate{Certificate: good.Cert.Certificate, PrivateKey: good.Cert.PrivateKey}}
		}, aCertificate, aCertificate),
		Entry("a mutilated one", func() *reload.Bundle {
			return &reload.Bundle{Cert: tls.Certificate{Certificate: [][]byte{[]byte("x")}}}
		}, aCertificate, anEmptyOne),
	)

	DescribeTable("gives a client the keypair if the server can use it",
		func(req func() *tls.CertificateRequestInfo, want answer) {
			store := reload.NewStore()
			store.Store(good)
			Expect(answerOf(store.GetClientCertificate(req()))).To(Equal(want))
		},
		Entry("any CA will do", func() *tls.CertificateRequestInfo { return request(tls.VersionTLS13) }, aCertificate),
		Entry("its issuer is named", func() *tls.CertificateRequestInfo { return request(tls.VersionTLS13, "pki/intermediate.crt") }, aCertificate),
		Entry("its root is named", func() *tls.CertificateRequestInfo { return request(tls.VersionTLS12, "pki/other.crt", "pki/root.crt") }, aCertificate),
		Entry("only other CAs are named", func() *tls.CertificateRequestInfo { return request(tls.VersionTLS13, "pki/other.crt") }, anEmptyOne),
		Entry("only other algorithms are named", func() *tls.CertificateRequestInfo {
			req := request(tls.VersionTLS13)
			req.SignatureSchemes = []tls.SignatureScheme{tls.Ed25519}
			return req
		}, anEmptyOne),
		Entry("nothing is known of the server", func() *tls.CertificateRequestInfo { return nil }, aCertificate),
	)

	It("lets a client go on without a certificate that an optional server would refuse", func() {
		store := reload.NewStore()
		store.Store(good)
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			Expect(overPipe(
				&tls.Config{InsecureSkipVerify: true, GetClientCertificate: store.GetClientCertificate},
				&tls.Config{MaxVersion: version, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: poolOf("pki/other.crt"), GetCertificate: store.GetCertificate},
			)).To(Succeed())
		}
	})

	It("is read without an allocation", func() {
		store := reload.NewStore()
		store.Store(good)
		hello := &tls.ClientHelloInfo{ServerName: "localhost"}
		Expect(testing.AllocsPerRun(100, func() { store.GetCertificate(hello) })).To(BeZero())
		Expect(testing.AllocsPerRun(100, func() { store.Load() })).To(BeZero())
	})

	It("has no reader wait, for another or for somebody who publishes, nor where a subscriber blocks", func(ctx SpecContext) {
		runtime.SetBlockProfileRate(1) // tells of all who wait for a lock or a channel where they wait
		defer runtime.SetBlockProfileRate(0)
		store, blocked := reload.NewStore(), make(chan struct{})
		defer close(blocked)
		defer store.Subscribe(func(*reload.Bundle) { <-blocked })()
		store.Store(good)
		var readers, writers sync.WaitGroup
		var done atomic.Bool
		for range 8 {
			writers.Go(func() {
				for !done.Load() {
					store.Store(good)
				}
			})
			readers.Go(func() {
				for range 200_000 {
					store.Load()
					store.GetCertificate(nil)
					store.GetClientCertificate(nil)
				}
			})
		}
		readers.Wait()
		Eventually(ctx, waits).Should(HaveKey(HaveSuffix(".(*Store).Store")), "they take turns, and so it would show")
		done.Store(true)
		writers.Wait()
		for _, reader := range []string{"Load", "GetCertificate", "GetClientCertificate"} {
			Expect(waits()).NotTo(HaveKey(HaveSuffix(".(*Store)." + reader)))
		}
	}, SpecTimeout(time.Minute))
})

// waits returns the functions in which somebody has waited since the block profile was switched on.
func waits() map[string]bool {
	records := make([]runtime.BlockProfileRecord, 1000)
	n, ok := runtime.BlockProfile(records)
	for !ok {
		records = make([]runtime.BlockProfileRecord, 2*n)
		n, ok = runtime.BlockProfile(records)
	}
	functions := map[string]bool{}
	for _, r := range records[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			functions[frame.Function] = true
		}
	}
	return functions
}

var _ = Describe("A subscriber", func() {
	// named makes a bundle that is told from others by its fingerprint.
	named := func(name any) *reload.Bundle { return &reload.Bundle{Fingerprint: fmt.Sprint(name)} }
	// told subscribes a function that writes down what it was called with.
	told := func(store *reload.Store) (names chan string, stop func()) {
		names = make(chan string, 100)
		return names, store.Subscribe(func(b *reload.Bundle) {
			if b == nil {
				names <- "nil"
			} else {
				names <- b.Fingerprint
			}
		})
	}
	drained := func(names chan string) (all []string) {
		synctest.Wait()
		for len(names) > 0 {
			all = append(all, <-names)
		}
		return all
	}

	It("is told of what is published from then on, in order, nil where the store was emptied", inBubble, func(context.Context) {
		store := reload.NewStore()
		store.Store(named("before"))
		names, stop := told(store)
		defer stop()
		for _, b := range []*reload.Bundle{named(1), named(2), nil, named(3), named(3)} {
			store.Store(b)
		}
		Expect(drained(names)).To(Equal([]string{"1", "2", "nil", "3", "3"}))
		store.Store(named(4))
		Expect(drained(names)).To(Equal([]string{"4"}))
	}, SpecTimeout(10*time.Second))

	It("that is slow delays neither publications nor others, and misses none", inBubble, func(context.Context) {
		var store reload.Store
		release, slow := make(chan struct{}), make(chan string, 100)
		defer store.Subscribe(func(b *reload.Bundle) {
			<-release
			slow <- b.Fingerprint
		})()
		names, stop := told(&store)
		defer stop()
		for i := range 3 {
			store.Store(named(i))
			Expect(store.Load().Fingerprint).To(Equal(fmt.Sprint(i)))
		}
		Expect(drained(names)).To(Equal([]string{"0", "1", "2"}))
		Expect(drained(slow)).To(BeEmpty())
		close(release)
		Expect(drained(slow)).To(Equal([]string{"0", "1", "2"}))
	}, SpecTimeout(10*time.Second))

	It("is called by one goroutine at a time", inBubble, func(context.Context) {
		store := reload.NewStore()
		running, most := 0, 0 // unguarded on purpose: the race detector looks on
		defer store.Subscribe(func(*reload.Bundle) {
			running++
			most = max(most, running)
			time.Sleep(time.Second)
			running--
		})()
		for i := range 10 {
			store.Store(named(i))
		}
		pass(time.Minute)
		Expect(most).To(Equal(1))
		Expect(running).To(BeZero())
	}, SpecTimeout(10*time.Second))

	It("that panics is logged with its stack, and told of the next swap", inBubble, func(context.Context) {
		var out bytes.Buffer
		previous := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
		defer slog.SetDefault(previous)

		store := reload.NewStore()
		names := make(chan string, 100)
		defer store.Subscribe(func(b *reload.Bundle) {
			names <- b.Fingerprint
			if b.Fingerprint == "1" {
				panic("on purpose")
			}
		})()
		for i := range 3 {
			store.Store(named(i))
		}
		Expect(drained(names)).To(Equal([]string{"0", "1", "2"}))
		Expect(out.String()).To(And(ContainSubstring("level=ERROR"), ContainSubstring(`panic="on purpose"`), ContainSubstring("store_test.go")))
		Expect(bytes.Count(out.Bytes(), []byte("\n"))).To(Equal(1))
	}, SpecTimeout(10*time.Second))

	It("that ends its goroutine is told of the next swap", inBubble, func(context.Context) {
		store := reload.NewStore()
		names := make(chan string, 100)
		defer store.Subscribe(func(b *reload.Bundle) {
			names <- b.Fingerprint
			runtime.Goexit()
		})()
		for i := range 3 {
			store.Store(named(i))
		}
		Expect(drained(names)).To(Equal([]string{"0", "1", "2"}))
	}, SpecTimeout(10*time.Second))

	It("is not called again once stop has returned", inBubble, func(context.Context) {
		store := reload.NewStore()
		release, names := make(chan struct{}), make(chan string, 100)
		stop := store.Subscribe(func(b *reload.Bundle) {
			names <- b.Fingerprint
			<-release
		})
		for i := range 3 {
			store.Store(named(i))
		}
		Expect(drained(names)).To(Equal([]string{"0"}))
		stop()
		close(release)
		store.Store(named("late"))
		Expect(drained(names)).To(BeEmpty())
		stop()
	}, SpecTimeout(10*time.Second))

	It("may stop itself while it is called", inBubble, func(context.Context) {
		store := reload.NewStore()
		names := make(chan string, 100)
		var stop func()
		stop = store.Subscribe(func(b *reload.Bundle) {
			stop()
			names <- b.Fingerprint
		})
		for i := range 3 {
			store.Store(named(i))
		}
		Expect(drained(names)).To(Equal([]string{"0"}))
	}, SpecTimeout(10*time.Second))

	It("stops alone", inBubble, func(context.Context) {
		store := reload.NewStore()
		names, stop := told(store)
		others, stopOthers := told(store)
		defer stopOthers()
		stop()
		store.Store(named(1))
		Expect(drained(names)).To(BeEmpty())
		Expect(drained(others)).To(Equal([]string{"1"}))
	}, SpecTimeout(10*time.Second))

	It("may use the store while it is called", inBubble, func(context.Context) {
		store := reload.NewStore()
		names := make(chan string, 100)
		defer store.Subscribe(func(b *reload.Bundle) {
			names <- b.Fingerprint
			Expect(store.Load()).NotTo(BeNil())
			_, _ = store.GetCertificate(nil)
			_, _ = store.GetClientCertificate(nil)
			stop := store.Subscribe(func(*reload.Bundle) {})
			if b.Fingerprint == "1" {
				store.Store(named("from within"))
			}
			stop()
		})()
		store.Store(named(1))
		Expect(drained(names)).To(Equal([]string{"1", "from within"}))
	}, SpecTimeout(10*time.Second))

	It("may shake hands with the very server while it is called", func(ctx SpecContext) {
		store, done := reload.NewStore(), make(chan error, 10)
		defer store.Subscribe(func(*reload.Bundle) { done <- mutual(store) })()
		for _, b := range rotations(2) {
			store.Store(b)
			Eventually(ctx, done).Should(Receive(BeNil()))
		}
	}, SpecTimeout(time.Minute))

	It("sees concurrent publications in the order that everybody sees", func(ctx SpecContext) {
		const publishers, each = 8, 100
		store := reload.NewStore()
		var seen [2]chan *reload.Bundle
		for i := range seen {
			seen[i] = make(chan *reload.Bundle, publishers*each)
			defer store.Subscribe(func(b *reload.Bundle) { seen[i] <- b })()
		}
		var all sync.WaitGroup
		for p := range publishers {
			all.Go(func() {
				for i := range each {
					store.Store(named(fmt.Sprint(p, " ", i)))
				}
			})
		}
		all.Wait()
		next := map[string]int{}
		var last *reload.Bundle
		for range publishers * each {
			var other *reload.Bundle
			Eventually(ctx, seen[0]).Should(Receive(&last))
			Eventually(ctx, seen[1]).Should(Receive(&other))
			Expect(other).To(BeIdenticalTo(last))
			var p string
			var i int
			_, err := fmt.Sscan(last.Fingerprint, &p, &i)
			Expect(err).NotTo(HaveOccurred())
			Expect(i).To(Equal(next[p]))
			next[p]++
		}
		Expect(store.Load()).To(BeIdenticalTo(last))
	}, SpecTimeout(time.Minute))
})

// answer is what a hook can say.
type answer string

const (
	noCertificate answer = "ErrNoCertificate"
	anEmptyOne    answer = "an empty certificate"
	aCertificate  answer = "a certificate"
)

func answerOf(cert *tls.Certificate, err error) answer {
	switch {
	case cert == nil && err == reload.ErrNoCertificate:
		return noCertificate
	case cert == nil || err != nil:
		return answer(fmt.Sprintf("%v, %v", cert, err))
	case len(cert.Certificate) == 0:
		return anEmptyOne
	default:
		return aCertificate
	}
}

// request is what a server sends that accepts certificates of some CAs, of any if none is named.
func request(version uint16, cas ...string) *tls.CertificateRequestInfo {
	req := &tls.CertificateRequestInfo{Version: version, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}}
	for _, ca := range cas {
		req.AcceptableCAs = append(req.AcceptableCAs, certificate(ca).RawSubject)
	}
	return req
}
