package reload

// watch.go is when to look: the options of watching, and the one loop.

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

const (
	// DefaultResync is how often files are read whether or not anything was heard of them.
	DefaultResync = time.Minute
	// DefaultSettle is how long new files must stay the same before they go live, where it is not known that they are
	// complete.
	DefaultSettle = 100 * time.Millisecond
)

const (
	degradedResync = 10 * time.Second     // where notifications are not to be relied on
	tick           = time.Minute          // how often the wall clock is consulted
	spacings       = 4                    // looks per Settle in a storm of events
	freeLooks      = 8                    // looks before that limit holds
	hangLimit      = time.Second          // how long the end of watching waits for a system that hangs
	year           = 365 * 24 * time.Hour // as good as never, and no multiple of it that is used here overflows
	callbackLimit  = 5 * time.Second      // and for the user's code
)

// WatchOptions says how to watch. The zero value of every field is its recommended one.
type WatchOptions struct {
	// OnSwap is called after each swap by the watcher, with the bundle that went live: in order, one call at a time, on a
	// goroutine of its own, holding nothing. It may call any method, and cancel, but not wait for Start to return. A panic
	// in it is logged.
	OnSwap func(*Bundle)
	// Metrics is told of swaps, of faults and of the live expiry. Nil disables.
	Metrics Metrics
	// Component labels log lines; empty for none.
	Component string
	// Logger gets one line for each event. Nil is slog.Default().
	Logger *slog.Logger
	// Resync is how often the files are read without being told of a change. 0, or less, is DefaultResync; more than a year
	// is a year.
	Resync time.Duration
	// Settle is how long new files must stay the same before they go live, where it is not known that they are complete;
	// longer where the doubt is greater. 0, or less, is DefaultSettle; more than a year is a year.
	Settle time.Duration
	// Hints asks for a look with each receive: a signal, an informer. A closed channel gives no more hints.
	Hints <-chan struct{}
	// Validate has the last word on a candidate: an error keeps the live bundle, and it is asked again with every retry. It
	// is called inside a look: no file is looked at meanwhile, and it must not wait for a Reload of the same bundle. A panic
	// in it refuses the candidate.
	Validate func(*Bundle) error
	// AwaitFiles waits for files that are missing or refused at first, where otherwise NewReloader fails, and for the
	// directory, without which Watch otherwise returns.
	AwaitFiles bool
	// CAOverlap keeps trusting a CA, in both pools, this long after it left the CA file, but never past its NotAfter. Then
	// a generation without it goes live. 0 withdraws trust with the swap. It takes a running watcher to end an overlap: one
	// that stops ends it early, and while none runs a Reload begins none. A restart of the process forgets it.
	CAOverlap time.Duration
	// PollOnly uses no notifications: resync and hints only.
	PollOnly bool
}

// setDefaults fills in what was left out.
func (o *WatchOptions) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Resync <= 0 {
		o.Resync = DefaultResync
	}
	if o.Settle <= 0 {
		o.Settle = DefaultSettle
	}
	o.Resync, o.Settle = min(o.Resync, year), min(o.Settle, year)
}

// Watch keeps store up to date with the files at p until ctx is done, and then returns nil. By then everything it started
// has ended, except a callback that runs for more than 5 s and a read that hangs in the system. It looks at the files at
// once, when they change, and every Resync.
//
// Watch is best-effort: invalid Paths are an error, and when none of the directories exists it logs that and returns nil,
// unless AwaitFiles; every other obstacle makes it poll. A bundle in store that was issued later than the files stays
// until the files change.
func Watch(ctx context.Context, p Paths, store *Store, opts WatchOptions) error {
	if store == nil {
		return errors.New("reload: no store to watch for")
	}
	f, err := newFollower(p, store, opts)
	if err != nil {
		return prefixed(err)
	}
	if !opts.AwaitFiles {
		var stats solo[bool]
		if some, ok := stats.do(ctx, readLimit, f.anyDirectory); ok && !some {
			f.log.Warn("no directory to watch")
			return nil
		}
	}
	return f.run(ctx)
}

// anyDirectory reports whether there is a directory for any of the paths. One that cannot be reached for now, for a mount
// that is down or for want of rights, is there.
func (f *follower) anyDirectory() bool {
	for _, path := range []string{f.paths.Cert, f.paths.Key, f.paths.CA} {
		if path != "" {
			if _, err := os.Stat(filepath.Dir(path)); !isNotExist(err) {
				return true
			}
		}
	}
	return false
}

