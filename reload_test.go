package reload_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("NewReloader", func() {
	It("loads the bundle, which is its first generation", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		r := s.reloader()

		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		Expect(r.Bundle().Fingerprint).To(Equal(k.Fingerprint()))
		Expect(r.Store().Load()).To(BeIdenticalTo(r.Bundle()))
		status := r.Status()
		Expect(status.Generation).To(BeEquivalentTo(1))
		Expect(status.Fingerprint).To(Equal(k.Fingerprint()))
		Expect(status.NotAfter).To(BeTemporally("==", k.Leaf.NotAfter))
		Expect(status.LastSwap).To(BeTemporally("==", time.Now()))
		Expect(status.LastLook).To(BeTemporally("==", time.Now()))
		Expect(status.Pending).NotTo(HaveOccurred())
		Expect(status.PendingSince).To(BeZero())
		ok, failed := s.tally.counts()
		Expect([]int{ok, failed}).To(Equal([]int{1, 0}))
		Expect(s.tally.liveUntil()).To(BeTemporally("==", k.Leaf.NotAfter))
		Expect(s.log.said()).To(Equal([]string{"keypair loaded"}))
		Expect(s.swaps).To(BeEmpty())
	}, SpecTimeout(30*time.Second))

	It("takes what was published by moving one link at once", inBubble, func(ctx SpecContext) {
		s := newSite()
		_, err := reloadtest.NewKubelet(s.dir, s.issue().Files(s.ca))
		Expect(err).NotTo(HaveOccurred())
		start := time.Now()
		s.reloader()
		Expect(time.Since(start)).To(BeZero())
	}, SpecTimeout(30*time.Second))

	It("starts nothing", func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		before := gleak.Goroutines()
		s.reloader(func(o *reload.WatchOptions) { o.PollOnly = false })
		Eventually(ctx, gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before))
	}, SpecTimeout(30*time.Second))

	It("leaves nothing behind where it fails", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		s.write("tls.key", s.issue().KeyPEM)
		before := descriptors()
		for range 100 {
			_, err := reload.NewReloader(reload.FromDir(s.dir), "", s.with())
			Expect(err).To(MatchError(reload.ErrKeyMismatch))
		}
		Expect(descriptors()).To(Equal(before))
	}, SpecTimeout(30*time.Second))

	It("counts in the series of its component unless told otherwise", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		quiet := func(o *reload.WatchOptions) { o.Logger = slog.New(s.log) }
		r, err := reload.NewReloader(reload.FromDir(s.dir), "counts by itself", quiet)
		Expect(err).NotTo(HaveOccurred())
		Expect(reload.AllSeries()).To(ContainElement(reload.Series{
			Component: "counts by itself", Succeeded: 1, LastSuccess: r.Status().LastSwap,
			NotBefore: k.Leaf.NotBefore, NotAfter: k.Leaf.NotAfter, Degraded: 1, // nothing is watched yet
		}))
		_, err = reload.NewReloader(reload.FromDir(s.dir), "is not counted", quiet, func(o *reload.WatchOptions) { o.Metrics = nil })
		Expect(err).NotTo(HaveOccurred())
		Expect(reload.AllSeries()).To(ContainElement(HaveField("Component", "is not counted")))
		Expect(r.Bundle()).NotTo(BeNil())
	}, SpecTimeout(30*time.Second))

	DescribeTable("fails, within about a second, on", inBubble, func(ctx SpecContext, spoil func(*site), cause any) {
		s := newSite()
		s.put(s.issue().Files(s.ca))
		spoil(s)
		start := time.Now()
		r, err := reload.NewReloader(reload.FromDir(s.dir), "site", s.with())
		Expect(r).To(BeNil())
		Expect(err).To(MatchError(cause))
		Expect(err).To(MatchError(HavePrefix("reload: ")))
		Expect(time.Since(start)).To(BeNumerically("<=", 1200*time.Millisecond))
		Expect(s.log.said()).To(BeEmpty(), "what is returned is not logged")
	},
		Entry("a missing certificate", spoil(remove("tls.crt")), fs.ErrNotExist),
		Entry("a missing key", spoil(remove("tls.key")), fs.ErrNotExist),
		Entry("an empty directory", spoil(remove("tls.key", "tls.crt", "ca.crt")), fs.ErrNotExist),
		Entry("an empty certificate", spoil(fill("tls.crt", "")), reload.ErrMalformedPEM),
		Entry("an empty key", spoil(fill("tls.key", "\n")), reload.ErrMalformedPEM),
		Entry("a file that is no PEM", spoil(fill("tls.crt", "hello")), reload.ErrMalformedPEM),
		Entry("a damaged CA file", spoil(fill("ca.crt", "-----BEGIN CERTIFICATE-----\nhello\n")), reload.ErrMalformedPEM),
		Entry("another key", spoil(func(s *site) { s.write("tls.key", s.issue().KeyPEM) }), reload.ErrKeyMismatch),
	)

	It("names role, path and cause once, after one prefix", inBubble, func(ctx SpecContext) {
		s := newSite()
		_, err := reload.NewReloader(reload.FromDir(s.dir), "site", s.with())
		Expect(err).To(MatchError("reload: certificate: open " + s.path("tls.crt") + ": no such file or directory"))
		s.rotate()
		s.write("tls.key", s.issue().KeyPEM)
		_, err = reload.NewReloader(reload.FromDir(s.dir), "site", s.with())
		Expect(err).To(MatchError("reload: keypair " + s.path("tls.crt") + ", " + s.path("tls.key") + ": private key does not match the leaf"))
	}, SpecTimeout(30*time.Second))

	DescribeTable("refuses paths that name no bundle, even where files are awaited", func(p reload.Paths, text string) {
		_, err := reload.NewReloader(p, "", func(o *reload.WatchOptions) { o.AwaitFiles = true })
		Expect(err).To(MatchError(text))
		Expect(reload.Watch(context.Background(), p, reload.NewStore(), reload.WatchOptions{AwaitFiles: true})).To(MatchError(text))
	},
		Entry("none", reload.Paths{}, "reload: no paths given"),
		Entry("a key alone", reload.Paths{Key: "k"}, "reload: certificate and key come together: one path is empty"),
		Entry("a certificate alone", reload.Paths{Cert: "c", CA: "ca"}, "reload: certificate and key come together: one path is empty"),
		Entry("CAOnly without a CA", reload.Paths{Cert: "c", Key: "k", CAOnly: true}, "reload: trust roots: CAOnly without a CA path"),
	)

	It("waits for a writer that takes less than a second", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.issue()
		s.write("tls.key", k.KeyPEM)
		go func() {
			defer GinkgoRecover()
			time.Sleep(800 * time.Millisecond)
			s.write("tls.crt", k.CertPEM)
		}()
		Expect(s.shown(s.reloader())).To(Equal(k.Fingerprint()))
		Expect(s.tally.failures()).To(BeZero())
		Expect(s.log.said()).To(Equal([]string{"keypair loaded"}))
	}, SpecTimeout(30*time.Second))

	It("lets a pair settle that is there from the start, whatever Settle is", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		start := time.Now()
		r := s.reloader(func(o *reload.WatchOptions) { o.Settle = 10 * time.Second })
		Expect(r.Bundle().Fingerprint).To(Equal(k.Fingerprint()))
		Expect(time.Since(start)).To(Equal(10 * time.Second))
	}, SpecTimeout(30*time.Second))

	It("serves an expired pair, with a warning", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(-time.Hour)})
		s.put(k.Files())
		r := s.reloader()
		Expect(r.Bundle().Fingerprint).To(Equal(k.Fingerprint()))
		Expect(s.log.said()).To(Equal([]string{"keypair loaded", "leaf expired"}))
		Expect(r.Check(nil)).To(MatchError(reload.ErrExpired))
		Expect(pendingOf(r)).NotTo(HaveOccurred())
	}, SpecTimeout(30*time.Second))

	It("serves a pair that is not yet valid, with a warning", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.ca.Issue(reloadtest.Options{NotBefore: time.Now().Add(time.Hour)})
		s.put(k.Files())
		r := s.reloader()
		Expect(r.Bundle().Fingerprint).To(Equal(k.Fingerprint()))
		Expect(s.log.said()).To(Equal([]string{"keypair loaded", "leaf is not yet valid"}))
		Expect(r.Check(nil)).To(Succeed())
	}, SpecTimeout(30*time.Second))

	It("asks Validate about the first bundle too", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		_, err := reload.NewReloader(reload.FromDir(s.dir), "site", s.with(func(o *reload.WatchOptions) {
			o.Validate = func(*reload.Bundle) error { return errRefused }
		}))
		Expect(err).To(MatchError(errRefused))
		Expect(err).To(MatchError("reload: validate: not this one"))
	}, SpecTimeout(30*time.Second))

	It("takes relative paths from the working directory of that moment", func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		chdir(s.dir)
		r, err := reload.NewReloader(reload.FromDir("."), "site", s.with())
		Expect(err).NotTo(HaveOccurred())
		chdir(os.TempDir())
		k := s.rotate()
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	When("files are awaited", func() {
		await := func(o *reload.WatchOptions) { o.AwaitFiles = true }

		It("returns at once, and answers that there is no certificate", inBubble, func(ctx SpecContext) {
			s := newSite()
			start := time.Now()
			r := s.reloader(await)
			Expect(time.Since(start)).To(BeZero())
			_, err := r.GetCertificate(nil)
			Expect(err).To(MatchErrorStrictly(reload.ErrNoCertificate))
			Expect(r.Check(nil)).To(MatchErrorStrictly(reload.ErrNoCertificate))
			Expect(r.Bundle()).To(BeNil())
			Expect(pendingOf(r)).To(MatchError(fs.ErrNotExist))
			Expect(r.Status().Generation).To(BeZero())
		}, SpecTimeout(30*time.Second))

		It("returns with what is there after about a second of a malformed pair", inBubble, func(ctx SpecContext) {
			s := newSite()
			s.rotate()
			s.write("tls.key", []byte("hello"))
			r := s.reloader(await)
			Expect(r.Bundle()).To(BeNil())
			Expect(pendingOf(r)).To(MatchError(reload.ErrMalformedPEM))
		}, SpecTimeout(30*time.Second))

		It("loads files that are there already", inBubble, func(ctx SpecContext) {
			s := newSite()
			k := s.rotate()
			Expect(s.shown(s.reloader(await))).To(Equal(k.Fingerprint()))
			Expect(s.swaps).To(BeEmpty())
		}, SpecTimeout(30*time.Second))
	})
})

