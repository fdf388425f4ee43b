package reload_test

// How long a CA is trusted after it has left the CA file.

import (
	"errors"
	"sync/atomic"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("CAOverlap", func() {
	overlap := func(d time.Duration) func(*reload.WatchOptions) {
		return func(o *reload.WatchOptions) { o.CAOverlap = d }
	}
	// trusted returns which of the authorities the live bundle trusts, as clients' and as servers'; it must be the same ones.
	trusted := func(r *reload.Reloader, cas ...*reloadtest.CA) (names []string) {
		GinkgoHelper()
		b := r.Bundle()
		for _, ca := range cas {
			k := ca.Issue(reloadtest.Options{})
			asClient, asServer := verifies(b.ClientCAs, k) == nil, verifies(b.RootCAs, k) == nil
			Expect(asClient).To(Equal(asServer))
			if asClient {
				names = append(names, ca.Cert.Subject.CommonName)
			}
		}
		return names
	}
	named := func(name string) *reloadtest.CA { return reloadtest.NewCA(reloadtest.Options{Name: name}) }

	It("trusts an outgoing CA until its end, which is a generation of its own", inBubble, func(ctx SpecContext) {
		s := newSite()
		a, b := named("a"), named("b")
		s.put(s.issue().Files(a))
		r := s.started(ctx, overlap(time.Hour))
		Expect(r.Status().OverlapUntil).To(BeZero())

		s.put(s.issue().Files(b))
		s.settled()
		end := r.Status().LastSwap.Add(time.Hour)
		Expect(trusted(r, a, b)).To(Equal([]string{"a", "b"}))
		Expect(r.Status().OverlapUntil).To(BeTemporally("==", end))
		Expect(r.Status().Generation).To(BeEquivalentTo(2))
		s.log.forget()

		pass(time.Until(end) - time.Millisecond)
		Expect(trusted(r, a, b)).To(Equal([]string{"a", "b"}))
		old := r.Bundle()
		pass(time.Millisecond)
		Expect(trusted(r, a, b)).To(Equal([]string{"b"}))
		Expect(r.Bundle().Fingerprint).To(Equal(old.Fingerprint))
		Expect(verifies(old.ClientCAs, a.Issue(reloadtest.Options{}))).To(Succeed(), "no bundle ever changes")
		Expect(r.Status().Generation).To(BeEquivalentTo(3))
		Expect(r.Status().OverlapUntil).To(BeZero())
		Expect(r.Status().LastSwap).To(BeTemporally("==", end))
		Expect(s.log.said()).To(Equal([]string{"outgoing CAs are no longer trusted"}))
		ok, failed := s.tally.counts()
		Expect([]int{ok, failed}).To(Equal([]int{3, 0}))
		Expect(s.swaps).To(HaveLen(2))
		pass(24 * time.Hour)
		Expect(r.Status().Generation).To(BeEquivalentTo(3))
	}, SpecTimeout(30*time.Second))

	It("ends with the watcher, since nothing else would end it", inBubble, func(ctx SpecContext) {
		s := newSite()
		a, b := named("a"), named("b")
		s.put(s.issue().Files(a))
		r := s.reloader(overlap(time.Hour))
		stop, ended := s.begin(ctx, r)
		s.put(s.issue().Files(b))
		s.settled()
		Expect(trusted(r, a, b)).To(Equal([]string{"a", "b"}))
		stop()
		Expect(<-ended).To(Succeed())
		Expect(trusted(r, a, b)).To(Equal([]string{"b"}))
		Expect(r.Status().OverlapUntil).To(BeZero())
		Expect(s.swaps).To(HaveLen(2))
	}, SpecTimeout(30*time.Second))

	It("is not begun by a Reload while the watcher waits for its last callback", inBubble, func(ctx SpecContext) {
		s := newSite()
		a, b := named("a"), named("b")
		s.put(s.issue().Files(a))
		called, leave := make(chan struct{}, 2), make(chan struct{})
		r := s.reloader(overlap(time.Hour), func(o *reload.WatchOptions) {
			o.OnSwap = func(*reload.Bundle) { called <- struct{}{}; <-leave }
		})
		stop, ended := s.begin(ctx, r)
		s.put(s.issue().Files(a))
		s.settled()
		<-called
		stop()
		pass(time.Second)
		Expect(ended).NotTo(Receive())
		s.put(s.issue().Files(b))
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(trusted(r, a, b)).To(Equal([]string{"b"}))
		Expect(r.Status().Generation).To(BeEquivalentTo(3), "it went live once")
		close(leave)
		Expect(<-ended).To(Succeed())
		Expect(trusted(r, a, b)).To(Equal([]string{"b"}))
		Expect(r.Status().OverlapUntil).To(BeZero())
	}, SpecTimeout(30*time.Second))

	DescribeTable("ends with a Reload that outlasts the watcher", inBubble, func(ctx SpecContext, verdict error) {
		s := newSite()
		a, b := named("a"), named("b")
		s.put(s.issue().Files(a))
		var slow atomic.Bool
		r := s.reloader(overlap(time.Hour), func(o *reload.WatchOptions) {
			o.Validate = func(*reload.Bundle) error {
				if slow.Load() {
					time.Sleep(time.Minute)
					return verdict
				}
				return nil
			}
		})
		stop, ended := s.begin(ctx, r)
		s.put(s.issue().Files(b))
		s.settled()
		Expect(trusted(r, a, b)).To(Equal([]string{"a", "b"}))
		slow.Store(true)
		s.put(s.issue().Files(b))
		reloaded := make(chan error, 1)
		go func() { reloaded <- r.Reload(ctx) }()
		pass(2 * time.Second)
		stop()
		Expect(<-ended).To(Succeed())
		<-reloaded
		synctest.Wait()
		Expect(trusted(r, a, b)).To(Equal([]string{"b"}))
		Expect(r.Status().OverlapUntil).To(BeZero())
	},
		Entry("with a swap", SpecTimeout(30*time.Second), nil),
		Entry("without one", SpecTimeout(30*time.Second), errors.New("no")),
	)

	It("shows in Status no more once somebody else has published, whatever ends first", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.put(s.issue().Files(named("a")))
		r := s.reloader(overlap(time.Hour))
		stop, ended := s.begin(ctx, r)
		s.put(s.issue().Files(named("b")))
		s.settled()
		Expect(r.Status().OverlapUntil).NotTo(BeZero())
		other := s.issue().Files(named("c"))
		theirs, err := reload.BundleFromPEM(other["tls.crt"], other["tls.key"], other["ca.crt"])
		Expect(err).NotTo(HaveOccurred())
		r.Store().Store(theirs)
		stop()
		Expect(<-ended).To(Succeed())
		Expect(r.Bundle()).To(BeIdenticalTo(theirs))
		Expect(r.Status().OverlapUntil).To(BeZero())
	}, SpecTimeout(30*time.Second))

	It("is off unless asked for", inBubble, func(ctx SpecContext) {
		s := newSite()
		a, b := named("a"), named("b")
		s.put(s.issue().Files(a))
		r := s.started(ctx)
		s.put(s.issue().Files(b))
		s.settled()
		Expect(trusted(r, a, b)).To(Equal([]string{"b"}))
		Expect(r.Status().OverlapUntil).To(BeZero())
	}, SpecTimeout(30*time.Second))

	It("never goes past the end of the CA itself", inBubble, func(ctx SpecContext) {
		s := newSite()
		end := time.Now().Add(10 * time.Minute)
		a := reloadtest.NewCA(reloadtest.Options{Name: "a", NotAfter: end})
		dead := reloadtest.NewCA(reloadtest.Options{Name: "dead", NotAfter: time.Now().Add(-time.Minute)})
		s.put(s.issue().Files(a, dead))
		r := s.started(ctx, overlap(time.Hour))
		s.put(s.issue().Files(named("b")))
		s.settled()
		Expect(r.Status().OverlapUntil).To(BeTemporally("==", end))
		pass(time.Until(end))
		Expect(r.Status().OverlapUntil).To(BeZero())
		Expect(r.Status().Generation).To(BeEquivalentTo(3))
	}, SpecTimeout(30*time.Second))

	It("ends while the files are broken, gone or held", inBubble, func(ctx SpecContext) {
		s := newSite()
		a, b := named("a"), named("b")
		for _, harm := range []func(){
			func() { s.write("tls.crt", []byte("hello")) },
			func() { s.remove("tls.key") },
			func() {
				s.put(s.ca.Issue(reloadtest.Options{NotBefore: time.Now().Add(24 * time.Hour)}).Files(b))
			},
		} {
			s.put(s.issue().Files(a))
			r := s.started(ctx, overlap(time.Hour))
			s.put(s.issue().Files(b))
			pass(reload.DefaultResync + time.Second)
			Expect(trusted(r, a, b)).To(Equal([]string{"a", "b"}))
			harm()
			pass(time.Until(r.Status().OverlapUntil))
			Expect(trusted(r, a, b)).To(Equal([]string{"b"}))
			Expect(pendingOf(r)).To(HaveOccurred())
			Expect(s.shown(r)).NotTo(BeEmpty())
		}
	}, SpecTimeout(30*time.Second))

	It("gives every CA its own time when rotations overlap", inBubble, func(ctx SpecContext) {
		s := newSite()
		a, b, c := named("a"), named("b"), named("c")
		s.put(s.issue().Files(a))
		r := s.started(ctx, overlap(time.Hour))
		s.put(s.issue().Files(b))
		s.settled()
		first := r.Status().LastSwap
		pass(30 * time.Minute)
		s.put(s.issue().Files(c))
		s.settled()
		second := r.Status().LastSwap
		Expect(trusted(r, a, b, c)).To(Equal([]string{"a", "b", "c"}))
		Expect(r.Status().OverlapUntil).To(BeTemporally("==", first.Add(time.Hour)), "the next to end")
		pass(time.Until(first.Add(time.Hour)))
		Expect(trusted(r, a, b, c)).To(Equal([]string{"b", "c"}))
		Expect(r.Status().OverlapUntil).To(BeTemporally("==", second.Add(time.Hour)))
		pass(time.Until(second.Add(time.Hour)))
		Expect(trusted(r, a, b, c)).To(Equal([]string{"c"}))
	}, SpecTimeout(30*time.Second))

	It("is not made longer by rotations of the leaf", inBubble, func(ctx SpecContext) {
		s := newSite()
		a, b := named("a"), named("b")
		s.put(s.issue().Files(a))
		r := s.started(ctx, overlap(time.Hour))
		s.put(s.issue().Files(b))
		s.settled()
		end := r.Status().OverlapUntil
		for range 5 {
			pass(10 * time.Minute)
			k := s.rotate()
			s.settled()
			Expect(s.shown(r)).To(Equal(k.Fingerprint()))
			Expect(trusted(r, a, b)).To(Equal([]string{"a", "b"}))
			Expect(r.Status().OverlapUntil).To(Equal(end))
		}
		pass(time.Until(end))
		Expect(trusted(r, a, b)).To(Equal([]string{"b"}))
	}, SpecTimeout(30*time.Second))

	It("is over for a CA that comes back, and begins anew when it leaves again", inBubble, func(ctx SpecContext) {
		s := newSite()
		a, b := named("a"), named("b")
		s.put(s.issue().Files(a))
		r := s.started(ctx, overlap(time.Hour))
		s.put(s.issue().Files(b))
		s.settled()
		pass(30 * time.Minute)
		s.put(s.issue().Files(a, b))
		s.settled()
		Expect(r.Status().OverlapUntil).To(BeZero())
		pass(24 * time.Hour)
		Expect(trusted(r, a, b)).To(Equal([]string{"a", "b"}))
		s.put(s.issue().Files(b))
		s.settled()
		Expect(r.Status().OverlapUntil).To(BeTemporally("==", r.Status().LastSwap.Add(time.Hour)))
	}, SpecTimeout(30*time.Second))

	It("sees no change in files that stay as they are", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.issue()
		s.put(k.Files(named("a")))
		r := s.started(ctx, overlap(time.Hour))
		s.put(k.Files(named("b")))
		s.settled()
		live := r.Bundle()
		for range 20 {
			s.settled()
			Expect(r.Reload(ctx)).To(Succeed())
		}
		Expect(r.Bundle()).To(BeIdenticalTo(live))
	}, SpecTimeout(30*time.Second))

	It("is not granted while nothing runs that would end it", inBubble, func(ctx SpecContext) {
		s := newSite()
		a, b := named("a"), named("b")
		s.put(s.issue().Files(a))
		r := s.reloader(overlap(time.Hour))
		s.put(s.issue().Files(b))
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(trusted(r, a, b)).To(Equal([]string{"b"}))
		Expect(r.Status().OverlapUntil).To(BeZero())
	}, SpecTimeout(30*time.Second))

	It("keeps nothing alive after somebody else has published", inBubble, func(ctx SpecContext) {
		s := newSite()
		a, b, c := named("a"), named("b"), named("c")
		s.put(s.issue().Files(a))
		r := s.started(ctx, overlap(time.Hour))
		s.put(s.issue().Files(b))
		s.settled()
		other := s.issue()
		theirs, err := reload.BundleFromPEM(other.CertPEM, other.KeyPEM, c.PEM())
		Expect(err).NotTo(HaveOccurred())
		r.Store().Store(theirs)
		s.look()
		Expect(r.Status().OverlapUntil).To(BeZero())
		k := s.issue()
		s.put(k.Files(b))
		s.settled()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		Expect(trusted(r, a, b, c)).To(Equal([]string{"b", "c"}), "only what was trusted last is on its way out")
		pass(2 * time.Hour)
		Expect(trusted(r, a, b, c)).To(Equal([]string{"b"}))
	}, SpecTimeout(30*time.Second))

	It("ends also for a copy that somebody has published, such as one with an OCSP staple", inBubble, func(ctx SpecContext) {
		s := newSite()
		a, b := named("a"), named("b")
		s.put(s.issue().Files(a))
		var r *reload.Reloader
		r = s.reloader(overlap(time.Hour), func(o *reload.WatchOptions) {
			o.OnSwap = func(live *reload.Bundle) {
				stapled := *live
				stapled.Cert.OCSPStaple = []byte(live.Fingerprint)
				r.Store().Store(&stapled)
			}
		})
		go r.Start(ctx)
		s.put(s.issue().Files(b))
		s.settled()
		end := r.Status().OverlapUntil
		Expect(end).To(Equal(r.Status().LastSwap.Add(time.Hour)))
		for range 4 {
			pass(10 * time.Minute)
			Expect(r.Reload(ctx)).To(Succeed())
			s.put(s.issue().Files(b))
			s.settled()
			Expect(trusted(r, a, b)).To(Equal([]string{"a", "b"}))
			Expect(r.Status().OverlapUntil).To(Equal(end), "neither a Reload nor a rotation makes it longer")
		}
		pass(time.Until(end))
		Expect(trusted(r, a, b)).To(Equal([]string{"b"}))
		Expect(r.Bundle().Cert.OCSPStaple).To(BeEquivalentTo(r.Bundle().Fingerprint))
		swaps := r.Status().Generation
		pass(24 * time.Hour)
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(r.Status().Generation).To(Equal(swaps))
	}, SpecTimeout(5*time.Second))

	It("shows in Status before anybody is told of the swap", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.put(s.issue().Files(named("a")))
		seen := make(chan reload.Status, 1)
		var r *reload.Reloader
		r = s.reloader(overlap(time.Hour), func(o *reload.WatchOptions) {
			o.OnSwap = func(*reload.Bundle) { seen <- r.Status() }
		})
		go r.Start(ctx)
		for range 20 {
			s.put(s.issue().Files(named("b")))
			s.settled()
			status := <-seen
			Expect(status.OverlapUntil).NotTo(BeZero())
			Expect(status.Fingerprint).To(Equal(r.Bundle().Fingerprint))
			pass(2 * time.Hour)
			<-seen
		}
	}, SpecTimeout(30*time.Second))
})
