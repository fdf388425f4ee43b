package reload

// report.go is what a watcher tells its Metrics. All of it is called with the turn: one call at a time.

import "time"

// reported is what Metrics have been told.
type reported struct {
	expiry time.Time // zero where there is none, or it was withdrawn
	ended  bool      // watching has: expiry and status are not told until it begins again, or a swap
}

// report tells what is live, whoever has published it, and the state of the bundle.
func (f *follower) report() {
	if f.opts.Metrics == nil || f.reported.ended {
		return
	}
	status := f.state()
	f.reportExpiry(status.NotAfter)
	f.reportStatus(status)
}

// reportSwap tells Metrics of a swap, before OnSwap hears of it.
func (f *follower) reportSwap() {
	if f.opts.Metrics == nil {
		return
	}
	f.reported.ended = false
	f.opts.Metrics.ReloadAttempt(true)
	f.report()
}

// reportEnd takes back what is only true while somebody watches.
func (f *follower) reportEnd() {
	if f.opts.Metrics == nil {
		return
	}
	f.reported.ended = true
	f.reportExpiry(time.Time{})
	f.reportStatus(Status{})
}

func (f *follower) reportExpiry(t time.Time) {
	if !t.Equal(f.reported.expiry) {
		f.reported.expiry = t
		f.opts.Metrics.SetExpiry(t)
	}
}

func (f *follower) reportStatus(s Status) {
	if m, ok := f.opts.Metrics.(interface{ SetStatus(Status) }); ok {
		m.SetStatus(s)
	}
}