var _ = Describe("Reloader.Start", func() {
	It("sees at once what changed since the Reloader was made", inBubble, func(ctx SpecContext) {
		s := newSite()
		volume, err := reloadtest.NewKubelet(s.dir, s.issue().Files())
		Expect(err).NotTo(HaveOccurred())
		r := s.reloader()
		pass(time.Hour)
		k := s.issue()
		Expect(volume.Update(k.Files())).To(Succeed())
		go r.Start(ctx)
		synctest.Wait()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("is the first to look at anything", inBubble, func(ctx SpecContext) {
		s := newSite()
		old := s.rotate()
		r := s.reloader()
		s.rotate()
		pass(time.Hour)
		Expect(s.shown(r)).To(Equal(old.Fingerprint()))
		Expect(pendingOf(r)).NotTo(HaveOccurred())
	}, SpecTimeout(30*time.Second))

	It("returns nil when its context ends, and can be started again", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader()
		for range 3 {
			running, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- r.Start(running) }()
			synctest.Wait()
			k := s.rotate()
			s.settled()
			Expect(s.shown(r)).To(Equal(k.Fingerprint()))
			stop()
			synctest.Wait()
			Expect(ended).To(Receive(BeNil()))
		}
		Expect(s.shown(r)).NotTo(BeEmpty(), "what is live stays live")
	}, SpecTimeout(30*time.Second))

	It("cannot run twice at once", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		Expect(r.Start(ctx)).To(MatchError("reload: already started"))
		k := s.rotate()
		s.settled()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()), "the first goes on")
	}, SpecTimeout(30*time.Second))

	It("withdraws the expiry when it returns, and tells it again when it starts", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		r := s.reloader()
		running, stop := context.WithCancel(ctx)
		go r.Start(running)
		synctest.Wait()
		Expect(s.tally.liveUntil()).To(BeTemporally("==", k.Leaf.NotAfter))
		stop()
		synctest.Wait()
		Expect(s.tally.liveUntil()).To(BeZero())
		ok, _ := s.tally.counts()
		Expect(ok).To(Equal(1))
		go r.Start(ctx)
		synctest.Wait()
		Expect(s.tally.liveUntil()).To(BeTemporally("==", k.Leaf.NotAfter))
	}, SpecTimeout(30*time.Second))

	It("withdraws the expiry even if its context is done before it starts", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		done, stop := context.WithCancel(ctx)
		stop()
		for range 20 { // a select among two that are ready picks any
			r := s.reloader()
			Expect(s.tally.liveUntil()).NotTo(BeZero())
			Expect(r.Start(done)).To(Succeed())
			Expect(s.tally.liveUntil()).To(BeZero())
		}
	}, SpecTimeout(30*time.Second))

	It("leaves nothing behind, two hundred times over", func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		before, open := gleak.Goroutines(), descriptors()
		for i := range 200 {
			r := s.reloader(func(o *reload.WatchOptions) { o.PollOnly = i%2 == 0 })
			running, stop := context.WithCancel(ctx)
			var all sync.WaitGroup
			all.Go(func() { r.Start(running) })
			all.Go(func() { r.Start(running) })
			stop()
			all.Wait()
		}
		Eventually(ctx, gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before))
		Expect(descriptors()).To(BeNumerically("<=", open+1), "epoll, once in a process")
	}, SpecTimeout(time.Minute))

	It("misses no rotation that it races with", Label("fs"), func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		for range 20 {
			var k *reloadtest.Keypair
			var writer sync.WaitGroup
			writer.Go(func() {
				defer GinkgoRecover()
				for range 5 {
					k = s.issue()
					Expect(s.disk.Rename(k.Files())).To(Succeed())
				}
			})
			r := s.reloader(heard)
			running, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- r.Start(running) }()
			writer.Wait()
			Eventually(ctx, func() string { return r.Bundle().Fingerprint }).Should(Equal(k.Fingerprint()))
			stop()
			Eventually(ctx, ended).Should(Receive(BeNil()))
		}
	}, SpecTimeout(time.Minute))
})

