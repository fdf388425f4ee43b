package reload

// fault.go tells of faults: at once in Status, and once each in the log and the metrics, after a grace in which ordinary
// rotations heal by themselves.

import "time"

const (
	firstBackoff = 50 * time.Millisecond
	// faultGrace is how long a fault may last before it is logged and counted. A rotation file by file takes less.
	faultGrace = 2 * time.Second
	// maxCauses bounds what is remembered of one streak of faults.
	maxCauses = 16
)

// fault is a streak of looks that found nothing to go live.
type fault struct {
	since   time.Time            // zero while all is well
	backoff time.Duration        // before the next look without a notification
	causes  map[string]time.Time // when each becomes due to be logged and counted; zero once that is done
	told    bool                 // at least one was
	warned  bool                 // at least one was logged as a warning
}

// refuse notes that err keeps the files from going live, and returns when to look again. Somebody who called Reload gets
// it counted at once, if it is the verdict.
func (f *follower) refuse(err error, why reason, now time.Time) (wait time.Duration) {
	if unfinished(err) {
		why = byTime // whoever called waits on
	}
	if f.fault.since.IsZero() {
		f.fault.since = now
		f.fault.causes = map[string]time.Time{}
	}
	f.fault.backoff = min(max(2*f.fault.backoff, firstBackoff), f.interval())
	cause := err.Error()
	due, known := f.fault.causes[cause]
	switch {
	case known && due.IsZero() || !known && len(f.fault.causes) == maxCauses:
		return f.fault.backoff
	case !known && f.fault.told:
		due = now.Add(faultGrace) // it may be a step on the way out
	case !known:
		due = f.fault.since.Add(faultGrace)
	}
	if grace := due.Sub(now); grace > 0 && why != byCall {
		f.fault.causes[cause] = due
		return min(f.fault.backoff, grace)
	}
	f.fault.causes[cause], f.fault.told = time.Time{}, true
	f.tell(err, why)
	return f.fault.backoff
}

// tell logs and counts a fault. Files that were never there are waited for, which is no failed reload. Reload returns its
// error, so that is logged at DEBUG only.
func (f *follower) tell(err error, why reason) {
	switch live := f.store.Load(); {
	case why == byCall:
		f.log.Debug("reload failed", "err", err)
	case live == nil && isNotExist(err):
		f.log.Info("waiting for files", "err", err)
		return
	case live == nil:
		f.fault.warned = true
		f.log.Warn("reload failed, no keypair yet", "err", err)
	default:
		f.fault.warned = true
		f.log.Warn("reload failed, keeping previous keypair", "err", err, "bundle", live)
	}
	if f.opts.Metrics != nil {
		f.opts.Metrics.ReloadAttempt(false)
	}
}

// recovered ends a streak, and says so to those who were warned of it.
func (f *follower) recovered() {
	if f.fault.warned {
		f.log.Info("reload recovered", "after", time.Since(f.fault.since).Round(time.Millisecond).String())
	}
	f.fault = fault{}
}
