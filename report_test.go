package reload_test

// What a Reloader tells its Metrics: ours, and those of somebody else.

import (
	"context"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("The series of a Reloader", func() {
	// counted has a Reloader count in a component of its own.
	counted := func(component string) func(*reload.WatchOptions) {
		return func(o *reload.WatchOptions) { o.Metrics = reload.DefaultMetrics(component) }
	}

	It("move with what is live before anybody hears of it", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		seen := make(chan reload.Series, 1)
		r := s.started(ctx, counted("move"), func(o *reload.WatchOptions) {
			o.OnSwap = func(*reload.Bundle) { seen <- seriesOf("move") }
		})
		for n, lifetime := range []time.Duration{time.Hour, 3 * time.Hour, 2 * time.Hour} {
			k := s.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(lifetime)})
			s.put(k.Files())
			s.settled()
			Expect(<-seen).To(Equal(reload.Series{
				Component: "move", Succeeded: uint64(n) + 2, LastSuccess: r.Status().LastSwap,
				NotBefore: k.Leaf.NotBefore, NotAfter: k.Leaf.NotAfter,
				Degraded: 1, // by PollOnly
			}))
		}
	}, SpecTimeout(20*time.Second))

	It("count each fault once, and show it for as long as it lasts", inBubble, func(ctx SpecContext) {
		s := newSite()
		good := s.issue()
		s.put(good.Files())
		s.started(ctx, counted("faults"))
		before := seriesOf("faults")
		Expect(before).To(And(HaveField("Failed", uint64(0)), HaveField("Pending", 0)))
		s.write("tls.key", s.issue().KeyPEM)
		s.look()
		Expect(seriesOf("faults")).To(And(HaveField("Failed", uint64(0)), HaveField("Pending", 1)), "at once")
		pass(time.Hour)
		Expect(seriesOf("faults")).To(And(HaveField("Failed", uint64(1)), HaveField("Pending", 1)))
		Expect(seriesOf("faults").NotAfter).To(Equal(good.Leaf.NotAfter), "what is live stays what it is")
		s.put(good.Files())
		s.settled()
		Expect(seriesOf("faults")).To(And(HaveField("Failed", uint64(1)), HaveField("Pending", 0), HaveField("LastSuccess", before.LastSuccess)))
	}, SpecTimeout(20*time.Second))

	It("say how many bundles of the component are in which state", inBubble, func(ctx SpecContext) {
		var sites []*site
		for range 3 {
			s := newSite()
			s.rotate()
			s.started(ctx, counted("three")) // with PollOnly
			sites = append(sites, s)
		}
		Expect(seriesOf("three")).To(And(HaveField("Succeeded", uint64(3)), HaveField("Degraded", 3)))
		for _, s := range sites[:2] {
			s.remove("tls.crt")
			s.look()
		}
		Expect(seriesOf("three").Pending).To(Equal(2))
	}, SpecTimeout(20*time.Second))

	It("tell nothing but counts once it has stopped, and everything again when it starts", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader(counted("stops"))
		for range 3 {
			running, stop := context.WithCancel(ctx)
			go r.Start(running)
			synctest.Wait()
			s.write("tls.key", nil)
			s.look()
			Expect(seriesOf("stops")).To(And(HaveField("NotAfter", r.Bundle().NotAfter), HaveField("Pending", 1), HaveField("Degraded", 1)))
			stop()
			synctest.Wait()
			left := seriesOf("stops")
			Expect(left).To(Equal(reload.Series{
				Component: "stops", Succeeded: left.Succeeded, Failed: left.Failed, LastSuccess: left.LastSuccess,
			}))
			s.rotate()
			Expect(r.Reload(ctx)).To(Succeed())
			Expect(seriesOf("stops").NotAfter).To(Equal(r.Bundle().NotAfter), "a swap is told of at any time")
		}
	}, SpecTimeout(20*time.Second))

	It("follow what somebody else publishes", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx, counted("seeded"))
		k := s.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(72 * time.Hour)})
		r.Store().Store(bundleOf(k))
		pass(time.Minute)
		Expect(seriesOf("seeded")).To(And(HaveField("NotBefore", k.Leaf.NotBefore), HaveField("NotAfter", k.Leaf.NotAfter)))
		r.Store().Store(nil)
		pass(time.Minute)
		Expect(seriesOf("seeded")).To(And(HaveField("NotBefore", BeZero()), HaveField("NotAfter", BeZero())))
		Expect(seriesOf("seeded").Succeeded).To(BeEquivalentTo(1), "which is no reload")
	}, SpecTimeout(20*time.Second))
})