var _ = Describe("Reloader.Reload", func() {
	It("returns nil once what is on disk is live, without Start", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader()
		k := s.rotate()
		start := time.Now()
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		Expect(time.Since(start)).To(Equal(reload.DefaultSettle), "as long as the files must stay the same")
		Expect(r.Status().Generation).To(BeEquivalentTo(2))
		synctest.Wait()
		Expect(s.swaps).To(Receive(BeIdenticalTo(r.Bundle())))
	}, SpecTimeout(30*time.Second))

	It("is no event where nothing has changed", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		live := r.Bundle()
		s.log.forget()
		for range 100 {
			Expect(r.Reload(ctx)).To(Succeed())
		}
		synctest.Wait()
		Expect(r.Bundle()).To(BeIdenticalTo(live))
		ok, failed := s.tally.counts()
		Expect([]int{ok, failed}).To(Equal([]int{1, 0}))
		Expect(s.log.said()).To(BeEmpty())
		Expect(s.swaps).To(BeEmpty())
	}, SpecTimeout(30*time.Second))

	DescribeTable("returns the reason of a refusal, and counts it at once", inBubble, func(ctx SpecContext, running bool, spoil func(*site), cause any) {
		s := newSite()
		s.put(s.issue().Files(s.ca))
		r := s.reloader()
		if running {
			go r.Start(ctx)
			synctest.Wait()
		}
		live := r.Bundle()
		s.log.forget()
		spoil(s)
		start := time.Now()
		for range 3 {
			Expect(r.Reload(ctx)).To(MatchError(cause))
			Expect(s.tally.failures()).To(Equal(1), "once for each distinct fault")
		}
		Expect(time.Since(start)).To(BeZero())
		Expect(r.Bundle()).To(BeIdenticalTo(live))
		Expect(pendingOf(r)).To(MatchError(cause))
		Expect(s.log.said()).To(BeEmpty(), "what is returned is not logged")
	},
		Entry("of a missing certificate", false, spoil(remove("tls.crt")), fs.ErrNotExist),
		Entry("of a missing key, while running", true, spoil(remove("tls.key")), fs.ErrNotExist),
		Entry("of a malformed pair", false, spoil(fill("tls.crt", "hello")), reload.ErrMalformedPEM),
		Entry("of a mismatched pair, while running", true, spoil(func(s *site) { s.write("tls.key", s.issue().KeyPEM) }), reload.ErrKeyMismatch),
		Entry("of a CA file that has vanished", false, spoil(remove("ca.crt")), fs.ErrNotExist),
		Entry("of an emptied CA file, while running", true, spoil(fill("ca.crt", " \n")), reload.ErrMalformedPEM),
		Entry("of an expired pair", false, spoil(func(s *site) {
			s.put(s.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(-time.Minute)}).Files())
		}), reload.ErrExpired),
		Entry("of a pair that is not yet valid", false, spoil(func(s *site) {
			s.put(s.ca.Issue(reloadtest.Options{NotBefore: time.Now().Add(time.Minute)}).Files())
		}), reload.ErrNotYetValid),
	)

	It("returns the cause of its context's end while files settle, which then go live", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		k := s.rotate()
		short, stop := context.WithTimeoutCause(ctx, reload.DefaultSettle/2, errRefused)
		defer stop()
		Expect(r.Reload(short)).To(MatchErrorStrictly(errRefused))
		Expect(pendingOf(r)).To(MatchError(ContainSubstring("settle")))
		Expect(s.tally.failures()).To(BeZero())
		pass(reload.DefaultSettle)
		Expect(s.shown(r)).To(Equal(k.Fingerprint()), "without another hint")
	}, SpecTimeout(30*time.Second))

	It("does nothing under a context that is done", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader()
		looked := r.Status().LastLook
		s.rotate()
		pass(time.Minute)
		done, stop := context.WithCancel(ctx)
		stop()
		for range 20 {
			Expect(r.Reload(done)).To(MatchErrorStrictly(context.Canceled))
		}
		Expect(r.Status().LastLook).To(Equal(looked))
	}, SpecTimeout(30*time.Second))

	It("takes no file for refused that is only being changed", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader()
		s.remove("tls.crt")
		// The length of a file of proc is never what it says: it looks as if it changed with every read.
		if err := os.Symlink("/proc/version", s.path("tls.crt")); err != nil {
			Skip("no symbolic links: " + err.Error())
		}
		if _, err := os.Stat(s.path("tls.crt")); err != nil {
			Skip("no proc file system: " + err.Error())
		}
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		Expect(r.Reload(short)).To(MatchErrorStrictly(context.DeadlineExceeded))
		Expect(s.tally.failures()).To(BeZero())
		Expect(pendingOf(r)).To(HaveOccurred())
	}, SpecTimeout(30*time.Second))

	It("works after the end of Start", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader()
		running, stop := context.WithCancel(ctx)
		go r.Start(running)
		synctest.Wait()
		stop()
		synctest.Wait()
		k := s.rotate()
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("brings in files that are awaited, and counts none that are not there yet as live", inBubble, func(ctx SpecContext) {
		s := newSite()
		r := s.reloader(func(o *reload.WatchOptions) { o.AwaitFiles = true })
		Expect(r.Reload(ctx)).To(MatchError(fs.ErrNotExist))
		k := s.rotate()
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		synctest.Wait()
		Expect(s.swaps).To(Receive(BeIdenticalTo(r.Bundle())), "the first came late")
	}, SpecTimeout(30*time.Second))

	It("lets any number of callers take turns", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		k := s.rotate()
		answers := make(chan error, 1000)
		for range 1000 {
			go func() { answers <- r.Reload(ctx) }()
		}
		for range 1000 {
			Expect(<-answers).To(Succeed())
		}
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		ok, failed := s.tally.counts()
		Expect([]int{ok, failed}).To(Equal([]int{2, 0}))
		Expect(s.tally.overlapped()).To(BeFalse())
	}, SpecTimeout(time.Minute))

	It("is harmless at any moment of Start and its end", func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader(func(o *reload.WatchOptions) { o.PollOnly, o.Settle = false, time.Millisecond })
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 250 {
					if err := r.Reload(ctx); err != nil && !errors.Is(err, context.Canceled) {
						defer GinkgoRecover()
						Fail("reload: " + err.Error())
					}
				}
			})
		}
		for range 100 {
			running, stop := context.WithCancel(ctx)
			all.Go(func() { r.Start(running) })
			all.Go(stop)
		}
		all.Wait()
		Expect(s.tally.overlapped()).To(BeFalse())
	}, SpecTimeout(time.Minute))

	It("puts the files back in the place of what somebody else has published", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		r := s.started(ctx)
		other := s.ca.Issue(reloadtest.Options{NotBefore: time.Now().Add(-2 * time.Hour)})
		b, err := reload.BundleFromPEM(other.CertPEM, other.KeyPEM, nil)
		Expect(err).NotTo(HaveOccurred())
		r.Store().Store(b)
		pass(time.Hour)
		Expect(s.shown(r)).To(Equal(other.Fingerprint()), "nobody fights over the store")
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("Reloader.Check", func() {
	It("fails from the moment the live leaf has expired, and no more after a rotation", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.put(s.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(time.Hour)}).Files())
		r := s.started(ctx)
		Expect(r.Check(nil)).To(Succeed())
		pass(time.Hour - time.Second)
		Expect(r.Check(nil)).To(Succeed(), "nearing expiry is no failure")
		pass(2 * time.Second)
		Expect(r.Check(nil)).To(MatchError(reload.ErrExpired))
		Expect(r.Check(nil)).To(MatchError(HavePrefix("reload: leaf has expired at 2000-01-01T")))
		s.rotate()
		s.settled()
		Expect(r.Check(nil)).To(Succeed())
	}, SpecTimeout(30*time.Second))

	It("takes no notice of faults on disk", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		s.remove("tls.crt", "tls.key")
		s.look()
		pass(time.Minute)
		Expect(pendingOf(r)).To(HaveOccurred())
		Expect(r.Check(nil)).To(Succeed())
	}, SpecTimeout(30*time.Second))
})

