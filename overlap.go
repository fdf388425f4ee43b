package reload

// overlap.go keeps trusting a CA for a while after it left the CA file, so that peers who still hold its certificates can
// be renewed in the meantime (WatchOptions.CAOverlap).

import (
	"crypto/x509"
	"slices"
	"time"
)

// leaving is a CA on its way out. A restart forgets it.
type leaving struct {
	ca    *x509.Certificate
	until time.Time
}

// over reports whether the time has come, by the monotonic clock or by the wall clock: a machine that was suspended
// trusts nobody longer.
func (l leaving) over(now time.Time) bool {
	return !now.Before(l.until) || !now.Round(0).Before(l.until.Round(0))
}

// outgoing returns the CAs of live that b no longer names and that stay trusted after b goes live: none while nobody
// watches, since nothing would end the overlap.
func (f *follower) outgoing(live, b *Bundle, now time.Time) []*x509.Certificate {
	old := f.leaving
	if !f.watching.Load() {
		old = nil
	} else if live != nil && f.opts.CAOverlap > 0 {
		for _, ca := range live.cas() {
			until := now.Add(f.opts.CAOverlap)
			if ca.NotAfter.Before(until) {
				until = ca.NotAfter
			}
			old = append(old, leaving{ca, until})
		}
	}
	f.leaving = nil
	for _, l := range old {
		named := slices.ContainsFunc(b.cas(), l.ca.Equal)
		known := slices.ContainsFunc(f.leaving, func(o leaving) bool { return o.ca.Equal(l.ca) })
		if !named && !known && !l.over(now) {
			f.leaving = append(f.leaving, l)
		}
	}
	return f.leavingCAs()
}

func (f *follower) leavingCAs() []*x509.Certificate {
	var cas []*x509.Certificate
	for _, l := range f.leaving {
		cas = append(cas, l.ca)
	}
	return cas
}

// endOverlap publishes a generation without the CAs whose time has come, whatever is on disk. Where nobody watches that is
// every one.
func (f *follower) endOverlap(now time.Time) {
	if len(f.leaving) == 0 {
		return
	}
	f.followCopy()
	watched := f.watching.Load()
	before := len(f.leaving)
	f.leaving = slices.DeleteFunc(f.leaving, func(l leaving) bool { return !watched || l.over(now) })
	if len(f.leaving) == before {
		f.status.overlaps(f.overlapUntil()) // somebody else may have published
		return
	}
	f.serve(f.base, f.leavingCAs(), now, "outgoing CAs are no longer trusted", "cas", before-len(f.leaving))
}

// followCopy takes in what somebody else has published during an overlap. A copy of what was served, such as one with an
// OCSP staple, still trusts the outgoing CAs, and must stop doing so: that copy without them is the base from now on.
func (f *follower) followCopy() {
	live := f.store.Load()
	switch {
	case live == f.served:
	case live.equal(f.served):
		base := *live
		base.setTrust(f.base.cas(), f.paths.CAOnly)
		f.base, f.served = &base, live
	default:
		f.leaving = nil // whom that trusts is theirs to say
	}
}

// overlapUntil returns when the next outgoing CA loses trust, zero when none is outgoing.
func (f *follower) overlapUntil() (next time.Time) {
	for _, l := range f.leaving {
		if next.IsZero() || l.until.Before(next) {
			next = l.until
		}
	}
	return next
}

// beforeOverlapEnds shortens a wait so that the end of an overlap is not slept through.
func (f *follower) beforeOverlapEnds(wait time.Duration, now time.Time) time.Duration {
	if end := f.overlapUntil(); !end.IsZero() {
		return max(0, min(wait, end.Sub(now)))
	}
	return wait
}

// trusting returns a bundle with b's keypair that also trusts the outgoing CAs; b itself without any.
func (b *Bundle) trusting(outgoing []*x509.Certificate, alone bool) *Bundle {
	if len(outgoing) == 0 {
		return b
	}
	c := *b
	c.setTrust(slices.Concat(b.cas(), outgoing), alone)
	return &c
}
