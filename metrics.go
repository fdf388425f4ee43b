package reload

// metrics.go counts reloads and tells the expiry of what is live, for the whole process and without any framework:
// exporters read it.

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Metrics is told what happens to one bundle. A watcher calls it between looks or inside one, one call at a time, holding nothing
// that Status, Bundle or a handshake waits for; but it must not wait for a Reload of the same bundle. A panic in it is not
// recovered.
//
// A Metrics that has the method SetStatus(Status) as well, as those of [DefaultMetrics] have, is called with what Status
// returns whenever that may have changed, as at the end of each look, and with the zero Status when watching ends.
type Metrics interface {
	// ReloadAttempt counts a swap, or a distinct fault that kept the files from going live. Identical content is neither.
	ReloadAttempt(success bool)
	// SetExpiry tells the NotAfter of the leaf that is live now. The zero time withdraws it: there is none to tell of.
	SetExpiry(t time.Time)
}

// DefaultMetrics returns a handle on the process-wide series of component, which [AllSeries] reads. They exist from the
// first call on, with counts of zero. Several handles may share a component: their counts add up, and the expiry is the
// earliest of their live leaves. A handle that is dropped leaves its counts behind, and nothing else. Bytes of component
// that are not UTF-8 are replaced, since exporters panic on them.
//
// Prometheus knows the series as apoxy_tls_cert_reloads_total{component,result="success"|"failure"} and
// apoxy_tls_cert_expiry_seconds{component}, a Unix time. The module reloadprom exports them and what else is in [Series].
func DefaultMetrics(component string) Metrics {
	component = strings.ToValidUTF8(component, "\uFFFD")
	allSeries.Lock()
	defer allSeries.Unlock()
	s := allSeries.components[component]
	if s == nil {
		if allSeries.components == nil {
			allSeries.components = map[string]*series{}
		}
		s = &series{shares: map[uint64]share{}}
		allSeries.components[component] = s
	}
	allSeries.handles++
	h := &handle{series: s, id: allSeries.handles}
	runtime.AddCleanup(h, s.withdraw, h.id) // a Reloader that is dropped has no live leaf
	return h
}

// Series is what the process knows of one component.
type Series struct {
	Component           string
	Succeeded, Failed   uint64    // reloads
	LastSuccess         time.Time // when the last reload succeeded; zero before the first
	NotBefore, NotAfter time.Time // of the live leaf that expires first; zero while there is none, or it is not known
	Pending             int       // bundles whose files are not live, as in Status.Pending
	Degraded            int       // bundles whose changes may go unnoticed for a while, as in Status.Degraded
}

// AllSeries returns the series of every component that [DefaultMetrics] was asked for, sorted by component. Any goroutine
// may call it at any time.
func AllSeries() []Series {
	allSeries.Lock()
	defer allSeries.Unlock()
	all := make([]Series, 0, len(allSeries.components))
	for name, s := range allSeries.components {
		all = append(all, s.sum(name))
	}
	slices.SortFunc(all, func(a, b Series) int { return cmp.Compare(a.Component, b.Component) })
	return all
}

var allSeries struct {
	sync.Mutex // guards components and handles; held before that of a series
	components map[string]*series
	handles    uint64 // ever made, to tell them apart
}

// series is shared by the handles of one component.
type series struct {
	mu                sync.Mutex // guards the rest
	succeeded, failed uint64
	lastSuccess       time.Time
	shares            map[uint64]share // by handle; none that is zero
}

// share is one bundle's part in a series: what withdraw takes back.
type share struct {
	notAfter          time.Time
	from, to          time.Time // of the leaf that the status is about
	pending, degraded bool
}

// sum adds up the shares.
func (s *series) sum(component string) Series {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Series{Component: component, Succeeded: s.succeeded, Failed: s.failed, LastSuccess: s.lastSuccess}
	for _, b := range s.shares {
		if !b.notAfter.IsZero() && (all.NotAfter.IsZero() || b.notAfter.Before(all.NotAfter)) {
			all.NotBefore, all.NotAfter = time.Time{}, b.notAfter
			if b.to.Equal(b.notAfter) { // else the status is yet to come
				all.NotBefore = b.from
			}
		}
		if b.pending {
			all.Pending++
		}
		if b.degraded {
			all.Degraded++
		}
	}
	return all
}

// change changes the share of a handle.
func (s *series) change(id uint64, fn func(*share)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.shares[id]
	fn(&b)
	if b == (share{}) {
		delete(s.shares, id)
	} else {
		s.shares[id] = b
	}
}

func (s *series) withdraw(id uint64) { s.change(id, func(b *share) { *b = share{} }) }

// handle is one bundle's share of a series.
type handle struct {
	series *series
	id     uint64
}

func (h *handle) ReloadAttempt(success bool) {
	h.series.mu.Lock()
	defer h.series.mu.Unlock()
	if success {
		h.series.succeeded++
		h.series.lastSuccess = time.Now()
	} else {
		h.series.failed++
	}
}

func (h *handle) SetExpiry(t time.Time) { h.series.change(h.id, func(b *share) { b.notAfter = t }) }

// SetStatus tells the rest of [Series].
func (h *handle) SetStatus(s Status) {
	h.series.change(h.id, func(b *share) {
		b.from, b.to = s.NotBefore, s.NotAfter
		b.pending, b.degraded = s.Pending != nil, s.Degraded != ""
	})
}
