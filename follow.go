package reload

// follow.go is the step of watching: one look at the files, and what comes of it. The loop that decides when to look is
// in watch.go.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

// readLimit is how long a look waits for the file system. A read that takes longer is taken to hang, as on a dead mount.
const readLimit = 5 * time.Second

// Why a set of files is not live, where that is no fault.
var (
	errSettling = errors.New("waiting for the files to settle")
	errOlder    = errors.New("the live keypair was issued later: waiting for the files to change")
)

// unfinished reports whether there is no verdict yet: the files are still changing.
func unfinished(pending error) bool {
	return errors.Is(pending, errSettling) || errors.Is(pending, errUnstable)
}

// follower keeps a Store up to date with the files of one bundle.
type follower struct {
	paths Paths // absolute
	store *Store
	opts  WatchOptions // with every default filled in
	log   *slog.Logger
	swaps *relay // to OnSwap

	// turn is held during a look, so that an older read never overtakes a newer one: the loop and any number of callers of
	// Reload take turns. It guards the rest of this group.
	turn          chan struct{}
	reads         solo[observation]
	verdicts      solo[error] // of Validate
	cand          *candidate  // the last one that was whole; nil once it is live, or was not seen for long
	liveContent   *content    // what was on disk when it last was live; nil before that
	older         *content    // with liveContent nil: what the first look found, which does not displace a bundle issued later
	liveFiles     sightings   // the files that are live; nil where they are not, or it is time to listen anew
	lastLiveFiles sightings   // those that last were, also while others are on disk
	base          *Bundle     // the live bundle as the files gave it
	served        *Bundle     // what was published of base; it trusts more during an overlap
	leaving       []leaving   // CAs on their way out
	lastEvent     time.Time   // when the files were last heard of; zero once they are live
	fault         fault
	hearing       hearing
	frozen        string // path of a file that can change no more; empty where there is none
	ageing        ageing
	reported      reported
	initial       bool // this load is the constructor's

	running  atomic.Bool
	watching atomic.Bool              // running, and not about to end
	ear      atomic.Pointer[listener] // nil without notifications
	nudge    chan struct{}            // capacity 1: a Reload has moved the state
	status   status
}

// candidate is a content that is not live, and what it parses to.
type candidate struct {
	content content
	bundle  *Bundle
	err     error
	since   time.Time // first seen
	files   sightings // when they were last read
	moved   time.Time // when they were first seen as they are
	seen    time.Time // last
}

// observation is what one pass over the files found.
type observation struct {
	set    *fileSet
	err    error
	cand   *candidate // what is in the files; nil with err, or where that is live
	deaf   string     // why notifications are not to be relied on
	frozen string     // path of a file that can change no more
	same   bool       // the files are still those that are live; set is nil
}

// reason is why a look is made.
type reason int

const (
	byTime  reason = iota // a timer or a hint
	byEvent               // a notification
	byCall                // Reload: its caller waits for the outcome
)

// newFollower checks p and fills in the defaults of o.
func newFollower(p Paths, store *Store, o WatchOptions) (*follower, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	p, err := absolutePaths(p)
	if err != nil {
		return nil, err
	}
	o.setDefaults()
	f := &follower{paths: p, store: store, opts: o, log: o.Logger, turn: make(chan struct{}, 1), nudge: make(chan struct{}, 1)}
	if o.Component != "" {
		f.log = f.log.With("component", o.Component)
	}
	if p.Cert != "" {
		f.log = f.log.With("cert", p.Cert)
	} else {
		f.log = f.log.With("ca", p.CA)
	}
	f.swaps = &relay{fn: o.OnSwap, log: f.log}
	if o.PollOnly {
		f.hearing.deaf = "polling only, as asked for"
	}
	return f, nil
}

// take waits for the turn.
func (f *follower) take(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *follower) release() { <-f.turn }

// inTurn calls fn with the turn. It gives the turn back also where fn panics, as a Metrics or a Logger of the user's may:
// whoever recovers from that, such as an HTTP server whose handler called Reload, must not have stopped every other look.
func (f *follower) inTurn(ctx context.Context, fn func()) error {
	if err := f.take(ctx); err != nil {
		return err
	}
	defer f.release()
	fn()
	return nil
}

// look compares the files with what is live and publishes them if they are better and complete. It returns how long to
// wait before the next look if nothing happens, and why the files are not live, nil if they are. The caller has the turn.
func (f *follower) look(ctx context.Context, why reason) (wait time.Duration, pending error) {
	defer func() { f.endOverlap(time.Now()) }() // if watching has ended meanwhile
	files := f.liveFiles
	seen := f.see(ctx, why)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	now := time.Now()
	if seen.set != nil {
		f.freezes(seen.frozen)
	}
	f.suspicion(now)
	f.endOverlap(now)
	wait, pending = f.judge(ctx, seen, now)
	if pending != nil && ctx.Err() != nil {
		return 0, context.Cause(ctx) // there may be no verdict
	}
	f.liveFiles = nil
	switch {
	case pending == nil:
		f.lastEvent, f.cand = time.Time{}, nil
		f.recovered()
		if f.liveFiles = files; !seen.same {
			f.liveFiles = seen.set.sightings()
			f.lastLiveFiles = f.liveFiles
		}
	case errors.Is(pending, errSettling) || errors.Is(pending, errOlder):
		pending = prefixed(pending)
	default:
		pending = prefixed(pending)
		wait = min(wait, f.refuse(pending, why, now))
	}
	f.checkExpiry(now)
	if why == byEvent && seen.set != nil {
		wait = min(f.attend(ctx, seen.set, wait), f.interval()) // which is shorter if there is no listening any more
	}
	f.status.looked(pending, f.degraded(), f.overlapUntil(), now)
	f.report()
	return f.beforeOverlapEnds(wait, now), pending
}