// run looks whenever there is reason to, until ctx is done.
func (f *follower) run(ctx context.Context) error {
	if !f.running.CompareAndSwap(false, true) {
		return errors.New("reload: already started")
	}
	defer f.running.Store(false)
	defer f.end()
	if f.inTurn(ctx, f.begin) != nil {
		return nil
	}

	var wake chan struct{}
	if ear := f.ear.Load(); ear != nil {
		wake = ear.wake
	}
	hints := f.opts.Hints
	alarm := newAlarm()
	defer alarm.stop()
	for {
		why := byTime
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			f.log.Debug("file change")
			why = byEvent
		case _, open := <-hints:
			if !open {
				hints = nil
				continue
			}
		case <-f.nudge:
		case <-alarm.timer.C:
			if !alarm.due() {
				f.onTick(ctx)
				alarm.again(f.untilExpiry())
				continue
			}
		}
		var wait time.Duration
		look := func() { wait, _ = f.look(ctx, why) }
		if !alarm.space(ctx, f.opts.Settle/spacings) || f.inTurn(ctx, look) != nil {
			return nil
		}
		alarm.set(wait, f.untilExpiry())
	}
}

// begin joins the hub and tells of what is live.
func (f *follower) begin() {
	if !f.opts.PollOnly {
		f.ear.Store(notifications.join())
	}
	f.watching.Store(true)
	f.liveFiles = nil // the first look listens, whatever it finds
	f.reported.ended = false
	f.report()
}

// end leaves the hub, waits for what the last look has left running, ends overlaps, withdraws the expiry, and waits for
// callbacks. A system that hangs is waited for no longer than hangLimit, the user's code no longer than callbackLimit.
func (f *follower) end() {
	f.watching.Store(false)
	hung, cancel := context.WithTimeout(context.Background(), hangLimit)
	defer cancel()
	busy, cancel := context.WithTimeout(context.Background(), callbackLimit)
	defer cancel()
	if ear := f.ear.Swap(nil); ear != nil {
		var leaves solo[struct{}]
		leaves.do(hung, forever, func() (none struct{}) { ear.leave(); return })
	}
	f.inTurn(busy, func() { // skipped if a Reload still has the turn by then: it sees to the same when it is over
		f.reads.wait(hung)
		f.verdicts.wait(busy)
		f.endOverlap(time.Now())
		f.reportEnd()
	})
	f.swaps.flush(busy)
}

// onTick looks at the clock, not at the files.
func (f *follower) onTick(ctx context.Context) {
	f.inTurn(ctx, func() {
		f.checkExpiry(time.Now())
		f.report()
	})
}

// interval is how long to wait before the next look when nothing is heard: what was asked for, less up to a tenth. It varies,
// so that a thousand bundles do not all read at once; and it ends at one of the moments that bundles share, since a timer
// that fires alone, on a processor that sleeps, takes more than the look (280 µs for both, 120 µs where several share it).
func (f *follower) interval() time.Duration {
	d := f.resync()
	shared := d/64 + 1
	d -= rand.N(d/12 + 1)
	return d - time.Duration(time.Now().UnixNano()+int64(d))%shared
}

func (f *follower) resync() time.Duration {
	if f.hearing.deaf != "" && !f.opts.PollOnly {
		return min(f.opts.Resync, degradedResync)
	}
	return f.opts.Resync
}

// alarm is when to look next: by the monotonic clock, which stands still while a machine sleeps, or by the wall clock,
// which somebody may set back, whichever comes first.
type alarm struct {
	timer *time.Timer
	at    time.Time
	paid  time.Time // when the next look may be, if all were spaced evenly
}

func newAlarm() *alarm { return &alarm{timer: time.NewTimer(0), at: time.Now()} }

func (a *alarm) stop() { a.timer.Stop() }

// set asks for a look after wait, and for a tick after no more than until.
func (a *alarm) set(wait, until time.Duration) {
	a.at = time.Now().Add(wait)
	a.again(until)
}

// again starts the timer for the rest of the wait.
func (a *alarm) again(until time.Duration) {
	a.timer.Reset(max(0, min(time.Until(a.at), until, tick)))
}

// due reports whether it is time to look, not only to look at the clock.
func (a *alarm) due() bool {
	now := time.Now()
	return !now.Before(a.at) || !now.Round(0).Before(a.at.Round(0))
}

// space waits so that a storm of events does not make a storm of reads. The first few looks are not delayed, so that an
// ordinary rotation goes live at once. It returns false if ctx is done first.
func (a *alarm) space(ctx context.Context, spacing time.Duration) bool {
	now := time.Now()
	if a.paid.Before(now) {
		a.paid = now
	}
	wait := a.paid.Sub(now) - freeLooks*spacing
	a.paid = a.paid.Add(spacing)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}
