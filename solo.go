package reload

// solo.go runs calls that can hang, such as reads of a dead network mount, where nobody has to wait for them.

import (
	"context"
	"time"
)

// forever is no limit.
const forever time.Duration = 1<<63 - 1

// solo runs one function at a time on a goroutine of its own. A call that does not come back is given up on but stays the
// only one: the next waits for it first. Its methods are called by one goroutine at a time.
type solo[T any] struct {
	out chan T // of the call under way; nil while there is none
}

// do runs fn and returns its result. ok is false where it did not come back within limit, or before ctx was done; its
// goroutine ends when the system lets go of it. ok is false, too, where fn ended its goroutine.
func (s *solo[T]) do(ctx context.Context, limit time.Duration, fn func() T) (v T, ok bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		stale := s.out != nil
		if !stale {
			out := make(chan T, 1)
			s.out = out
			go func() {
				defer close(out)
				out <- fn()
			}()
		}
		select {
		case v, ok := <-s.out:
			s.out = nil
			if !stale {
				return v, ok
			}
		case <-timer.C:
			return v, false
		case <-ctx.Done():
			return v, false
		}
	}
}

// wait waits for a call that was given up on, until ctx is done.
func (s *solo[T]) wait(ctx context.Context) {
	if s.out == nil {
		return
	}
	select {
	case <-s.out:
		s.out = nil
	case <-ctx.Done():
	}
}
