package reload

// status.go is what can be asked of a watched bundle at any time, without waiting for a look.

import (
	"encoding/json"
	"sync"
	"time"
)

// Status is the state of one bundle. It encodes to JSON: times in RFC 3339, Pending as its text, and nothing for what is
// zero.
type Status struct {
	Generation  uint64    `json:"generation"`            // swaps so far; the first load is the first
	Fingerprint string    `json:"fingerprint,omitempty"` // of the live leaf
	NotBefore   time.Time `json:"not_before,omitzero"`   // of the live leaf
	NotAfter    time.Time `json:"not_after,omitzero"`    // of the live leaf
	LastSwap    time.Time `json:"last_swap,omitzero"`    // zero before the first
	LastLook    time.Time `json:"last_look,omitzero"`    // when the files were last read, or failed to be
	// Pending is why what is on disk is not live; nil when it is. It names the file where one is at fault.
	Pending      error     `json:"pending,omitempty"`
	PendingSince time.Time `json:"pending_since,omitzero"` // zero when nothing is pending
	// Degraded is why a change may be noticed late, or never: notifications are not to be relied on, nothing is watched, or
	// a file mounted by itself was replaced at its source. Empty when all is well.
	Degraded     string    `json:"degraded,omitempty"`
	OverlapUntil time.Time `json:"overlap_until,omitzero"` // when an outgoing CA loses trust; zero when none is outgoing
}

// MarshalJSON encodes s for a status page.
func (s Status) MarshalJSON() ([]byte, error) {
	type fields Status // without this method
	if s.Pending != nil {
		s.Pending = errorText{s.Pending}
	}
	return json.Marshal(fields(s))
}

// errorText is an error that encodes as its text.
type errorText struct{ error }

func (e errorText) MarshalText() ([]byte, error) { return []byte(e.Error()), nil }

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

// overlaps notes when the next outgoing CA loses trust.
func (t *status) overlaps(until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s.OverlapUntil = until
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
		s.NotBefore, s.NotAfter = live.validity()
	}
	return s
}

// state is what Status reports.
func (f *follower) state() Status {
	s := f.status.of(f.store)
	if !f.running.Load() {
		s.Degraded = "nothing is watched: Start is not running"
	}
	return s
}
