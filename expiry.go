package reload

// expiry.go tells of a live leaf that nobody renews: while there is time to do something about it, and when it has expired.
// What is judged is the wall clock, as peers judge by theirs.

import (
	"bytes"
	"context"
	"log/slog"
	"time"
)

// notices are told of when this part of a leaf's lifetime is left. cert-manager, certbot, lego and step renew when a third
// is left, so a rotation that works reaches none of them; where agents renew later, the first is no warning.
var notices = []struct {
	part  time.Duration // one part in so many
	level slog.Level
}{
	{4, slog.LevelInfo},
	{10, slog.LevelWarn},
	{30, slog.LevelWarn},
}

// ageing is what was told of the live leaf.
type ageing struct {
	leaf  []byte // DER; nil where there is none
	stage int    // how many of its stages have been told of
}

// stages returns the times after which something is told of b's leaf: each notice, and its end. None without a leaf.
func (b *Bundle) stages() []time.Time {
	notBefore, notAfter := b.validity()
	if notAfter.IsZero() {
		return nil
	}
	var all []time.Time
	for _, n := range notices {
		all = append(all, notAfter.Add(-notAfter.Sub(notBefore)/n.part))
	}
	return append(all, notAfter)
}

// checkExpiry tells of the last stage that the live leaf has reached, once of each leaf: a generation with other CAs, or
// one that somebody publishes anew, does not begin again.
func (f *follower) checkExpiry(now time.Time) {
	live := f.store.Load()
	if leaf := live.leafDER(); !bytes.Equal(leaf, f.ageing.leaf) {
		f.ageing = ageing{leaf: leaf}
	}
	stages := live.stages()
	reached := f.ageing.stage
	for reached < len(stages) && now.After(stages[reached]) {
		reached++
	}
	switch {
	case reached == f.ageing.stage:
		return
	case reached == len(stages):
		f.log.Error("leaf expired", "bundle", live)
	default:
		left := stages[len(stages)-1].Sub(now).Round(time.Second)
		f.log.Log(context.Background(), notices[reached-1].level, "leaf expires soon", "bundle", live, "left", left.String())
	}
	f.ageing.stage = reached
}

// untilExpiry returns how long it is until there is something to tell of the live leaf; no bound where there is not. A
// leaf without an end, which is the year 9999 (RFC 5280, 4.1.2.5), is further ahead than a Duration can say.
func (f *follower) untilExpiry() time.Duration {
	for _, at := range f.store.Load().stages() {
		if left := time.Until(at); left > 0 {
			return min(left, forever-time.Millisecond) + time.Millisecond
		}
	}
	return forever
}
