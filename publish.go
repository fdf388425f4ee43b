package reload

// publish.go makes a candidate live and tells everybody.

import (
	"crypto/x509"
	"errors"
	"slices"
	"time"
)

// publish makes a candidate live.
func (f *follower) publish(c *candidate, live *Bundle, now time.Time) {
	f.status.settled()
	message := "keypair reloaded"
	if live == nil {
		message = "keypair loaded"
	}
	f.serve(c.bundle, f.outgoing(live, c.bundle, now), now, message, trustChange(live, c.bundle)...)
	f.isLive(c.content)
	f.shrunk(live)
}

// trustChange returns, as attributes, how many CAs b trusts that live does not, and the reverse: the fingerprint tells
// nothing of them.
func trustChange(live, b *Bundle) (attrs []any) {
	var old []*x509.Certificate
	if live != nil {
		old = live.cas()
	}
	if n := missingFrom(old, b.cas()); n > 0 {
		attrs = append(attrs, "cas_added", n)
	}
	if n := missingFrom(b.cas(), old); n > 0 {
		attrs = append(attrs, "cas_removed", n)
	}
	return attrs
}

// missingFrom counts the certificates of b that a has not.
func missingFrom(a, b []*x509.Certificate) (n int) {
	for _, c := range b {
		if !slices.ContainsFunc(a, c.Equal) {
			n++
		}
	}
	return n
}

// isLive notes what on disk is live: a copy, which keeps nothing else of its candidate in memory.
func (f *follower) isLive(content content) { f.liveContent, f.older = &content, nil }

// adopt records that the content of c is live already, as current returned it.
func (f *follower) adopt(c *candidate, live *Bundle) {
	f.isLive(c.content)
	if live != f.base {
		f.base, f.served = live, live
	}
}

// serve publishes b, which still trusts the outgoing CAs, and tells everybody: in one line, with message.
func (f *follower) serve(b *Bundle, outgoing []*x509.Certificate, now time.Time, message string, attrs ...any) {
	f.base, f.served = b, b.trusting(outgoing, f.paths.CAOnly)
	f.status.swap(f.store, f.served, f.overlapUntil(), now)
	f.reportSwap()
	f.log.Info(message, append([]any{"bundle", f.served}, attrs...)...)
	if errors.Is(b.atTime(now), ErrNotYetValid) {
		f.log.Warn("leaf is not yet valid", "bundle", f.served)
	}
	if f.opts.OnSwap != nil && !f.initial {
		f.swaps.tell(f.served)
	}
}

// shrunk warns that fewer certificates are on disk than were live: a file cut at a block boundary looks like that, and
// nothing in it tells.
func (f *follower) shrunk(live *Bundle) {
	if live != nil && fewer(f.base, live) {
		f.log.Warn("chain or CA file has become shorter", "bundle", f.base,
			"chain", len(f.base.Cert.Certificate), "cas", len(f.base.cas()))
	}
}
