package reload_test

// When the files are looked at, and how watching ends.

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("Watch", func() {
	It("looks at once: a change between load and watch is seen", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		store := storeOf(k)
		k = s.rotate()
		s.watch(ctx, store)
		pass(reload.DefaultSettle)
		Expect(s.shown(store)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("fills an empty store, and calls that a swap", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		store := reload.NewStore()
		s.watch(ctx, store)
		pass(reload.DefaultSettle)
		Expect(s.shown(store)).To(Equal(k.Fingerprint()))
		Expect(s.swaps).To(Receive(BeIdenticalTo(store.Load())))
		ok, failed := s.tally.counts()
		Expect([]int{ok, failed}).To(Equal([]int{1, 0}))
		Expect(s.log.said()).To(Equal([]string{"keypair loaded"}))
	}, SpecTimeout(30*time.Second))

	It("says so once and returns nil where there is no directory", inBubble, func(ctx SpecContext) {
		s := newSite()
		o := reload.WatchOptions{}
		s.with()(&o)
		p := reload.FromDir(s.path("none"))
		Expect(reload.Watch(ctx, p, reload.NewStore(), o)).To(Succeed())
		Expect(s.log.said()).To(Equal([]string{"no directory to watch"}))
	}, SpecTimeout(30*time.Second))

	It("goes on where one of several directories exists, and none of the files", inBubble, func(ctx SpecContext) {
		s := newSite()
		o := reload.WatchOptions{}
		s.with()(&o)
		store := reload.NewStore()
		p := reload.Paths{Cert: s.path("a/tls.crt"), Key: s.path("b/tls.key"), CA: s.path("ca.crt")}
		go reload.Watch(ctx, p, store, o)
		pass(time.Minute)
		k := s.issue()
		for _, dir := range []string{"a", "b"} {
			Expect(os.Mkdir(s.path(dir), 0o755)).To(Succeed())
		}
		s.write("a/tls.crt", k.CertPEM)
		s.write("b/tls.key", k.KeyPEM)
		s.settled()
		Expect(s.shown(store)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("goes on where a directory cannot be reached, whatever else is the reason", inBubble, func(ctx SpecContext) {
		s := newSite()
		o := reload.WatchOptions{}
		s.with()(&o)
		store := reload.NewStore()
		s.disk.Dir = s.path("loop")
		Expect(os.Symlink("loop", s.disk.Dir)).To(Succeed())
		go reload.Watch(ctx, reload.FromDir(s.disk.Dir), store, o)
		pass(time.Minute)
		Expect(s.log.said()).NotTo(ContainElement("no directory to watch"))
		Expect(os.Remove(s.disk.Dir)).To(Succeed())
		k := s.issue()
		_, err := reloadtest.NewKubelet(s.disk.Dir, k.Files())
		Expect(err).NotTo(HaveOccurred())
		s.look()
		Expect(s.shown(store)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("returns nil at once under a context that is done", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		done, stop := context.WithCancel(ctx)
		stop()
		store := reload.NewStore()
		o := reload.WatchOptions{}
		s.with()(&o)
		for range 20 {
			Expect(reload.Watch(done, reload.FromDir(s.dir), store, o)).To(Succeed())
		}
		Expect(store.Load()).To(BeNil())
		Expect(s.log.said()).To(BeEmpty())
	}, SpecTimeout(30*time.Second))

	It("needs no options at all", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		store := storeOf(k)
		go reload.Watch(ctx, reload.FromDir(s.dir), store, reload.WatchOptions{PollOnly: true})
		pass(time.Minute)
		Expect(s.shown(store)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("follows one directory into any number of stores, each by itself", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		a, b := reload.NewStore(), reload.NewStore()
		running, stop := context.WithCancel(ctx)
		s.watch(running, a)
		s.watch(ctx, b)
		pass(time.Second)
		stop()
		synctest.Wait()
		k := s.rotate()
		pass(reload.DefaultResync + time.Second)
		Expect(s.shown(b)).To(Equal(k.Fingerprint()))
		Expect(s.shown(a)).NotTo(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("Resync", func() {
	DescribeTable("finds a change that nobody told of, in time", inBubble, func(ctx SpecContext, resync, within time.Duration) {
		s := newSite()
		s.rotate()
		r := s.started(ctx, func(o *reload.WatchOptions) { o.Resync = resync })
		for range 10 {
			k := s.rotate()
			pass(within + reload.DefaultSettle)
			Expect(s.shown(r)).To(Equal(k.Fingerprint()))
			Expect(pendingOf(r)).NotTo(HaveOccurred())
		}
	},
		Entry("a minute by default", time.Duration(0), time.Minute),
		Entry("five seconds", 5*time.Second, 5*time.Second),
		Entry("ten milliseconds", 10*time.Millisecond, 10*time.Millisecond+reload.DefaultSettle),
		Entry("an hour", time.Hour, time.Hour),
	)

	It("may be as good as never", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx, func(o *reload.WatchOptions) { o.Resync = math.MaxInt64 })
		last := r.Status().LastLook
		pass(24 * time.Hour)
		Expect(r.Status().LastLook).To(Equal(last))
	}, SpecTimeout(30*time.Second))

	It("varies by a tenth, so that many bundles do not read at the same moment", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		var waits []time.Duration
		for range 20 {
			last := r.Status().LastLook
			for r.Status().LastLook.Equal(last) {
				pass(100 * time.Millisecond)
			}
			waits = append(waits, r.Status().LastLook.Sub(last))
		}
		Expect(waits).To(HaveEach(And(BeNumerically(">=", 54*time.Second), BeNumerically("<=", time.Minute))))
		Expect(waits).NotTo(HaveEach(waits[0]))
	}, SpecTimeout(30*time.Second))

	It("reads a pair that lives shorter than the default in time", inBubble, func(ctx SpecContext) {
		s := newSite()
		short := func() *reloadtest.Keypair {
			k := s.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(time.Minute)})
			s.put(k.Files())
			return k
		}
		short()
		r := s.started(ctx, func(o *reload.WatchOptions) { o.Resync = 5 * time.Second })
		for range 20 {
			short()
			for range 6 {
				pass(5*time.Second + reload.DefaultSettle)
				Expect(r.Check(nil)).To(Succeed())
			}
			Expect(s.shown(r)).NotTo(BeEmpty(), "its client checks the dates")
		}
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("Hints", func() {
	It("ask for a look now", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx, func(o *reload.WatchOptions) { o.Resync = 24 * time.Hour })
		k := s.rotate()
		start := time.Now()
		s.settled()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		Expect(r.Status().LastSwap.Sub(start)).To(Equal(reload.DefaultSettle))
	}, SpecTimeout(30*time.Second))

	It("that end are no more hints, and no spinning loop", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		close(s.hints)
		pass(time.Hour) // fake time stands still while anything spins
		k := s.rotate()
		pass(reload.DefaultResync + time.Second)
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("that come in a storm make no storm of reads", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		s.started(ctx)
		start := time.Now()
		for range 400 {
			s.hints <- struct{}{}
		}
		Expect(time.Since(start)).To(BeNumerically("~", 400*reload.DefaultSettle/4, time.Second))
	}, SpecTimeout(30*time.Second))

	It("do not delay a rotation in the middle of such a storm", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		storm, calm := context.WithCancel(ctx)
		defer calm()
		go func() {
			for storm.Err() == nil {
				select {
				case s.hints <- struct{}{}:
				case <-storm.Done():
				}
			}
		}()
		time.Sleep(10 * time.Second)
		k := s.rotate()
		time.Sleep(2 * reload.DefaultSettle)
		Expect(r.Bundle().Fingerprint).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("AwaitFiles", func() {
	await := func(o *reload.WatchOptions) { o.AwaitFiles = true }

	It("waits for the directory and the files in it, which then are a swap", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.dir = s.path("a/b")
		s.disk.Dir = s.dir
		r := s.started(ctx, await)
		pass(5 * time.Minute)
		Expect(s.log.said()).To(Equal([]string{"waiting for files"}))
		Expect(s.tally.failures()).To(BeZero(), "what was never there is no failed reload")

		k := s.issue()
		Expect(os.MkdirAll(s.dir, 0o755)).To(Succeed())
		pass(time.Minute)
		s.write("tls.key", k.KeyPEM)
		pass(time.Minute)
		_, err := r.GetCertificate(nil)
		Expect(err).To(MatchErrorStrictly(reload.ErrNoCertificate))
		s.write("tls.crt", k.CertPEM)
		pass(time.Minute)
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		Expect(s.swaps).To(Receive(BeIdenticalTo(r.Bundle())))
		Expect(s.swaps).To(BeEmpty())
		ok, failed := s.tally.counts()
		Expect([]int{ok, failed}).To(Equal([]int{1, 0}))
		Expect(s.log.said()).To(Equal([]string{"waiting for files", "keypair loaded"}))
	}, SpecTimeout(30*time.Second))

	It("keeps Watch from returning where there is no directory", inBubble, func(ctx SpecContext) {
		s := newSite()
		store := reload.NewStore()
		s.disk.Dir = s.path("later")
		o := reload.WatchOptions{}
		s.with(await)(&o)
		go reload.Watch(ctx, reload.FromDir(s.disk.Dir), store, o)
		pass(time.Minute)
		k := s.issue()
		_, err := reloadtest.NewKubelet(s.disk.Dir, k.Files())
		Expect(err).NotTo(HaveOccurred())
		s.look()
		Expect(s.shown(store)).To(Equal(k.Fingerprint()), "at once: it was published by one link")
	}, SpecTimeout(30*time.Second))

	It("counts a pair that is there and damaged as failed", inBubble, func(ctx SpecContext) {
		s := newSite()
		r := s.started(ctx, await)
		k := s.rotate()
		s.write("tls.crt", []byte("hello"))
		s.look()
		pass(time.Minute)
		Expect(s.log.said()).To(Equal([]string{"reload failed, no keypair yet"}))
		Expect(s.tally.failures()).To(Equal(1))
		s.write("tls.crt", k.CertPEM)
		s.settled()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("Validate", func() {
	It("has the last word: what it refuses is not live, and is asked about again", inBubble, func(ctx SpecContext) {
		s := newSite()
		old := s.rotate()
		var wanted sync.Map
		wanted.Store(old.Fingerprint(), true)
		r := s.started(ctx, func(o *reload.WatchOptions) {
			o.Validate = func(b *reload.Bundle) error {
				if _, ok := wanted.Load(b.Fingerprint); !ok {
					return errRefused
				}
				return nil
			}
		})
		k := s.rotate()
		s.settled()
		pass(time.Minute)
		Expect(s.shown(r)).To(Equal(old.Fingerprint()))
		Expect(pendingOf(r)).To(MatchError("reload: validate: not this one"))
		Expect(pendingOf(r)).To(MatchError(errRefused))
		Expect(s.tally.failures()).To(Equal(1))

		wanted.Store(k.Fingerprint(), true)
		pass(reload.DefaultResync)
		Expect(s.shown(r)).To(Equal(k.Fingerprint()), "without any hint")
	}, SpecTimeout(30*time.Second))

	It("sees a candidate only when it has settled", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		asked := make(chan string, 100)
		s.started(ctx, func(o *reload.WatchOptions) {
			o.Validate = func(b *reload.Bundle) error { asked <- b.Fingerprint; return nil }
		})
		Expect(asked).To(Receive())
		s.rotate()
		s.look()
		k := s.rotate()
		s.settled()
		Expect(asked).To(Receive(Equal(k.Fingerprint())))
		Expect(asked).To(BeEmpty())
	}, SpecTimeout(30*time.Second))

	It("holds up nobody but the next look, however long it takes", inBubble, func(ctx SpecContext) {
		s := newSite()
		old := s.rotate()
		verdict := make(chan error)
		r := s.started(ctx, func(o *reload.WatchOptions) {
			o.Validate = func(b *reload.Bundle) error {
				if b.Fingerprint == old.Fingerprint() {
					return nil
				}
				return <-verdict
			}
		})
		k := s.rotate()
		s.settled()
		pass(time.Hour)
		Expect(s.shown(r)).To(Equal(old.Fingerprint()))
		Expect(r.Status().Fingerprint).To(Equal(old.Fingerprint()))
		Expect(r.Check(nil)).To(Succeed())
		hurried, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		Expect(r.Reload(hurried)).To(MatchErrorStrictly(context.DeadlineExceeded))
		verdict <- nil
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("that ends its goroutine, as a failing test does, refuses the candidate and nothing else", inBubble, func(ctx SpecContext) {
		s := newSite()
		old := s.rotate()
		r := s.started(ctx, func(o *reload.WatchOptions) {
			o.Validate = func(b *reload.Bundle) error {
				if b.Fingerprint != old.Fingerprint() {
					runtime.Goexit()
				}
				return nil
			}
		})
		s.rotate()
		s.settled()
		Expect(r.Reload(ctx)).To(MatchError("reload: validate: no verdict"))
		Expect(s.shown(r)).To(Equal(old.Fingerprint()))
		s.put(old.Files())
		s.settled()
		Expect(pendingOf(r)).NotTo(HaveOccurred())
	}, SpecTimeout(30*time.Second))

	It("that panics refuses the candidate and nothing else", inBubble, func(ctx SpecContext) {
		s := newSite()
		old := s.rotate()
		r := s.started(ctx, func(o *reload.WatchOptions) {
			o.Validate = func(b *reload.Bundle) error {
				if b.Fingerprint != old.Fingerprint() {
					panic("no more")
				}
				return nil
			}
		})
		s.rotate()
		s.settled()
		pass(time.Minute)
		Expect(pendingOf(r)).To(MatchError("reload: validate: panic: no more"))
		Expect(s.shown(r)).To(Equal(old.Fingerprint()))
		Expect(s.tally.failures()).To(Equal(1))
		s.put(old.Files())
		s.settled()
		Expect(pendingOf(r)).NotTo(HaveOccurred())
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("The end of watching", func() {
	// Each entry brings a running Reloader to some state. Whatever it is, Start returns at once and nothing stays behind: a
	// bubble does not end before its last goroutine.
	DescribeTable("comes at once", inBubble, func(ctx SpecContext, reach func(*site)) {
		s := newSite()
		s.rotate()
		running, stop := context.WithCancel(ctx)
		r := s.reloader(func(o *reload.WatchOptions) {
			o.AwaitFiles, o.Settle = true, time.Second
			o.CAOverlap = time.Hour
		})
		ended := make(chan error, 1)
		go func() { ended <- r.Start(running) }()
		reach(s)
		start := time.Now()
		stop()
		synctest.Wait()
		Expect(ended).To(Receive(BeNil()))
		Expect(time.Since(start)).To(BeZero())
		generation := r.Status().Generation
		pass(time.Hour)
		Expect(r.Status().Generation).To(Equal(generation))
	},
		Entry("before the first look", func(*site) {}),
		Entry("while nothing happens", func(s *site) { pass(time.Hour) }),
		Entry("while files settle", func(s *site) { synctest.Wait(); s.rotate(); s.look() }),
		Entry("between two tries of a fault", func(s *site) { synctest.Wait(); s.remove("tls.crt"); s.look(); pass(3 * time.Second) }),
		Entry("while a pair waits for its NotBefore", func(s *site) {
			synctest.Wait()
			s.put(s.ca.Issue(reloadtest.Options{NotBefore: time.Now().Add(time.Hour)}).Files())
			s.look()
		}),
		Entry("while a CA is on its way out", func(s *site) {
			synctest.Wait()
			s.put(s.issue().Files(s.ca))
			s.settled()
			pass(time.Minute)
			s.put(s.issue().Files(reloadtest.NewCA(reloadtest.Options{})))
			s.settled()
			pass(time.Minute)
		}),
		Entry("in a storm of hints", func(s *site) {
			for range 50 {
				s.hints <- struct{}{}
			}
		}),
	)

	It("comes at once while files are awaited", inBubble, func(ctx SpecContext) {
		s := newSite()
		for _, dir := range []string{s.dir, filepath.Join(s.dir, "none")} {
			running, stop := context.WithCancel(ctx)
			o := reload.WatchOptions{}
			s.with(func(o *reload.WatchOptions) { o.AwaitFiles = true })(&o)
			ended := make(chan error, 1)
			go func() { ended <- reload.Watch(running, reload.FromDir(dir), reload.NewStore(), o) }()
			pass(10 * time.Minute)
			stop()
			synctest.Wait()
			Expect(ended).To(Receive(BeNil()))
		}
	}, SpecTimeout(30*time.Second))

	It("waits for a Validate under way, whose candidate does not go live", inBubble, func(ctx SpecContext) {
		s := newSite()
		old := s.rotate()
		running, stop := context.WithCancel(ctx)
		r := s.reloader(func(o *reload.WatchOptions) {
			o.Validate = func(b *reload.Bundle) error {
				if b.Fingerprint != old.Fingerprint() {
					time.Sleep(3 * time.Second)
				}
				return nil
			}
		})
		ended := make(chan error, 1)
		go func() { ended <- r.Start(running) }()
		synctest.Wait()
		s.rotate()
		s.look()
		pass(reload.DefaultSettle)
		stop()
		pass(2 * time.Second)
		Expect(ended).NotTo(Receive())
		pass(time.Second)
		Expect(ended).To(Receive(BeNil()))
		Expect(s.shown(r)).To(Equal(old.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("waits five seconds for a Validate that hangs", inBubble, func(ctx SpecContext) {
		s := newSite()
		old := s.rotate()
		running, stop := context.WithCancel(ctx)
		release := make(chan struct{})
		r := s.reloader(func(o *reload.WatchOptions) {
			o.Validate = func(b *reload.Bundle) error {
				if b.Fingerprint != old.Fingerprint() {
					<-release
				}
				return nil
			}
		})
		ended := make(chan error, 1)
		go func() { ended <- r.Start(running) }()
		synctest.Wait()
		s.rotate()
		s.look()
		pass(time.Minute)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		Expect(r.Reload(short)).To(MatchErrorStrictly(context.DeadlineExceeded))
		stop()
		pass(5 * time.Second)
		Expect(ended).To(Receive(BeNil()))
		Expect(s.shown(r)).To(Equal(old.Fingerprint()))
		close(release)
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("PollOnly", func() {
	It("is what Status says it is", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		Expect(s.started(ctx).Status().Degraded).To(Equal("polling only, as asked for"))
		Expect(strings.Join(s.log.said(), " ")).NotTo(ContainSubstring("polling"), "what was asked for is no news")
	}, SpecTimeout(30*time.Second))
})
