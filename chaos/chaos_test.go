//go:build linux

package chaos_test

// chaos_test.go has the storm: rounds of some worlds at once, and after each of them a look at what is left.
// RELOAD_CHAOS=1h makes it last an hour.

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	worlds     = 4
	perSecond  = 450              // operations, in all worlds, where the machine is fast enough
	roundLimit = 90 * time.Second // of one round, then everything is closed and begun anew
	heapMargin = 8 << 20
)

var _ = Describe("In chaos", func() {
	It("every handshake that should succeed does, shows what was written whole, and nobody withdrawn gets in", func(ctx SpecContext) {
		length, long := howLong()
		t := newTally(long)
		defer func() { AddReportEntry("chaos", ReportEntryVisibilityFailureOrVerbose, t.table()) }()
		stop := t.progress()
		defer stop()

		t.round(ctx, 0, min(2*time.Second, length)) // what is made once is made
		before := atRest()
		before.inotifyUse = inotifyUse{} // of which nothing is made once and for all
		end := t.start.Add(length)
		for n := 1; time.Now().Before(end) && ctx.Err() == nil; n++ {
			t.round(ctx, n, min(roundLimit, time.Until(end)))
			t.closed(before)
		}
		for _, f := range faults {
			Expect(t.wrong[f]).To(BeZero(), "%s\n%s", f, t.table())
		}
		sum := t.sum()
		Expect(sum.full).NotTo(BeZero())
		Expect(sum.resumed).NotTo(BeZero())
		Expect(sum.reused).NotTo(BeZero())
	}, SpecTimeout(limit()))
})

// progress prints a line a minute until it is stopped.
func (t *tally) progress() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		for rest(ctx, time.Minute) == nil {
			t.say()
		}
		t.say()
	}()
	return func() { cancel(); <-done }
}

// round has some worlds live for d, and closes them.
func (t *tally) round(ctx context.Context, n int, d time.Duration) {
	top := GinkgoT().TempDir()
	running, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var all sync.WaitGroup
	for i := range worlds {
		all.Go(func() {
			defer GinkgoRecover()
			t.live(running, fmt.Sprintf("%d.%d", n, i), top)
		})
	}
	all.Go(func() { starve(running, t) })
	all.Wait()
}

// live has one world live until ctx is done.
func (t *tally) live(ctx context.Context, name, top string) {
	w := newWorld(t, name, filepath.Join(top, name))
	defer w.close()
	Expect(w.begin()).To(Succeed())
	clients, err := w.populate()
	Expect(err).NotTo(HaveOccurred())
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { w.run(ctx, c, time.Second*worlds*time.Duration(len(clients))/perSecond) })
	}
	all.Go(func() { w.besiege(ctx) })
	all.Go(func() { w.nag(ctx) })
	all.Go(func() { w.operate(ctx) })
	all.Wait()

	// The calm: all that was done is undone, and the last state is live.
	for _, sd := range []*side{w.server, w.client} {
		sd.await(context.WithoutCancel(ctx))
	}
	for _, c := range clients {
		w.one(c)
		c.close()
	}
}

// closed compares what is in use with what was before, once everything is closed. What ends by itself has time to.
func (t *tally) closed(before resources) {
	now := inUse()
	for begin := time.Now(); now.moreThan(before, heapMargin) && time.Since(begin) < 30*time.Second; now = inUse() {
		rest(context.Background(), 100*time.Millisecond)
	}
	t.mu.Lock()
	t.leftOver = fmt.Sprintf("%s; at first %s", now, before)
	t.mu.Unlock()
	if now.moreThan(before, heapMargin) {
		t.report(leaked, "%s; at first %s", now, before)
	}
}
