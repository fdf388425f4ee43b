package reload

// relay.go tells one function of swaps without making anybody wait for it.

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
)

// relay calls fn with each bundle it is told, in order and one at a time. Its goroutine lives only while there is
// something to tell: a process with thousands of bundles has no goroutine for each that waits.
type relay struct {
	fn  func(*Bundle)
	log *slog.Logger // nil: slog.Default()

	mu     sync.Mutex // guards the rest; never held during a call
	queue  []*Bundle
	idle   chan struct{} // closed when the goroutine ends; nil while there is none
	closed bool
}

// tell queues b for fn. It never blocks.
func (r *relay) tell(b *Bundle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.queue = append(r.queue, b)
	if r.idle == nil {
		r.idle = make(chan struct{})
		go r.drain() // ends when the queue is empty or close was called
	}
}

// drain makes the calls.
func (r *relay) drain() {
	done := false
	defer func() {
		if !done {
			go r.drain() // the call ended this goroutine, as a failing test does; the new one ends as this one would have
		}
	}()
	for {
		b, more := r.next()
		if !more {
			done = true
			return
		}
		r.call(b)
	}
}

// next takes the first bundle off the queue, or ends the goroutine.
func (r *relay) next() (*Bundle, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.queue) == 0 {
		r.queue = nil
		close(r.idle)
		r.idle = nil
		return nil, false
	}
	b := r.queue[0]
	r.queue = r.queue[1:]
	return b, true
}

// call makes one call. A panic ends the call and nothing else.
func (r *relay) call(b *Bundle) {
	defer func() {
		if cause := recover(); cause != nil {
			log := r.log
			if log == nil {
				log = slog.Default()
			}
			log.Error("callback panicked", "panic", cause, "stack", string(debug.Stack()))
		}
	}()
	r.fn(b)
}

// close lets no further call begin. It does not wait for one under way: fn itself may be the caller.
func (r *relay) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// flush waits until every call is over, or ctx is done. Calls that have not begun by then are dropped.
func (r *relay) flush(ctx context.Context) {
	r.mu.Lock()
	idle := r.idle
	r.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = nil
}
