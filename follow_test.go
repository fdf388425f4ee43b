package reload_test

// What goes live, and what does not.

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("A rotation", func() {
	It("goes live, the hundredth like the first", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		s.log.forget()
		for i := range 100 {
			k := s.rotate()
			s.settled()
			Expect(s.shown(r)).To(Equal(k.Fingerprint()))
			Expect(r.Status().Generation).To(BeEquivalentTo(i + 2))
			Expect(s.swaps).To(Receive(BeIdenticalTo(r.Bundle())))
			Expect(s.tally.liveUntil()).To(BeTemporally("==", k.Leaf.NotAfter))
		}
		ok, failed := s.tally.counts()
		Expect([]int{ok, failed}).To(Equal([]int{101, 0}))
		Expect(s.log.said()).To(HaveLen(100))
		Expect(s.log.said()).To(HaveEach("keypair reloaded"))
	}, SpecTimeout(time.Minute))

	DescribeTable("is any change of any file:", inBubble, func(ctx SpecContext, change func(*site, *reloadtest.Keypair)) {
		s := newSite()
		k := s.issue()
		s.put(k.Files(s.ca))
		r := s.started(ctx)
		old := r.Bundle()
		change(s, k)
		s.settled()
		Expect(r.Bundle()).NotTo(BeIdenticalTo(old))
		Expect(r.Status().Generation).To(BeEquivalentTo(2))
		Expect(s.swaps).To(HaveLen(1))
		ok, failed := s.tally.counts()
		Expect([]int{ok, failed}).To(Equal([]int{2, 0}))
		Expect(s.shown(r)).NotTo(BeEmpty())
	},
		Entry("a new pair", func(s *site, _ *reloadtest.Keypair) { s.rotate() }),
		Entry("a new leaf of the same key", func(s *site, k *reloadtest.Keypair) {
			s.write("tls.crt", s.ca.Issue(reloadtest.Options{Signer: k.Key}).CertPEM)
		}),
		Entry("an intermediate under the same leaf", func(s *site, k *reloadtest.Keypair) {
			s.write("tls.crt", append(bytes.Clone(k.CertPEM), s.ca.PEM()...))
		}),
		Entry("one more CA under the same pair", func(s *site, _ *reloadtest.Keypair) {
			s.write("ca.crt", append(s.ca.PEM(), reloadtest.NewCA(reloadtest.Options{}).PEM()...))
		}),
		Entry("another CA under the same pair", func(s *site, _ *reloadtest.Keypair) {
			s.write("ca.crt", reloadtest.NewCA(reloadtest.Options{}).PEM())
		}),
		Entry("a CA renewed under its own name and key", func(s *site, _ *reloadtest.Keypair) {
			s.write("ca.crt", s.ca.Renew(reloadtest.Options{NotAfter: time.Now().Add(time.Hour)}).PEM())
		}),
		Entry("an older pair that is valid", func(s *site, _ *reloadtest.Keypair) {
			now := time.Now()
			s.put(s.ca.Issue(reloadtest.Options{NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(time.Minute)}).Files())
		}),
	)

	It("takes the CA file along that comes later, and keeps it when that goes missing again", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		Expect(r.Bundle().ClientCAs).To(BeNil())
		s.write("ca.crt", s.ca.PEM())
		s.settled()
		live := r.Bundle()
		Expect(live.ClientCAs.Equal(s.ca.Pool())).To(BeTrue())
		Expect(verifies(live.RootCAs, s.issue())).To(Succeed())

		s.remove("ca.crt")
		s.settled()
		Expect(pendingOf(r)).To(MatchError(fs.ErrNotExist))
		s.rotate()
		pass(time.Hour)
		Expect(pendingOf(r)).To(MatchError(fs.ErrNotExist))
		Expect(r.Reload(ctx)).To(MatchError(ContainSubstring(s.path("ca.crt"))))
		Expect(r.Bundle()).To(BeIdenticalTo(live), "under a new pair, too")
	}, SpecTimeout(30*time.Second))

	It("back to the pair of before, which was issued earlier, is one like any other", inBubble, func(ctx SpecContext) {
		s := newSite()
		now := time.Now()
		older := s.ca.Issue(reloadtest.Options{NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(12 * time.Hour)})
		newer := s.ca.Issue(reloadtest.Options{NotBefore: now})
		s.put(older.Files())
		r := s.started(ctx)
		live := func(k *reloadtest.Keypair) {
			GinkgoHelper()
			Expect(s.shown(r)).To(Equal(k.Fingerprint()))
			Expect(pendingOf(r)).NotTo(HaveOccurred())
			Expect(s.swaps).To(Receive(BeIdenticalTo(r.Bundle())))
			Expect(s.tally.liveUntil()).To(BeTemporally("==", k.Leaf.NotAfter))
		}
		for range 2 {
			s.put(newer.Files())
			s.settled()
			live(newer)
			s.put(older.Files())
			s.settled()
			live(older)
		}
		s.put(newer.Files())
		Expect(r.Reload(ctx)).To(Succeed())
		synctest.Wait()
		live(newer)
		s.put(older.Files())
		Expect(r.Reload(ctx)).To(Succeed())
		synctest.Wait()
		live(older)
		Expect(s.log.lines(slog.LevelWarn)).To(BeEmpty())
		Expect(s.tally.failures()).To(BeZero())
	}, SpecTimeout(30*time.Second))

	It("withdraws a CA from both pools", inBubble, func(ctx SpecContext) {
		s := newSite()
		other := reloadtest.NewCA(reloadtest.Options{})
		s.put(s.issue().Files(s.ca, other))
		r := s.started(ctx)
		mine, theirs := s.issue(), other.Issue(reloadtest.Options{})
		s.write("ca.crt", s.ca.PEM())
		s.settled()
		for _, pool := range []*x509.CertPool{r.Bundle().RootCAs, r.Bundle().ClientCAs} {
			Expect(verifies(pool, mine)).To(Succeed())
			Expect(verifies(pool, theirs)).To(MatchError(ContainSubstring("unknown authority")))
		}
	}, SpecTimeout(30*time.Second))

	It("of the CA file alone rotates a bundle that has no keypair", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.write("ca.crt", s.ca.PEM())
		r, err := reload.NewReloader(reload.Paths{CA: s.path("ca.crt")}, "", s.with())
		Expect(err).NotTo(HaveOccurred())
		go r.Start(ctx)
		synctest.Wait()
		Expect(r.Check(nil)).To(Succeed())
		Expect(r.Status().Fingerprint).To(BeEmpty())
		other := reloadtest.NewCA(reloadtest.Options{})
		s.write("ca.crt", other.PEM())
		s.settled()
		Expect(r.Bundle().ClientCAs.Equal(other.Pool())).To(BeTrue())
		s.remove("ca.crt")
		s.settled()
		Expect(r.Bundle().ClientCAs.Equal(other.Pool())).To(BeTrue())
		Expect(pendingOf(r)).To(MatchError(fs.ErrNotExist))
		Expect(s.tally.liveUntil()).To(BeZero())
	}, SpecTimeout(30*time.Second))

	It("of other bytes with the same size and the same modification time goes live", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.issue()
		put := func(f reloadtest.Files) {
			for name, data := range padded(f) {
				s.write(name, data)
				Expect(os.Chtimes(s.path(name), time.Unix(0, 0), time.Unix(0, 0))).To(Succeed())
			}
		}
		put(k.Files())
		r := s.started(ctx)
		for range 3 {
			k = s.issue()
			put(k.Files())
			s.settled()
			Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		}
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("An unchanged pair", func() {
	DescribeTable("is no event when", inBubble, func(ctx SpecContext, again func(*site, reloadtest.Files)) {
		s := newSite()
		f := s.issue().Files(s.ca)
		s.put(f)
		judged := 0
		r := s.started(ctx, func(o *reload.WatchOptions) {
			o.Validate = func(*reload.Bundle) error { judged++; return nil }
		})
		told := make(chan *reload.Bundle, 10)
		defer r.Store().Subscribe(func(b *reload.Bundle) { told <- b })()
		live, before := r.Bundle(), judged
		s.log.forget()
		for range 50 {
			again(s, f)
			s.settled()
		}
		pass(5 * time.Minute)
		Expect(r.Bundle()).To(BeIdenticalTo(live))
		Expect(r.Status().Generation).To(BeEquivalentTo(1))
		Expect(pendingOf(r)).NotTo(HaveOccurred())
		ok, failed := s.tally.counts()
		Expect([]int{ok, failed}).To(Equal([]int{1, 0}))
		Expect(s.log.said()).To(BeEmpty())
		Expect(s.swaps).To(BeEmpty())
		Expect(told).To(BeEmpty())
		Expect(judged).To(Equal(before))
	},
		Entry("nothing happens", func(*site, reloadtest.Files) {}),
		Entry("it is written again", func(s *site, f reloadtest.Files) { s.put(f) }),
		Entry("it is renamed over itself", func(s *site, f reloadtest.Files) { Expect(s.disk.Rename(f)).To(Succeed()) }),
		Entry("it is touched", func(s *site, f reloadtest.Files) {
			Expect(os.Chtimes(s.path("tls.crt"), time.Time{}, time.Now())).To(Succeed())
		}),
		Entry("its mode changes", func(s *site, f reloadtest.Files) { Expect(os.Chmod(s.path("tls.key"), 0o640)).To(Succeed()) }),
		Entry("it is linked from a new place", func(s *site, f reloadtest.Files) {
			place, err := os.MkdirTemp(s.dir, "place")
			Expect(err).NotTo(HaveOccurred())
			for name, data := range f {
				Expect(os.WriteFile(filepath.Join(place, name), data, 0o600)).To(Succeed())
				Expect(os.Remove(s.path(name))).To(Succeed())
				Expect(os.Symlink(filepath.Join(place, name), s.path(name))).To(Succeed())
			}
		}),
		Entry("comments are added", func(s *site, f reloadtest.Files) {
			f["ca.crt"] = append([]byte("our own CA\n"), f["ca.crt"]...)
			s.write("ca.crt", f["ca.crt"])
		}),
		Entry("other files come and go beside it", func(s *site, f reloadtest.Files) {
			s.write("tls.crt.old", []byte("x"))
			s.remove("tls.crt.old")
		}),
	)

	It("is no event when its CAs change places", inBubble, func(ctx SpecContext) {
		s := newSite()
		other := reloadtest.NewCA(reloadtest.Options{})
		k := s.issue()
		s.put(k.Files(s.ca, other))
		r := s.started(ctx)
		live := r.Bundle()
		s.put(k.Files(other, s.ca))
		s.settled()
		Expect(r.Bundle()).To(BeIdenticalTo(live))
		Expect(s.swaps).To(BeEmpty())
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("A candidate that is refused", func() {
	It("is parsed once, however often it is tried", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		seen := map[*reload.Bundle]int{}
		s.started(ctx, func(o *reload.WatchOptions) {
			live := ""
			o.Validate = func(b *reload.Bundle) error {
				if live == "" {
					live = b.Fingerprint
				}
				if b.Fingerprint == live {
					return nil
				}
				seen[b]++
				return errRefused
			}
		})
		s.rotate()
		s.look()
		pass(10 * time.Minute)
		Expect(seen).To(HaveLen(1))
		for _, times := range seen {
			Expect(times).To(BeNumerically(">", 10))
		}
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("A leaf that is not valid now", func() {
	It("does not displace one that is, and goes live when that has expired", inBubble, func(ctx SpecContext) {
		s := newSite()
		good := s.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(time.Hour)})
		s.put(good.Files())
		r := s.started(ctx)
		expired := s.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(-time.Minute)})
		s.put(expired.Files())
		s.look()
		pass(time.Minute)
		Expect(s.shown(r)).To(Equal(good.Fingerprint()))
		Expect(pendingOf(r)).To(MatchError(reload.ErrExpired))
		Expect(pendingOf(r)).To(MatchError("reload: certificate " + s.path("tls.crt") + ": leaf has expired at 1999-12-31T23:59:00Z"))
		Expect(s.tally.failures()).To(Equal(1))
		pass(time.Hour + time.Minute)
		Expect(r.Bundle().Fingerprint).To(Equal(expired.Fingerprint()), "neither is of use: the disk decides")
	}, SpecTimeout(30*time.Second))

	It("goes live at its NotBefore, without any hint", inBubble, func(ctx SpecContext) {
		s := newSite()
		good := s.rotate()
		r := s.started(ctx)
		from := time.Now().Add(3*time.Hour + 7*time.Second).Truncate(time.Second) // as precise as certificates are
		future := s.ca.Issue(reloadtest.Options{NotBefore: from})
		s.put(future.Files())
		s.look()
		Expect(pendingOf(r)).To(MatchError(reload.ErrNotYetValid))
		pass(time.Until(from) - time.Millisecond)
		Expect(s.shown(r)).To(Equal(good.Fingerprint()))
		pass(time.Millisecond)
		Expect(s.shown(r)).To(Equal(future.Fingerprint()))
		Expect(r.Status().LastSwap).To(BeTemporally("==", from))
		Expect(pendingOf(r)).NotTo(HaveOccurred())
		Expect(s.swaps).To(HaveLen(1))
	}, SpecTimeout(30*time.Second))

	It("is forgotten when the files change again", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		s.put(s.ca.Issue(reloadtest.Options{NotBefore: time.Now().Add(time.Hour)}).Files())
		s.look()
		k := s.rotate()
		s.settled()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		pass(2 * time.Hour)
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("does displace one that has expired", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.put(s.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(-time.Minute)}).Files())
		r := s.started(ctx)
		again := s.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(-time.Second)})
		s.put(again.Files())
		s.settled()
		Expect(r.Bundle().Fingerprint).To(Equal(again.Fingerprint()))
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("A store that holds a bundle issued later than the files", func() {
	// ahead returns a store with a bundle issued an hour after the pair on disk, as an informer brings it.
	ahead := func(s *site) (*reload.Store, *reloadtest.Keypair) {
		k := s.ca.Issue(reloadtest.Options{NotBefore: time.Now()})
		return storeOf(k), k
	}

	It("is not swapped back at the first look, but once the files change", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		store, ahead := ahead(s)
		s.watch(ctx, store)
		pass(time.Hour)
		Expect(s.shown(store)).To(Equal(ahead.Fingerprint()))
		Expect(s.log.said()).To(BeEmpty())
		Expect(s.tally.failures()).To(BeZero())

		older := s.ca.Issue(reloadtest.Options{NotBefore: time.Now().Add(-24 * time.Hour)})
		s.put(older.Files())
		s.settled()
		Expect(s.shown(store)).To(Equal(older.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("is left alone when the files catch up", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		store, ahead := ahead(s)
		live := store.Load()
		s.watch(ctx, store)
		pass(time.Minute)
		s.put(ahead.Files())
		s.settled()
		Expect(store.Load()).To(BeIdenticalTo(live))
		Expect(s.swaps).To(BeEmpty())
		k := s.rotate()
		s.settled()
		Expect(s.shown(store)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("is swapped for files that come later, though they were issued earlier", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.issue()
		r := s.reloader(func(o *reload.WatchOptions) { o.AwaitFiles = true })
		bootstrap := s.ca.Issue(reloadtest.Options{NotBefore: time.Now()})
		r.Store().Store(storeOf(bootstrap).Load())
		go r.Start(ctx)
		pass(time.Minute)
		Expect(s.shown(r)).To(Equal(bootstrap.Fingerprint()))
		s.put(k.Files())
		s.settled()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("is swapped for files that are repaired, though they were issued earlier", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		s.write("tls.key", []byte("hello"))
		store, _ := ahead(s)
		s.watch(ctx, store)
		pass(time.Minute)
		s.put(k.Files())
		s.settled()
		Expect(s.shown(store)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("is swapped for changed files though somebody calls Reload while they settle", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		ahead := s.ca.Issue(reloadtest.Options{NotBefore: time.Now()})
		r.Store().Store(storeOf(ahead).Load())
		k := s.rotate()
		s.look()
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("is not swapped back by Reload while the files are the ones it has left behind", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		ahead := s.ca.Issue(reloadtest.Options{NotBefore: time.Now()})
		r.Store().Store(storeOf(ahead).Load())
		for range 2 {
			Expect(r.Reload(ctx)).To(MatchError("reload: the live keypair was issued later: waiting for the files to change"))
		}
		Expect(s.tally.failures()).To(BeZero())
		k := s.rotate()
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("is followed as carefully as any when files are written one by one", inBubble, func(ctx SpecContext) {
		s := newSite()
		other := reloadtest.NewCA(reloadtest.Options{})
		s.put(s.issue().Files(s.ca))
		store, ahead := ahead(s)
		s.watch(ctx, store)
		pass(time.Minute)
		s.put(s.issue().Files())
		s.look()
		pass(3 * reload.DefaultSettle)
		Expect(s.shown(store)).To(Equal(ahead.Fingerprint()), "the CA file may be next")
		s.write("ca.crt", other.PEM())
		s.settled()
		Expect(store.Load().ClientCAs.Equal(other.Pool())).To(BeTrue())
		Expect(s.swaps).To(HaveLen(1))
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("A store that holds what is on disk", func() {
	It("is adopted: no swap, but the expiry is told", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		store := storeOf(k)
		live := store.Load()
		s.watch(ctx, store)
		pass(time.Minute)
		Expect(store.Load()).To(BeIdenticalTo(live))
		Expect(s.tally.liveUntil()).To(BeTemporally("==", k.Leaf.NotAfter))
		Expect(s.log.said()).To(BeEmpty())
		Expect(s.swaps).To(BeEmpty())
	}, SpecTimeout(30*time.Second))

	It("can be emptied, and filled again by the next change", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		store := storeOf(k)
		s.watch(ctx, store)
		store.Store(nil)
		pass(time.Hour)
		Expect(store.Load()).To(BeNil())
		k = s.rotate()
		s.settled()
		Expect(s.shown(store)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("A writer caught half way", func() {
	writers := map[string]func(*reloadtest.Plain, reloadtest.Files) error{
		"in place":  (*reloadtest.Plain).Write,
		"by rename": (*reloadtest.Plain).Rename,
	}
	orders := map[string][]string{
		"key first":         {"tls.key", "tls.crt", "ca.crt"},
		"certificate first": {"tls.crt", "tls.key", "ca.crt"},
		"CA file first":     {"ca.crt", "tls.crt", "tls.key"},
	}
	for how, write := range writers {
		for order, names := range orders {
			It(fmt.Sprintf("never has a mixed state go live: %s, %s", how, order), inBubble, func(ctx SpecContext) {
				s := newSite()
				s.disk.Order = names
				generations := map[string]*reloadtest.CA{}
				next := func() reloadtest.Files {
					ca := reloadtest.NewCA(reloadtest.Options{})
					sub := ca.Intermediate(reloadtest.Options{})
					k := sub.Issue(reloadtest.Options{})
					generations[k.Fingerprint()] = ca
					return k.Files(ca)
				}
				s.put(next())
				r := s.started(ctx)
				check := func() {
					b := r.Bundle()
					ca := generations[b.Fingerprint]
					Expect(ca).NotTo(BeNil())
					Expect(b.Cert.Certificate).To(HaveLen(2))
					Expect(b.ClientCAs.Equal(ca.Pool())).To(BeTrue())
				}
				s.disk.Step = func(string) error {
					s.look()
					pass(reload.DefaultSettle / 2)
					check()
					return nil
				}
				for i := range 10 {
					Expect(write(s.disk, next())).To(Succeed())
					s.settled()
					check()
					Expect(r.Status().Generation).To(BeEquivalentTo(i + 2))
				}
				Expect(s.tally.failures()).To(BeZero())
				Expect(s.log.said()).NotTo(ContainElement(ContainSubstring("failed")))
			}, SpecTimeout(time.Minute))
		}
	}
})

var _ = Describe("A writer that takes its time between two files", func() {
	DescribeTable("has one generation go live, after the last", inBubble, func(ctx SpecContext, pause time.Duration, warnings int, order ...string) {
		s := newSite()
		other := reloadtest.NewCA(reloadtest.Options{})
		s.put(s.issue().Files(s.ca))
		r := s.started(ctx)
		old := r.Bundle()
		s.log.forget()
		k := other.Issue(reloadtest.Options{})
		next := k.Files(other)
		for i, name := range order {
			if i > 0 {
				pass(pause)
			}
			Expect(r.Bundle()).To(BeIdenticalTo(old))
			s.write(name, next[name])
			s.look()
			Expect(pendingOf(r)).To(HaveOccurred())
		}
		pass(reload.DefaultSettle)
		Expect(r.Bundle().Fingerprint).To(Equal(k.Fingerprint()))
		Expect(r.Bundle().ClientCAs.Equal(other.Pool())).To(BeTrue())
		Expect(s.swaps).To(HaveLen(1))
		Expect(s.tally.failures()).To(Equal(warnings))
		Expect(s.log.said()).To(HaveLen(1 + 2*warnings))
	},
		Entry("of 50 ms, CA file first", 50*time.Millisecond, 0, "ca.crt", "tls.crt", "tls.key"),
		Entry("of 900 ms, certificate first", 900*time.Millisecond, 0, "tls.crt", "ca.crt", "tls.key"),
		Entry("of ten seconds, key first", 10*time.Second, 1, "tls.key", "ca.crt", "tls.crt"),
		Entry("of ten seconds, certificate first", 10*time.Second, 1, "tls.crt", "ca.crt", "tls.key"),
		Entry("of ten minutes, key first", 10*time.Minute, 1, "tls.key", "ca.crt", "tls.crt"),
	)
})

// padded makes all files as long as each other, with lines that mean nothing.
func padded(f reloadtest.Files) reloadtest.Files {
	for name, data := range f {
		f[name] = append(data, bytes.Repeat([]byte("#\n"), 2048)...)[:4096]
	}
	return f
}

// storeOf returns a store that holds k.
func storeOf(k *reloadtest.Keypair) *reload.Store {
	GinkgoHelper()
	b, err := reload.BundleFromPEM(k.CertPEM, k.KeyPEM, nil)
	Expect(err).NotTo(HaveOccurred())
	store := reload.NewStore()
	store.Store(b)
	return store
}

// verifies verifies the leaf of k as a client's and a server's.
func verifies(pool *x509.CertPool, k *reloadtest.Keypair) error {
	_, err := k.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}
