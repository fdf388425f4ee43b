package reload

// metrics.go counts reloads and tells the expiry of what is live, for the whole process and without any framework:
// exporters read it.

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Metrics is told what happens to one bundle. A watcher calls it inside a look, one call at a time: it must not wait for
// a Reload of the same bundle.
type Metrics interface {
	// ReloadAttempt counts a swap, or a distinct fault that kept the files from going live. Identical content is neither.
	ReloadAttempt(success bool)
	// SetExpiry tells the NotAfter of the leaf that is live now. The zero time withdraws it: there is none to tell of.
	SetExpiry(t time.Time)
}

// DefaultMetrics returns a handle on the process-wide series of component, which [AllSeries] reads. They exist from the
// first call on. Several handles may share a component: their counts add up, and the expiry is the earliest of their live
// leaves. Bytes of component that are not UTF-8 are replaced, since exporters panic on them.
//
// Prometheus knows the series as apoxy_tls_cert_reloads_total{component,result="success"|"failure"} and
// apoxy_tls_cert_expiry_seconds{component}, a Unix time.
func DefaultMetrics(component string) Metrics {
	component = strings.ToValidUTF8(component, "\uFFFD")
	allSeries.Lock()
	defer allSeries.Unlock()
	s := allSeries.components[component]
	if s == nil {
		if allSeries.components == nil {
			allSeries.components = map[string]*series{}
		}
		s = &series{expiries: map[uint64]time.Time{}}
		allSeries.components[component] = s
	}
	allSeries.handles++
	h := &handle{series: s, id: allSeries.handles}
	runtime.AddCleanup(h, s.withdraw, h.id) // a Reloader that is dropped has no live leaf
	return h
}

// Series is what the process knows of one component.
type Series struct {
	Component         string
	Succeeded, Failed uint64    // reloads
	NotAfter          time.Time // earliest of the live leaves; zero while there is none
}

// AllSeries returns the series of every component that [DefaultMetrics] was asked for, sorted by component. Any goroutine
// may call it at any time.
func AllSeries() []Series {
	allSeries.Lock()
	components := maps.Clone(allSeries.components)
	allSeries.Unlock()
	all := make([]Series, 0, len(components))
	for name, s := range components {
		all = append(all, Series{name, s.succeeded.Load(), s.failed.Load(), s.earliest()})
	}
	slices.SortFunc(all, func(a, b Series) int { return cmp.Compare(a.Component, b.Component) })
	return all
}

var allSeries struct {
	sync.Mutex // guards components and handles
	components map[string]*series
	handles    uint64 // ever made, to tell them apart
}

// series is shared by the handles of one component.
type series struct {
	succeeded, failed atomic.Uint64

	mu       sync.Mutex // guards expiries
	expiries map[uint64]time.Time
}

// handle is one bundle's share of a series.
type handle struct {
	series *series
	id     uint64
}

func (h *handle) ReloadAttempt(success bool) {
	if success {
		h.series.succeeded.Add(1)
	} else {
		h.series.failed.Add(1)
	}
}

func (h *handle) SetExpiry(t time.Time) {
	if t.IsZero() {
		h.series.withdraw(h.id)
		return
	}
	h.series.mu.Lock()
	defer h.series.mu.Unlock()
	h.series.expiries[h.id] = t
}

func (s *series) withdraw(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.expiries, id)
}

func (s *series) earliest() (t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.expiries {
		if t.IsZero() || e.Before(t) {
			t = e
		}
	}
	return t
}
