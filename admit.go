package reload

// admit.go is what a candidate must pass to go live.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// admit refuses a candidate that would make things worse.
func (f *follower) admit(c *candidate, set *fileSet, live *Bundle, now time.Time) error {
	if ca := set.byRole(roleCA); ca != nil && live != nil && live.ClientCAs != nil && len(c.bundle.cas()) == 0 {
		err := ca.walk.err
		if err == nil {
			err = fmt.Errorf("%w: empty", ErrMalformedPEM)
		}
		return &fileError{roleCA, ca.path, err} // trust never changes because a file is missing
	}
	if live != nil && len(live.Cert.Certificate) > 0 && live.atTime(now) == nil {
		if err := c.bundle.atTime(now); err != nil {
			return &fileError{roleCert, f.paths.Cert, err}
		}
	}
	if f.older != nil && *f.older == c.content && issuedLater(live, c.bundle) {
		return errOlder
	}
	return nil
}

// untilValid returns how long it is until the leaf becomes valid; no bound where it is, or has expired.
func untilValid(b *Bundle, now time.Time) time.Duration {
	if from, _ := b.validity(); from.After(now) {
		return from.Sub(now)
	}
	return forever
}

// issuedLater reports whether live was issued after b.
func issuedLater(live, b *Bundle) bool {
	liveFrom, _ := live.validity()
	from, _ := b.validity()
	return liveFrom.After(from)
}

// validate asks the user's hook, and gives up when ctx is done.
func (f *follower) validate(ctx context.Context, b *Bundle) error {
	if f.opts.Validate == nil {
		return nil
	}
	err, ok := f.verdicts.do(ctx, forever, func() error { return ask(f.opts.Validate, b) })
	if !ok {
		err = cmp.Or(context.Cause(ctx), errors.New("no verdict")) // its goroutine has ended, as a test that fails does
	}
	if err != nil {
		return fmt.Errorf("validate: %w", err)
	}
	return nil
}

// ask calls a hook. A panic in it refuses the candidate and nothing else.
func ask(validate func(*Bundle) error, b *Bundle) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return validate(b)
}