var _ = Describe("A zero Reloader", func() {
	It("answers that there is no certificate, whatever is asked", func(ctx SpecContext) {
		var r reload.Reloader
		_, err := r.GetCertificate(nil)
		Expect(err).To(MatchErrorStrictly(reload.ErrNoCertificate))
		_, err = r.GetClientCertificate(nil)
		Expect(err).To(MatchErrorStrictly(reload.ErrNoCertificate))
		_, err = r.ServerConfig(nil).GetConfigForClient(nil)
		Expect(err).To(MatchErrorStrictly(reload.ErrNoCertificate))
		_, err = r.ClientConfig(nil).GetClientCertificate(nil)
		Expect(err).To(MatchErrorStrictly(reload.ErrNoCertificate))
		_, err = r.LiveClientConfig(nil, "").GetClientCertificate(nil)
		Expect(err).To(MatchErrorStrictly(reload.ErrNoCertificate))
		Expect(r.Start(ctx)).To(MatchErrorStrictly(reload.ErrNoCertificate))
		Expect(r.Reload(ctx)).To(MatchErrorStrictly(reload.ErrNoCertificate))
		Expect(r.Check(nil)).To(MatchErrorStrictly(reload.ErrNoCertificate))
		Expect(r.Bundle()).To(BeNil())
		Expect(r.Store().Load()).To(BeNil())
		Expect(r.Status()).To(BeZero())
		Expect(r.NeedLeaderElection()).To(BeFalse())
	}, SpecTimeout(30*time.Second))
})

