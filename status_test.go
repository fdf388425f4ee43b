package reload_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
)

var _ = Describe("Status", func() {
	It("is of one moment: no generation shows two fingerprints", func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader(func(o *reload.WatchOptions) { o.Settle = time.Nanosecond })
		var all sync.WaitGroup
		var over atomic.Bool
		seen := map[uint64]string{}
		all.Go(func() {
			defer GinkgoRecover()
			for !over.Load() {
				status := r.Status()
				before, known := seen[status.Generation]
				if known && before != status.Fingerprint {
					Fail("one generation, two fingerprints")
				}
				seen[status.Generation] = status.Fingerprint
			}
		})
		for range 100 {
			s.rotate()
			Expect(r.Reload(ctx)).To(Succeed())
		}
		over.Store(true)
		all.Wait()
		Expect(r.Status().Generation).To(BeEquivalentTo(101))
	}, SpecTimeout(20*time.Second))

	It("says that nobody watches before Start and after it", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		const asleep = "nothing is watched: Start is not running"
		r := s.reloader()
		Expect(r.Status().Degraded).To(Equal(asleep))
		running, stop := context.WithCancel(ctx)
		go r.Start(running)
		synctest.Wait()
		Expect(r.Status().Degraded).NotTo(Equal(asleep))
		stop()
		synctest.Wait()
		Expect(r.Status().Degraded).To(Equal(asleep))
	}, SpecTimeout(5*time.Second))

	It("tells of each look", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		swap := r.Status().LastSwap
		for range 5 {
			pass(10 * time.Second)
			s.look()
			Expect(r.Status().LastLook).To(BeTemporally("==", time.Now()))
			Expect(r.Status().LastSwap).To(Equal(swap))
		}
		s.rotate()
		s.look()
		Expect(r.Status().LastSwap).To(Equal(swap))
		Expect(pendingOf(r)).To(MatchError("reload: waiting for the files to settle"))
		Expect(r.Status().PendingSince).To(BeTemporally("==", time.Now()))
		pass(reload.DefaultSettle)
		Expect(r.Status().LastSwap).To(BeTemporally("==", time.Now()))
		Expect(r.Status().PendingSince).To(BeZero())
	}, SpecTimeout(5*time.Second))

	It("is JSON with the text of what is pending, and without what is zero", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.issue()
		s.put(k.Files(s.ca))
		r := s.started(ctx)
		Expect(json.Marshal(r.Status())).To(MatchJSON(fmt.Sprintf(`{
			"generation": 1, "fingerprint": %q,
			"not_before": "1999-12-31T23:00:00Z", "not_after": "2000-01-02T00:00:00Z",
			"last_swap": "2000-01-01T00:00:00.1Z", "last_look": "2000-01-01T00:00:00.1Z",
			"degraded": "polling only, as asked for"
		}`, k.Fingerprint())))

		s.remove("ca.crt")
		s.look()
		Expect(json.Marshal(r.Status())).To(MatchJSON(fmt.Sprintf(`{
			"generation": 1, "fingerprint": %q,
			"not_before": "1999-12-31T23:00:00Z", "not_after": "2000-01-02T00:00:00Z",
			"last_swap": "2000-01-01T00:00:00.1Z", "last_look": "2000-01-01T00:00:00.1Z",
			"pending": "reload: trust roots: open %s: no such file or directory", "pending_since": "2000-01-01T00:00:00.1Z",
			"degraded": "polling only, as asked for"
		}`, k.Fingerprint(), s.path("ca.crt"))))
	}, SpecTimeout(5*time.Second))

	It("is JSON too where nothing is loaded, in a struct, and by pointer", func() {
		Expect(json.Marshal(reload.Status{})).To(MatchJSON(`{"generation": 0}`))
		Expect(json.Marshal(map[string]any{"tls": &reload.Status{Pending: errRefused}})).To(
			MatchJSON(`{"tls": {"generation": 0, "pending": "not this one"}}`))
	})

	It("tells the end of an overlap in JSON", func() {
		Expect(json.Marshal(reload.Status{OverlapUntil: time.Unix(0, 0).UTC()})).To(
			MatchJSON(`{"generation": 0, "overlap_until": "1970-01-01T00:00:00Z"}`))
	})
})
