package reload

// reload.go is the front door: a Reloader loads a bundle once, serves it, keeps it fresh, and reports.

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// loadLimit is how long NewReloader tries again. Files that are settling get their time on top.
const loadLimit = time.Second

// Reloader serves one bundle and keeps it fresh. Make one with [NewReloader]; the zero Reloader has no files and answers
// [ErrNoCertificate]. All methods may be called at any time from any goroutine; it must not be copied.
type Reloader struct {
	store  Store
	follow *follower // nil in the zero Reloader
}

// NewReloader loads the bundle at p and returns a Reloader that serves it. It starts nothing: [Reloader.Start] keeps the
// bundle fresh. component labels metrics and log lines; each opt changes the options before they are used, and Metrics is
// [DefaultMetrics] of the component unless one sets it.
//
// Files that are being written are waited for: about a second, and for as long as they take to settle. After that, files
// that are missing or refused are an error, unless AwaitFiles, which returns an empty Reloader that answers
// [ErrNoCertificate] until the files are there. An expired pair is served, and logged: a server that does not start is worse.
func NewReloader(p Paths, component string, opts ...func(*WatchOptions)) (*Reloader, error) {
	o := WatchOptions{Component: component, Metrics: DefaultMetrics(component)}
	for _, opt := range opts {
		opt(&o)
	}
	r := &Reloader{}
	f, err := newFollower(p, &r.store, o)
	if err != nil {
		return nil, prefixed(err)
	}
	r.follow = f
	if err := f.load(); err != nil && !o.AwaitFiles {
		f.reportEnd()
		return nil, err
	}
	return r, nil
}

// load looks until the files are live, at most loadLimit; not at all for missing ones that are to be awaited.
func (f *follower) load() error {
	f.initial = true
	defer func() { f.initial = false }()
	giveUp := time.Now().Add(loadLimit)
	for {
		wait, pending := f.look(context.Background(), byTime)
		left := time.Until(giveUp)
		if errors.Is(pending, errSettling) {
			left += maxSettles * f.opts.Settle // what settles goes live in the end
		}
		if pending == nil || left <= 0 || f.opts.AwaitFiles && isNotExist(pending) {
			return pending
		}
		time.Sleep(min(wait, left))
	}
}

// Start keeps the bundle fresh until ctx is done, and then returns nil. It blocks; what it started has ended when it
// returns, as with [Watch]. A Reloader can be started again, but not twice at once, which is an error, as is starting the
// zero Reloader.
func (r *Reloader) Start(ctx context.Context) error {
	if r.follow == nil {
		return ErrNoCertificate
	}
	return r.follow.run(ctx)
}

// Reload looks at the files now. It returns nil once what is on disk is live, the reason if it is refused, and the cause
// of ctx's end if that comes before the files have settled. It works before, during and after Start, and several calls at
// once take turns. A refusal is counted at once, and logged at DEBUG only.
func (r *Reloader) Reload(ctx context.Context) error {
	if r.follow == nil {
		return ErrNoCertificate
	}
	return r.follow.reload(ctx)
}

// reload looks until there is a verdict.
func (f *follower) reload(ctx context.Context) error {
	defer f.stir()
	for start := time.Now(); ; {
		var wait time.Duration
		var pending error
		if err := f.inTurn(ctx, func() { wait, pending = f.look(ctx, byCall) }); err != nil {
			return err
		}
		if !unfinished(pending) || errors.Is(pending, errUnstable) && time.Since(start) > faultGrace {
			return pending
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stir has a running loop look again: a Reload may have left something to wait for.
func (f *follower) stir() {
	select {
	case f.nudge <- struct{}{}:
	default:
	}
}

// Bundle returns the live bundle, nil while there is none.
func (r *Reloader) Bundle() *Bundle { return r.store.Load() }

// Store returns the store the bundle is published to.
func (r *Reloader) Store() *Store { return &r.store }

// Status reports the state of the bundle, without waiting for a look.
func (r *Reloader) Status() Status {
	if r.follow == nil {
		return Status{}
	}
	return r.follow.state()
}

// Check fails when nothing is loaded ([ErrNoCertificate]) or the live leaf has expired ([ErrExpired]). Faults that keep
// newer files from going live do not fail it, nor does degraded watching: a restart heals neither, and both are in
// Status. It has the shape of a health check of controller-runtime; the request is ignored and may be nil.
func (r *Reloader) Check(*http.Request) error {
	live := r.store.Load()
	if live == nil {
		return ErrNoCertificate
	}
	if err := live.atTime(time.Now()); errors.Is(err, ErrExpired) {
		return prefixed(err)
	}
	return nil
}

// NeedLeaderElection tells controller-runtime to run Start on every replica: each serves its own copy.
func (r *Reloader) NeedLeaderElection() bool { return false }
