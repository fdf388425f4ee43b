package reload

// settle.go decides how long a candidate must stay as it is before it goes live. Waiting is for doubt: a writer that
// replaces files one by one passes through states that are valid and incomplete.

import (
	"bytes"
	"crypto/x509"
	"time"
)

// Multiples of WatchOptions.Settle. With the default of 100 ms they are 500 ms, 1 s and 2 s. With these, 1600 rotations by
// each writer, with pauses of up to 200 ms between files, published no torn set that could have been told from a whole one.
const (
	partialSettles = 5  // some file is unchanged, or about to come: it may be the next to be written
	shrinkSettles  = 10 // fewer certificates than are live: most likely cut at a block boundary
	maxSettles     = 20 // of the same content, however often it is written anew: nothing starves a reload
)

// probes is how often within Settle the files are read again to find them closed: notifications do not say.
const probes = 20

// quietFor is how long the files must not have changed to be taken for complete at the first look, when there is nothing
// to compare them with.
const quietFor = 2 * time.Second

// heard notes a notification.
func (f *follower) heard(now time.Time) {
	f.lastEvent = now
	f.fault.backoff = 0
	f.hearing.suspect = time.Time{}
}

// unsettled returns how long to wait before c, if it has not changed by then, is looked at again; nothing once it has
// been as it is for long enough, or is known to be complete.
func (f *follower) unsettled(c *candidate, set *fileSet, live *Bundle, now time.Time) time.Duration {
	need := f.need(c, set, live, now)
	if need == 0 {
		return 0
	}
	from := c.moved
	if f.lastEvent.After(from) {
		from = f.lastEvent
	}
	rest := min(need-now.Sub(from), maxSettles*f.opts.Settle-now.Sub(c.since))
	switch {
	case need > f.opts.Settle || rest <= 0 || !f.evident(c, set, live):
		return rest
	case set.sealed:
		return 0
	default:
		return min(rest, f.opts.Settle/probes)
	}
}

// torn lets go of a candidate that has not been seen whole for long. Until then it counts as the same one when it comes back:
// whoever writes the same files again and again shows torn ones in between, and starves nothing.
func (f *follower) torn(now time.Time) {
	if f.cand != nil && now.Sub(f.cand.seen) > maxSettles*f.opts.Settle {
		f.cand = nil
	}
}

// evident reports whether c is complete if only no writer was at it: its leaf carries its issuer's signature, so that no half
// of it is older; its chain ends where the live one does, so that no more of it is to be appended; and notifications have
// told of it, so that they will of the next write. That every file is new, so that none can still be waiting to be written,
// and that there are no fewer certificates than in the live bundle, need has checked. A CA file is never evident: nothing in
// it says that it belongs to the keypair, nor that it is all.
func (f *follower) evident(c *candidate, set *fileSet, live *Bundle) bool {
	return f.liveContent != nil && set.pairAlone() && c.bundle.proof == genuine && endsAlike(c.bundle, live) &&
		f.ear.Load() != nil && f.hearing.deaf == "" && !f.lastEvent.IsZero()
}

// endsAlike reports whether the chain of b ends in a root, or below the one that the chain of live ends below.
func endsAlike(b, live *Bundle) bool {
	end := chainEnd(b)
	if end != nil && bytes.Equal(end.RawIssuer, end.RawSubject) {
		return true
	}
	was := chainEnd(live)
	return end != nil && was != nil && bytes.Equal(end.RawIssuer, was.RawIssuer)
}

// chainEnd returns the last certificate of the chain of b; nil without one.
func chainEnd(b *Bundle) *x509.Certificate {
	if b == nil || len(b.Cert.Certificate) == 0 {
		return nil
	}
	end, err := x509.ParseCertificate(b.Cert.Certificate[len(b.Cert.Certificate)-1])
	if err != nil { // live may be of somebody else's making
		return nil
	}
	return end
}

// quiet reports whether nothing has been heard since the look began.
func (f *follower) quiet() bool {
	ear := f.ear.Load()
	return ear != nil && len(ear.wake) == 0
}

// need returns how long c must have been on disk.
func (f *follower) need(c *candidate, set *fileSet, live *Bundle, now time.Time) time.Duration {
	settle := f.opts.Settle
	shorter := live != nil && fewer(c.bundle, live)
	switch {
	case set.atomic && !(set.tied && shorter):
		return 0
	case f.liveContent == nil && !set.newest.IsZero() && now.Sub(set.newest) > quietFor:
		return 0
	case shorter:
		return shrinkSettles * settle
	case set.lacking || f.before(c).shares(&c.content):
		return partialSettles * settle
	default:
		return settle
	}
}

// before returns what was on disk before c; nil where nothing is known of it.
func (f *follower) before(c *candidate) *content {
	if f.liveContent == nil && f.older != nil && *f.older != c.content {
		return f.older
	}
	return f.liveContent
}

// fewer reports whether b has a shorter chain or fewer CAs than live.
func fewer(b, live *Bundle) bool {
	return len(b.Cert.Certificate) < len(live.Cert.Certificate) || len(b.cas()) < len(live.cas())
}