// allHooks is what a Store and a Reloader are to servers and clients.
type allHooks interface {
	hooks
	GetClientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	ServerConfig(*tls.Config) *tls.Config
	ConfigureServer(*tls.Config)
	Drain(http.Handler) http.Handler
	ClientConfig(*tls.Config) *tls.Config
	LiveClientConfig(base *tls.Config, serverName string) *tls.Config
	Transport(*http.Transport) (*reload.Transport, error)
}

var _ = Describe("What holds nothing", func() {
	var (
		ca      *reloadtest.CA
		keypair tls.Certificate // not that of a bundle
	)
	BeforeEach(func() {
		ca = reloadtest.NewCA(reloadtest.Options{})
		keypair = ca.Issue(reloadtest.Options{}).TLS()
	})
	holders := []TableEntry{
		Entry("a zero Store", func() allHooks { return new(reload.Store) }, SpecTimeout(time.Minute)),
		Entry("an emptied Store", func() allHooks {
			store := storeOf(ca.Issue(reloadtest.Options{}))
			store.Store(nil)
			return store
		}, SpecTimeout(time.Minute)),
		Entry("a zero Reloader", func() allHooks { return new(reload.Reloader) }, SpecTimeout(time.Minute)),
		Entry("a Reloader whose files are awaited", func() allHooks {
			return newSite().reloader(func(o *reload.WatchOptions) { o.AwaitFiles = true })
		}, SpecTimeout(time.Minute)),
	}

	DescribeTable("admits no client, whichever hook serves, and whomever its config would admit", func(_ SpecContext, empty func() allHooks) {
		h := empty()
		base := &tls.Config{
			Certificates:   []tls.Certificate{keypair},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &keypair, nil },
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return &tls.Config{Certificates: []tls.Certificate{keypair}}, nil
			},
		}
		verifying := &tls.Config{Certificates: base.Certificates, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
		client := visitorOf(ca, ca.Issue(reloadtest.Options{}))
		servers := []*tls.Config{{GetCertificate: h.GetCertificate}, h.ServerConfig(nil)}
		for _, base := range []*tls.Config{base, verifying, {ClientAuth: tls.VerifyClientCertIfGiven}} {
			servers = append(servers, h.ServerConfig(base))
			inPlace := base.Clone()
			h.ConfigureServer(inPlace)
			servers = append(servers, inPlace)
		}
		Expect(visit(base, client)).To(beFull())
		Expect(visit(verifying, client)).To(beFull())
		for _, server := range servers {
			Expect(visit(server, client).serverErr).To(MatchErrorStrictly(reload.ErrNoCertificate))
		}
	}, holders)

	DescribeTable("trusts no server, whichever hook dials, and whomever its config would trust", func(ctx SpecContext, empty func() allHooks) {
		h := empty()
		base := &tls.Config{
			InsecureSkipVerify:   true,
			RootCAs:              ca.Pool(),
			Certificates:         []tls.Certificate{keypair},
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &keypair, nil },
			VerifyConnection:     func(tls.ConnectionState) error { return nil },
		}
		for _, clientCA := range []*reloadtest.CA{nil, ca} {
			judge := newJudge(ctx, ca, clientCA)
			Expect(judge.meet(base)).Error().NotTo(HaveOccurred())
			for _, client := range []*tls.Config{
				h.ClientConfig(nil), h.ClientConfig(base),
				h.LiveClientConfig(nil, "localhost"), h.LiveClientConfig(base, ""),
			} {
				Expect(judge.meet(client)).Error().To(MatchError(reload.ErrNoCertificate))
			}
		}
		asked := &tls.Config{RootCAs: ca.Pool(), GetClientCertificate: h.GetClientCertificate}
		Expect(newJudge(ctx, ca, ca).meet(asked)).Error().To(MatchErrorStrictly(reload.ErrNoCertificate))
	}, holders)

	DescribeTable("sends no request by Transport, not even without TLS", func(ctx SpecContext, empty func() allHooks) {
		server := newUpstream(ctx, ca, nil)
		plain := new(http.Server)
		addr := started(plain, plain.Serve)
		for _, base := range []*http.Transport{nil, {TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} {
			transport := must(empty().Transport(base))
			for _, url := range []string{server.url, "http://" + addr} {
				Expect(fetch(ctx, transport, url)).Error().To(MatchError(reload.ErrNoCertificate))
			}
			transport.CloseIdleConnections()
			Expect(transport.WrappedRoundTripper()).NotTo(BeNil())
		}
		Expect(server.connections()).To(BeZero())
	}, holders)

	DescribeTable("drains nothing, and serves whom others let in", func(ctx SpecContext, empty func() allHooks) {
		handler := empty().Drain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
			server := &http.Server{Handler: handler, TLSConfig: &tls.Config{
				Certificates: []tls.Certificate{keypair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
			}}
			addr := started(server, func(l net.Listener) error { return server.ServeTLS(l, "", "") })
			client := newCaller(proto, visitorOf(ca, ca.Issue(reloadtest.Options{})))
			Expect(client.call(ctx, addr)).To(HaveField("Status", http.StatusTeapot))
			Expect(client.call(ctx, addr)).To(And(HaveField("Status", http.StatusTeapot), HaveField("Reused", true)))
		}
		plain := httptest.NewRecorder()
		handler.ServeHTTP(plain, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		Expect(plain.Code).To(Equal(http.StatusTeapot))
		Expect(plain.Header()).NotTo(HaveKey("Connection"))
	}, holders)
})

// spoil, remove and fill make table entries out of what happens to a directory.
func spoil(how func(*site)) func(*site) { return how }

func remove(names ...string) func(*site) { return func(s *site) { s.remove(names...) } }

func fill(name, content string) func(*site) { return func(s *site) { s.write(name, []byte(content)) } }

// descriptors counts what the process has open; zero where nobody tells.
func descriptors() int {
	open, _ := os.ReadDir("/proc/self/fd")
	return len(open)
}

// chdir changes the working directory for the rest of a spec.
func chdir(dir string) {
	GinkgoHelper()
	was, err := os.Getwd()
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Chdir(dir)).To(Succeed())
	DeferCleanup(os.Chdir, was)
}