// see reads the files and parses what is new in them. After an event it does not listen anew first: that is left to
// attend, once what was heard of has been judged.
func (f *follower) see(ctx context.Context, why reason) observation {
	if why == byCall && f.liveContent != nil && f.current() != f.base {
		f.liveContent, f.older = nil, f.liveContent // somebody else has published, and may be ahead of the files
	}
	ear, files, last, live, cand := f.ear.Load(), f.liveFiles, f.lastLiveFiles, f.liveContent, f.cand
	listen := ear != nil && why != byEvent
	if why == byEvent {
		f.heard(time.Now())
	}
	brief := why == byTime && live != nil && (ear == nil || f.hearing.deaf == "") // else it is time to try to listen again
	seen, ok := f.reads.do(ctx, readLimit, func() observation {
		if brief && files.unchanged(live) {
			return observation{same: true}
		}
		seen := observe(ctx, f.paths, ear, listen, last)
		if seen.err == nil && (live == nil || *live != seen.set.content) {
			seen.cand = parse(seen.set, f.paths.CAOnly, cand)
		}
		return seen
	})
	switch {
	case !ok:
		seen.err = fmt.Errorf("no answer from the file system within %s", readLimit)
	case listen && !seen.same:
		f.listening(ear, seen, why, time.Now())
	}
	return seen
}

// attend has the follower listen where the paths lead now, and returns how long to wait: not at all if something has
// changed that nobody was listening to.
func (f *follower) attend(ctx context.Context, set *fileSet, wait time.Duration) time.Duration {
	ear := f.ear.Load()
	if ear == nil || !f.quiet() { // stopped, or heard again: the next look comes at once
		return wait
	}
	seen, ok := f.reads.do(ctx, readLimit, func() observation {
		return observation{set: set, deaf: ear.follow(ctx, set), same: !set.moved()}
	})
	if ok {
		f.listening(ear, seen, byEvent, time.Now())
	}
	if ok && seen.same {
		return wait
	}
	f.liveFiles = nil
	return 0
}

// judge decides how long the next look may wait at most, and what comes of an observation.
func (f *follower) judge(ctx context.Context, seen observation, now time.Time) (wait time.Duration, pending error) {
	wait = f.interval()
	if seen.same {
		return wait, nil
	}
	live, set := f.current(), seen.set
	if f.liveContent == nil && f.older == nil && (seen.err == nil || isNotExist(seen.err)) {
		first := set.content
		f.older = &first
	}
	if seen.err != nil {
		f.torn(now)
		return wait, seen.err
	}
	if f.liveContent != nil && *f.liveContent == set.content {
		return wait, nil // unchanged: not parsed again
	}
	c := seen.cand
	if c.err != nil {
		f.torn(now)
		return wait, c.err
	}
	f.cand = c
	if c.bundle.equal(live) {
		f.adopt(c, live)
		return wait, nil
	}
	if err := f.admit(c, set, live, now); err != nil {
		return min(wait, untilValid(c.bundle, now)), err
	}
	if rest := f.unsettled(c, set, live, now); rest > 0 {
		return rest, errSettling
	}
	if err := f.validate(ctx, c.bundle); err != nil {
		return wait, err
	}
	f.publish(c, live, now)
	return wait, nil
}

// observe reads the files, with listen after it has had ear listen where the paths lead, so that a change after the read is
// announced. It runs off the caller's goroutine, and must not touch a follower.
func observe(ctx context.Context, p Paths, ear *listener, listen bool, last sightings) (seen observation) {
	for range readTries {
		set := newSet(p)
		set.resolve()
		if listen {
			seen.deaf = ear.follow(ctx, set)
		}
		err := set.read(ear != nil && set.pairAlone() && set.rewritten(last))
		seen.set, seen.err, seen.frozen = set, err, set.frozen()
		if !errors.Is(err, errUnstable) {
			break
		}
	}
	return seen
}

// current is the live bundle, as its files gave it if it is ours.
func (f *follower) current() *Bundle {
	live := f.store.Load()
	if live != nil && live == f.served {
		return f.base
	}
	return live
}

// parse returns the candidate with the content of set, for which what the last one was parsed to serves again if the content
// is the same.
func parse(set *fileSet, caOnly bool, last *candidate) *candidate {
	now := time.Now()
	c := candidate{content: set.content, since: now, files: set.sightings(), moved: now, seen: now}
	if last == nil || last.content != c.content {
		c.bundle, c.err = newBundle(set.sources(), caOnly)
		return &c
	}
	c.bundle, c.since = last.bundle, last.since
	if slices.Equal(c.files, last.files) {
		c.moved = last.moved
	}
	return &c
}
