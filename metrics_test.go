package reload_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing/synctest"
	"time"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("DefaultMetrics", func() {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

	It("has a series from the first call on", func() {
		reload.DefaultMetrics("from the first call on")
		Expect(seriesOf("from the first call on")).To(Equal(reload.Series{Component: "from the first call on"}))
	})

	It("adds up the counts of all handles, and tells the earliest expiry", func() {
		a, b := reload.DefaultMetrics("shared"), reload.DefaultMetrics("shared")
		a.ReloadAttempt(true)
		a.ReloadAttempt(false)
		b.ReloadAttempt(true)
		a.SetExpiry(noon.Add(time.Hour))
		b.SetExpiry(noon)
		Expect(seriesOf("shared").LastSuccess).To(BeTemporally("~", time.Now(), time.Minute))
		Expect(untimed("shared")).To(Equal(reload.Series{Component: "shared", Succeeded: 2, Failed: 1, NotAfter: noon}))
		b.SetExpiry(noon.Add(2 * time.Hour))
		Expect(seriesOf("shared").NotAfter).To(Equal(noon.Add(time.Hour)), "no minimum over time")
		runtime.KeepAlive(a)
		runtime.KeepAlive(b)
	})

	It("withdraws an expiry with the zero time", func() {
		a, b := reload.DefaultMetrics("withdrawn"), reload.DefaultMetrics("withdrawn")
		a.SetExpiry(noon)
		b.SetExpiry(noon.Add(time.Hour))
		a.SetExpiry(time.Time{})
		Expect(seriesOf("withdrawn").NotAfter).To(Equal(noon.Add(time.Hour)))
		b.SetExpiry(time.Time{})
		Expect(seriesOf("withdrawn").NotAfter).To(BeZero())
		runtime.KeepAlive(a)
		runtime.KeepAlive(b)
	})

	It("forgets the expiry of a handle that is dropped, not its counts", func(ctx SpecContext) {
		func() {
			m := reload.DefaultMetrics("dropped")
			m.ReloadAttempt(true)
			m.SetExpiry(noon)
		}()
		Eventually(ctx, func() time.Time {
			runtime.GC()
			return seriesOf("dropped").NotAfter
		}).Should(BeZero())
		Expect(seriesOf("dropped").Succeeded).To(BeEquivalentTo(1))
	}, SpecTimeout(10*time.Second))

	It("makes a component valid UTF-8, since exporters panic on it", func() {
		reload.DefaultMetrics("not \xff valid").ReloadAttempt(true)
		Expect(seriesOf("not \uFFFD valid").Succeeded).To(BeEquivalentTo(1))
		for _, s := range reload.AllSeries() {
			Expect(utf8.ValidString(s.Component)).To(BeTrue())
		}
	})

	It("is for any goroutine", func(ctx SpecContext) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				m := reload.DefaultMetrics("crowded")
				for i := range 1000 {
					m.ReloadAttempt(i%2 == 0)
					m.SetExpiry(noon)
					if i%100 == 0 {
						reload.AllSeries()
					}
				}
				m.SetExpiry(time.Time{})
			})
		}
		all.Wait()
		Expect(untimed("crowded")).To(Equal(reload.Series{Component: "crowded", Succeeded: 4000, Failed: 4000}))
	}, SpecTimeout(10*time.Second))

	It("lists its series by name", func() {
		for _, component := range []string{"list b", "list c", "list a"} {
			reload.DefaultMetrics(component)
		}
		Expect(slices.IsSortedFunc(reload.AllSeries(), func(a, b reload.Series) int {
			if a.Component < b.Component {
				return -1
			}
			return 1
		})).To(BeTrue())
	})
})

var _ = Describe("The metrics of a Reloader", func() {
	It("move with the live bundle, in both directions", inBubble, func(ctx SpecContext) {
		s := newSite()
		r := s.started(ctx, func(o *reload.WatchOptions) { o.AwaitFiles = true })
		Expect(s.tally.liveUntil()).To(BeZero())
		for _, life := range []time.Duration{time.Hour, 3 * time.Hour, 2 * time.Hour} {
			k := s.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(life)})
			s.put(k.Files())
			s.settled()
			Expect(s.tally.liveUntil()).To(BeTemporally("==", k.Leaf.NotAfter))
			Expect(r.Status().NotAfter).To(BeTemporally("==", k.Leaf.NotAfter))
		}
	}, SpecTimeout(5*time.Second))

	It("are those of its component: one series, whatever the certificates say", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		quiet := func(o *reload.WatchOptions) { s.with()(o); o.Metrics = reload.DefaultMetrics("one series") }
		r, err := reload.NewReloader(reload.FromDir(s.dir), "one series", quiet)
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx)
		go r.Start(running)
		synctest.Wait()
		before := len(reload.AllSeries())
		for range 3 {
			s.put(reloadtest.NewCA(reloadtest.Options{}).Issue(reloadtest.Options{Name: "other"}).Files())
			s.settled()
		}
		Expect(reload.AllSeries()).To(HaveLen(before))
		Expect(seriesOf("one series").Succeeded).To(BeEquivalentTo(4))
		Expect(seriesOf("one series").NotAfter).To(BeTemporally("==", r.Bundle().NotAfter))
		stop()
		synctest.Wait()
		Expect(seriesOf("one series").NotAfter).To(BeZero())
	}, SpecTimeout(5*time.Second))

	It("disappear with a Reloader that is dropped", func(ctx SpecContext) {
		func() {
			s := newSite()
			s.rotate()
			_, err := reload.NewReloader(reload.FromDir(s.dir), "dropped reloader", func(o *reload.WatchOptions) {
				m := o.Metrics
				s.with()(o)
				o.Metrics = m
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(seriesOf("dropped reloader").NotAfter).NotTo(BeZero())
		}()
		Eventually(ctx, func() time.Time {
			runtime.GC()
			return seriesOf("dropped reloader").NotAfter
		}).Should(BeZero())
	}, SpecTimeout(10*time.Second))

	It("are told of one thing at a time, also when Start ends during a Reload", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		slow := &slowTally{took: 3 * time.Second}
		r := s.reloader(func(o *reload.WatchOptions) { o.Metrics = slow })
		for range 3 {
			running, stop := context.WithCancel(ctx)
			go r.Start(running)
			pass(10 * time.Second)
			s.rotate()
			go r.Reload(ctx)
			pass(reload.DefaultSettle + time.Second) // it is telling of the swap now
			stop()
			pass(time.Minute)
		}
		Expect(slow.overlapped()).To(BeFalse())
		Expect(slow.failures()).To(BeZero())
	}, SpecTimeout(5*time.Second))
})

// slowTally takes its time.
type slowTally struct {
	tally
	took time.Duration
}

func (t *slowTally) ReloadAttempt(success bool) {
	alone := t.busy.TryLock()
	time.Sleep(t.took)
	if alone {
		t.busy.Unlock()
	}
	t.tally.ReloadAttempt(success && alone)
}

func (t *slowTally) SetExpiry(at time.Time) {
	alone := t.busy.TryLock()
	time.Sleep(t.took)
	if alone {
		t.busy.Unlock()
	} else {
		t.tally.ReloadAttempt(false)
	}
	t.tally.SetExpiry(at)
}

// seriesOf returns the series of a component, the zero Series where there is none.
func seriesOf(component string) reload.Series {
	for _, s := range reload.AllSeries() {
		if s.Component == component {
			return s
		}
	}
	return reload.Series{}
}

// untimed returns the series of a component without what the clock has to do with.
func untimed(component string) reload.Series {
	s := seriesOf(component)
	s.LastSuccess = time.Time{}
	return s
}
