package reload

// status.go is what can be asked of a watched bundle at any time, without waiting for a look.

import (
	"sync"
	"time"
)

// Status is the state of one bundle.
type Status struct {
	Generation   uint64    // swaps so far; the first load is the first
	Fingerprint  string    // of the live leaf
	NotAfter     time.Time // of the live leaf
	LastSwap     time.Time // zero before the first
	LastLook     time.Time // when the files were last read, or failed to be
	Pending      error     // why what is on disk is not live; nil when it is
	PendingSince time.Time // zero when nothing is pending
	// Degraded is why a change may be noticed late, or never: notifications are not to be relied on, nothing is watched, or
	// a file mounted by itself was replaced at its source. Empty when all is well.
	Degraded     string
	OverlapUntil time.Time // when an outgoing CA loses trust; zero when none is outgoing
}

// status is what a follower keeps of its Status. The rest is read off the live bundle.
type status struct {
	mu sync.Mutex // guards s; held for copies and swaps, which wait for nobody
	s  Status
}

// swap publishes b in store. The lock is held meanwhile, so that whoever sees b, or is told of it, finds it here too.
func (t *status) swap(store *Store, b *Bundle, overlap, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	store.Store(b)
	t.s.Generation++
	t.s.LastSwap, t.s.OverlapUntil = now, overlap
}

// settled notes that nothing is pending any more: whoever is told of a swap sees it.
func (t *status) settled() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s.Pending, t.s.PendingSince = nil, time.Time{}
}

// looked notes the outcome of a look.
func (t *status) looked(pending error, degraded string, overlap, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s.LastLook, t.s.Pending, t.s.Degraded, t.s.OverlapUntil = now, pending, degraded, overlap
	switch {
	case pending == nil:
		t.s.PendingSince = time.Time{}
	case t.s.PendingSince.IsZero():
		t.s.PendingSince = now
	}
}

// of returns the status with what is live in store now.
func (t *status) of(store *Store) Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.s
	if live := store.Load(); live != nil {
		s.Fingerprint = live.Fingerprint
		_, s.NotAfter = live.validity()
	}
	return s
}
