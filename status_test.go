package reload_test

import (
	"sync"
	"sync/atomic"
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
})
