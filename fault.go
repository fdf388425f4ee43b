package reload

// fault.go tells of faults: at once in Status, and once each in the log and the metrics, after a grace in which ordinary
// rotations heal by themselves.

import "time"

const (
	firstBackoff = 50 * time.Millisecond
	// faultGrace is how long a fault may last before it is logged and counted. A rotation file by file takes less.
	faultGrace = 2 * time.Second
	// maxTold bounds what is remembered of one streak of faults.
	maxTold = 16
)

// fault is a streak of looks that found nothing to go live.
type fault struct {
	since    time.Time       // zero while all is well
	backoff  time.Duration   // before the next look without a notification
	told     map[string]bool // what was logged and counted
	lastTold time.Time
}

// refuse notes that err keeps the files from going live, and returns when to look again. Somebody who called Reload gets
// it counted at once, if it is the verdict.
func (f *follower) refuse(err error, why reason, now time.Time) (wait time.Duration) {
	if unfinished(err) {
		why = byTime // its caller waits on
	}
	if f.since.IsZero() {
		f.since = now
	}
	f.backoff = min(max(2*f.backoff, firstBackoff), f.interval())
	if text := err.Error(); !f.told[text] && len(f.told) < maxTold {
		grace := faultGrace - min(now.Sub(f.since), now.Sub(f.lastTold))
		if why != byCall && grace > 0 {
			return min(f.backoff, grace)
		}
		if f.told == nil {
			f.told = map[string]bool{}
		}
		f.told[text], f.lastTold = true, now
		f.tell(err, why)
	}
	return f.backoff
}

// tell logs and counts a fault. Files that were never there are waited for, which is no failed reload. Reload returns its
// error, and what is returned is not logged.
func (f *follower) tell(err error, why reason) {
	switch live := f.store.Load(); {
	case why == byCall:
		f.log.Debug("reload failed", "err", err)
	case live == nil && isNotExist(err):
		f.log.Info("waiting for files", "err", err)
		return
	case live == nil:
		f.log.Warn("reload failed, no keypair yet", "err", err)
	default:
		f.log.Warn("reload failed, keeping previous keypair", "err", err, "bundle", live)
	}
	if f.opts.Metrics != nil {
		f.opts.Metrics.ReloadAttempt(false)
	}
}

// recovered ends a streak.
func (f *follower) recovered() {
	if len(f.told) > 0 {
		f.log.Info("reload recovered", "after", time.Since(f.since).Round(time.Millisecond))
	}
	f.fault = fault{}
}
