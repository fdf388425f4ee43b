package reload_test

// clock_linux_test.go sets the clock of the whole machine, and sets it right again. It takes root and RELOAD_CLOCK=1:
//
//	RELOAD_CLOCK=1 go test -run TestReload -ginkgo.focus "clock is set" .

import (
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/seed45259946/reload"
)

var _ = Describe("When the clock is set", Label("fs"), Serial, func() {
	DescribeTable("a rotation goes live as soon as ever", func(ctx SpecContext, step time.Duration) {
		if os.Getenv("RELOAD_CLOCK") == "" {
			Skip("RELOAD_CLOCK is not set")
		}
		dir, old, fresh, last := GinkgoT().TempDir(), newGen(), newGen(), newGen()
		write(dir, old)
		resync := 3 * time.Second
		s := watch(ctx, reload.FromDir(dir), func(o *reload.WatchOptions) { o.PollOnly, o.Resync = true, resync })
		began := time.Now() // by the monotonic clock, from here on
		set(step)
		write(dir, fresh)
		s.swapsTo(ctx, fresh)
		write(dir, last)
		s.swapsTo(ctx, last)
		Expect(time.Since(began)).To(BeNumerically("<", 10*resync))
	},
		Entry("back by half an hour, though nothing but a timer looks", -30*time.Minute, SpecTimeout(time.Minute)),
		Entry("ahead by half an hour", 30*time.Minute, SpecTimeout(time.Minute)),
	)
})

// set steps the clock, until the end of the spec.
func set(step time.Duration) {
	GinkgoHelper()
	put := func(step time.Duration) {
		ts := unix.NsecToTimespec(time.Now().Add(step).Round(0).UnixNano())
		Expect(unix.ClockSettime(unix.CLOCK_REALTIME, &ts)).To(Succeed())
	}
	put(step)
	DeferCleanup(put, -step)
}
