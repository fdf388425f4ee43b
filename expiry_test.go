package reload_test

// What is said of a leaf that nobody renews.

import (
	"context"
	"fmt"
	"log/slog"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("A leaf that nobody renews", func() {
	// lasting makes a site with a leaf that is valid from now on.
	lasting := func(lifetime time.Duration) *site {
		s := newSite()
		s.put(s.ca.Issue(reloadtest.Options{NotBefore: time.Now(), NotAfter: time.Now().Add(lifetime)}).Files())
		return s
	}

	DescribeTable("is told of when a quarter, a tenth and a thirtieth of its lifetime are left, and when it has expired", inBubble,
		func(ctx SpecContext, lifetime time.Duration, lines ...string) {
			s := lasting(lifetime)
			start := time.Now()
			r := s.started(ctx, rarely)
			s.log.forget()
			pass(2 * lifetime)
			Expect(s.log.diary(start)).To(Equal(lines))
			Expect(s.log.last()["bundle"]).To(BeIdenticalTo(r.Bundle()))
			Expect(r.Check(nil)).To(MatchError(reload.ErrExpired))
		},
		Entry("of thirty hours", 30*time.Hour,
			"22h30m0s INFO leaf expires soon, left 7h30m0s",
			"27h0m0s WARN leaf expires soon, left 3h0m0s",
			"29h0m0s WARN leaf expires soon, left 1h0m0s",
			"30h0m0s ERROR leaf expired", SpecTimeout(20*time.Second),
		),
		Entry("of a minute", time.Minute,
			"45s INFO leaf expires soon, left 15s",
			"54s WARN leaf expires soon, left 6s",
			"58s WARN leaf expires soon, left 2s",
			"1m0s ERROR leaf expired", SpecTimeout(20*time.Second),
		),
	)

	It("is told of once where it is loaded late in its life", inBubble, func(ctx SpecContext) {
		s := lasting(100 * time.Hour)
		pass(95 * time.Hour)
		start := time.Now()
		s.started(ctx)
		pass(time.Hour)
		Expect(s.log.diary(start)).To(Equal([]string{"0s INFO keypair loaded", "0s WARN leaf expires soon, left 5h0m0s"}))
	}, SpecTimeout(20*time.Second))

	It("is told of in the very moment it expires, also when files are looked at then", inBubble, func(ctx SpecContext) {
		s := lasting(time.Hour)
		start := time.Now()
		r := s.started(ctx)
		pass(59*time.Minute + 59*time.Second)
		s.log.forget()
		pass(time.Until(r.Bundle().NotAfter))
		Expect(s.log.said()).To(BeEmpty())
		time.Sleep(time.Nanosecond)
		s.look()
		Expect(r.Check(nil)).To(MatchError(reload.ErrExpired))
		pass(10 * time.Minute)
		Expect(s.log.diary(start)).To(Equal([]string{"1h0m0s ERROR leaf expired"}))
	}, SpecTimeout(20*time.Second))

	It("is told of from the start once it was renewed", inBubble, func(ctx SpecContext) {
		s := lasting(40 * time.Hour)
		r := s.started(ctx, rarely)
		pass(41 * time.Hour)
		start := time.Now()
		k := s.ca.Issue(reloadtest.Options{NotBefore: start, NotAfter: start.Add(40 * time.Hour)})
		s.put(k.Files())
		s.settled()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		s.log.forget()
		pass(31 * time.Hour)
		Expect(s.log.diary(start)).To(Equal([]string{"30h0m0s INFO leaf expires soon, left 10h0m0s"}))
	}, SpecTimeout(20*time.Second))

	It("is not told of again in a generation with another CA, nor when it is published anew, nor after a restart", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.ca.Issue(reloadtest.Options{NotBefore: time.Now(), NotAfter: time.Now().Add(40 * time.Hour)})
		s.put(k.Files(s.ca))
		r := s.reloader(rarely)
		running, stop := context.WithCancel(ctx)
		go r.Start(running)
		pass(31 * time.Hour)
		s.log.forget()
		s.put(k.Files(s.ca, reloadtest.NewCA(reloadtest.Options{})))
		s.settled()
		Expect(r.Status().Generation).To(BeEquivalentTo(2))
		again := *r.Bundle()
		r.Store().Store(&again)
		pass(time.Hour)
		stop()
		synctest.Wait()
		go r.Start(ctx)
		pass(time.Hour)
		Expect(s.log.said()).To(Equal([]string{"keypair reloaded"}))
	}, SpecTimeout(20*time.Second))

	It("is told of where it came from memory, and no file replaces it", inBubble, func(ctx SpecContext) {
		s := newSite()
		store := reload.NewStore()
		s.watch(ctx, store, func(o *reload.WatchOptions) { o.AwaitFiles = true })
		pass(10 * time.Minute)
		s.log.forget()
		k := s.ca.Issue(reloadtest.Options{NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)})
		start := time.Now()
		store.Store(bundleOf(k))
		pass(2 * time.Hour)
		Expect(s.log.diary(start)).To(HaveExactElements(
			HavePrefix("45m"), HavePrefix("54m"), HavePrefix("58m"), HavePrefix("1h0m"), // within a minute
		))
		Expect(s.log.lines(slog.LevelError)).To(Equal([]string{"leaf expired"}))
	}, SpecTimeout(20*time.Second))

	It("has nothing to tell where it has no end, which is the year 9999, and costs nothing", inBubble, func(spec SpecContext) {
		ctx, stop := context.WithCancel(spec)
		defer stop()
		s := newSite()
		s.put(s.ca.Issue(reloadtest.Options{NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}).Files())
		looks := &statusCounter{enough: 1000, stop: stop}
		r := s.reloader(func(o *reload.WatchOptions) { o.Metrics = looks })
		go r.Start(ctx)
		pass(time.Hour)
		Expect(looks.told).To(BeNumerically("<", 200))
		Expect(s.log.said()).To(Equal([]string{"keypair loaded"}))
	}, SpecTimeout(5*time.Second))

	It("that does not exist has nothing to tell: trust alone does not expire", inBubble, func(ctx SpecContext) {
		s := newSite()
		ca := reloadtest.NewCA(reloadtest.Options{NotAfter: time.Now().Add(time.Hour)})
		s.write("ca.crt", ca.PEM())
		r, err := reload.NewReloader(reload.Paths{CA: s.path("ca.crt")}, "", s.with())
		Expect(err).NotTo(HaveOccurred())
		go r.Start(ctx)
		pass(2 * time.Hour)
		Expect(s.log.said()).To(Equal([]string{"keypair loaded"}))
	}, SpecTimeout(20*time.Second))
})

// rarely has files read so seldom that it is the clock which tells.
func rarely(o *reload.WatchOptions) { o.Resync = 1000 * time.Hour }

// diary returns what people see, and when.
func (j *journal) diary(start time.Time) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := []string{}
	for _, r := range j.records {
		if r.Level < slog.LevelInfo {
			continue
		}
		line := fmt.Sprintf("%s %s %s", r.Time.Sub(start).Round(time.Second), r.Level, r.Message)
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "left" {
				line += ", left " + a.Value.String()
			}
			return true
		})
		lines = append(lines, line)
	}
	return lines
}

// statusCounter is a Metrics that counts how often it is told of the status. A watcher that spins keeps fake time from
// passing, so it is stopped when that was often enough.
type statusCounter struct {
	told, enough int
	stop         func()
}

func (*statusCounter) ReloadAttempt(bool)  {}
func (*statusCounter) SetExpiry(time.Time) {}

func (c *statusCounter) SetStatus(reload.Status) {
	if c.told++; c.told == c.enough {
		c.stop()
	}
}
