//go:build linux

package chaos_test

// side_test.go is one set of files and those who follow it: what was written, what may be seen of it, what is live.

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// soonEnough bounds the time from the last write until it is live everywhere. Most of it is for the machine: with nothing
// to hear of a change a side waits for its resync, of which the longest is a minute where notifications work and ten
// seconds where they do not.
const soonEnough = 2 * time.Minute

// side is one directory, in one layout, and its followers.
type side struct {
	name   string
	t      *tally
	top    string // holds dir, and nothing else but what faults keep there
	dir    string // what the writers write into
	layout layout
	paths  reload.Paths
	log    *ring
	resync time.Duration
	small  bool // top is a file system that can be filled

	reloader  *reload.Reloader // with its Store, the first of the followers
	followers []*reload.Store
	judged    []atomic.Pointer[reload.Bundle] // what each of them published last, as far as it was judged
	stops     []func()                        // of subscriptions
	cancel    context.CancelFunc
	running   sync.WaitGroup

	state state        // on disk, or about to be; the operator's alone
	live  atomic.Int64 // the number of the last one seen live in all followers

	mu      sync.Mutex       // guards the rest
	chains  map[digest]int   // written whole: the number of the last state that had it
	leaves  map[digest]bool  // written; false for decoys
	pools   []*x509.CertPool // of CA files written
	partial bool             // a writer is at work that leaves valid parts of a file behind
	held    []func()         // reports of faults that such a writer may be to blame for
}

// prepare makes a side with its first state on disk.
func (sd *side) prepare(first state) error {
	sd.chains, sd.leaves = map[digest]int{}, map[digest]bool{}
	sd.log = new(ring)
	sd.intend(first)
	if err := sd.maybeSmall(); err != nil {
		return err
	}
	if err := os.MkdirAll(sd.dir, 0o755); err != nil {
		return err
	}
	if err := sd.layout.write(sd, sd.layout.any(), nil); err != nil {
		return err
	}
	sd.paths = sd.layout.paths(sd.dir)
	return nil
}

// intend makes s what the side is to say next: from now on it may be seen.
func (sd *side) intend(s state) {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	s.n = sd.state.n + 1
	sd.state = s
	sd.chains[digestOf(s.pair.Chain...)] = s.n
	sd.leaves[digestOf(s.pair.Chain[0])] = true
	sd.pools = append(sd.pools, s.pool())
}

// decoy makes k something that must never be seen.
func (sd *side) decoy(k *reloadtest.Keypair) {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	sd.leaves[digestOf(k.Leaf.Raw)] = false
}

// follow starts a Reloader, and a Watch beside it.
func (sd *side) follow(opts func(*reload.WatchOptions)) error {
	ctx, cancel := context.WithCancel(context.Background())
	sd.cancel = cancel
	set := func(o *reload.WatchOptions) {
		o.Logger = slog.New(slog.NewTextHandler(sd.log, nil))
		o.Metrics = nil
		opts(o)
	}
	var err error
	if sd.reloader, err = reload.NewReloader(sd.paths, sd.name, set); err != nil {
		return err
	}
	var o reload.WatchOptions
	set(&o)
	o.AwaitFiles = true // should harm come before its first look
	second := reload.NewStore()
	second.Store(sd.reloader.Bundle())
	sd.followers = []*reload.Store{sd.reloader.Store(), second}
	sd.judged = make([]atomic.Pointer[reload.Bundle], len(sd.followers))
	for i, s := range sd.followers {
		sd.judged[i].Store(s.Load())
		sd.stops = append(sd.stops, s.Subscribe(func(b *reload.Bundle) {
			sd.published(b)
			sd.judged[i].Store(b)
		}))
	}
	sd.running.Go(func() {
		if err := sd.reloader.Start(ctx); err != nil {
			sd.t.report(failed, "%s: Start: %v", sd.name, err)
		}
	})
	sd.running.Go(func() {
		if err := reload.Watch(ctx, sd.paths, second, o); err != nil {
			sd.t.report(failed, "%s: Watch: %v", sd.name, err)
		}
	})
	sd.live.Store(int64(sd.state.n))
	return nil
}

// unfollow ends what follow began.
func (sd *side) unfollow() {
	if sd.cancel != nil {
		sd.cancel()
	}
	sd.running.Wait()
	for _, stop := range sd.stops {
		stop()
	}
}

// published judges what went live. Nothing is seen live before all that was published earlier has been judged: see isLive.
func (sd *side) published(b *reload.Bundle) {
	sd.t.swapped()
	if b == nil {
		sd.report(torn, "%s: an empty store", sd.name)
		return
	}
	if f, why := sd.judge(digestOf(b.Cert.Certificate...), digestOf(b.Cert.Certificate[0]), sd.live.Load()); f != "" {
		sd.report(f, "%s: published: %s", sd.name, why)
	}
	sd.mu.Lock()
	known := slices.ContainsFunc(sd.pools, b.ClientCAs.Equal)
	sd.mu.Unlock()
	if !known {
		sd.report(torn, "%s: published: CAs that were never in the file together", sd.name)
	}
}

// judge says what is wrong with a chain that was seen and, unless since is 0, belongs to no state before that.
func (sd *side) judge(chain, leaf digest, since int64) (fault, string) {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	last, whole := sd.chains[chain]
	meant, known := sd.leaves[leaf]
	switch {
	case !known:
		return wrongLeaf, fmt.Sprintf("an unknown leaf %x", leaf[:4])
	case !meant:
		return wrongLeaf, fmt.Sprintf("a decoy %x", leaf[:4])
	case !whole:
		return torn, fmt.Sprintf("leaf %x in another chain than its own", leaf[:4])
	case int64(last) < since:
		return stale, fmt.Sprintf("leaf %x, last written in state %d, when %d was live", leaf[:4], last, since)
	}
	return "", ""
}

// report counts a fault, unless a writer is at work that may be to blame: then it waits for what came of that.
func (sd *side) report(f fault, format string, args ...any) {
	args = append(args, sd.circumstances())
	report := func() { sd.t.report(f, format+"%s", args...) }
	sd.mu.Lock()
	if sd.partial {
		sd.held = append(sd.held, report)
		sd.mu.Unlock()
		return
	}
	sd.mu.Unlock()
	report()
}

// circumstances are the last lines of the log.
func (sd *side) circumstances() string { return "\n" + sd.name + " logged:\n" + sd.log.String() }

// isLive reports whether the state on disk is live in all followers, and all that was live before has been judged.
func (sd *side) isLive() bool {
	for i, f := range sd.followers {
		if b := f.Load(); !sd.state.is(b) || sd.judged[i].Load() != b {
			return false
		}
	}
	return true
}

// await waits until it is, and nothing is pending.
func (sd *side) await(ctx context.Context) bool {
	begin := time.Now()
	for !sd.isLive() || sd.reloader.Status().Pending != nil {
		if time.Since(begin) > soonEnough {
			sd.t.report(late, "%s in layout %s: state %d is not live: %v, pending %v, degraded %q%s", sd.name, sd.layout.name, sd.state.n,
				sd.followers[0].Load(), sd.reloader.Status().Pending, sd.reloader.Status().Degraded, sd.circumstances())
			return false
		}
		if rest(ctx, 5*time.Millisecond) != nil {
			return false
		}
	}
	sd.t.delay(time.Since(begin))
	sd.live.Store(int64(sd.state.n))
	return true
}

// rest waits for d, unless ctx is done.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