var _ = Describe("A Metrics of somebody else", func() {
	It("is called by one look at a time, whoever looks", func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader(func(o *reload.WatchOptions) { o.Settle = time.Millisecond })
		s.running(ctx, r)
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for range 20 {
					r.Reload(ctx)
				}
			})
		}
		for range 20 {
			s.rotate()
			s.hints <- struct{}{}
		}
		callers.Wait()
		Expect(s.tally.overlapped()).To(BeFalse())
	}, SpecTimeout(20*time.Second))

	It("holds up nobody but the next look, and may ask for everything", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		slow := &slowMetrics{entered: make(chan struct{}), leave: make(chan struct{})}
		r := s.reloader(func(o *reload.WatchOptions) { o.Metrics = slow })
		slow.ask = func() { r.Status(); r.Bundle(); r.Check(nil); reload.AllSeries(); reload.DefaultMetrics("slow") }
		go r.Start(ctx)
		synctest.Wait()
		slow.blocks.Store(true)
		k := s.rotate()
		go s.look()
		<-slow.entered
		Expect(s.shown(r)).To(Equal(k.Fingerprint()), "it is live already")
		Expect(r.Status().Generation).To(BeEquivalentTo(2))
		Expect(r.Check(nil)).To(Succeed())
		hurried, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		Expect(r.Reload(hurried)).To(MatchError(context.DeadlineExceeded))
		slow.blocks.Store(false)
		close(slow.leave)
		Expect(r.Reload(ctx)).To(Succeed())
	}, SpecTimeout(20*time.Second))

	It("that panics in a Reload, from which the caller recovers, stops no other look", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		var armed atomic.Bool
		r := s.reloader(func(o *reload.WatchOptions) {
			o.Metrics = &slowMetrics{ask: func() {
				if armed.Swap(false) {
					panic("oops")
				}
			}}
		})
		running, stop := context.WithCancel(ctx)
		defer stop()
		go r.Start(running)
		synctest.Wait()
		s.rotate()
		armed.Store(true)
		Expect(func() { r.Reload(ctx) }).To(PanicWith("oops"))
		hurried, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		Expect(r.Reload(hurried)).To(Succeed())
		k := s.rotate()
		s.settled()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(5*time.Second))

	It("is told what Status says, if it has the method for it", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		told := &slowMetrics{}
		r := s.reloader(func(o *reload.WatchOptions) { o.Metrics = told })
		running, stop := context.WithCancel(ctx)
		defer stop()
		go r.Start(running)
		synctest.Wait()
		Expect(told.status.Load()).To(HaveValue(Equal(r.Status())))
		s.remove("tls.key")
		s.look()
		Expect(pendingOf(r)).To(HaveOccurred())
		Expect(told.status.Load()).To(HaveValue(Equal(r.Status())))
		s.rotate()
		s.settled()
		Expect(told.status.Load()).To(HaveValue(Equal(r.Status())))
		stop()
		synctest.Wait()
		Expect(told.status.Load()).To(HaveValue(BeZero()))
	}, SpecTimeout(20*time.Second))
})

// slowMetrics keeps the last status and, when it is to block, lets a swap wait for leave.
type slowMetrics struct {
	status         atomic.Pointer[reload.Status]
	ask            func()
	blocks         atomic.Bool
	entered, leave chan struct{}
}

func (m *slowMetrics) SetExpiry(time.Time)       {}
func (m *slowMetrics) SetStatus(s reload.Status) { m.status.Store(&s) }

func (m *slowMetrics) ReloadAttempt(bool) {
	if m.ask != nil {
		m.ask()
	}
	if m.blocks.Load() {
		m.entered <- struct{}{}
		<-m.leave
	}
}
