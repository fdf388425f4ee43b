package reloadgrpc

// wake.go has a reader come back from a connection on which nothing arrives.

import (
	"net"
	"sync"
	"time"
)

// wakeable is a connection whose reader can be woken. It is below TLS, where a read that ends early loses nothing.
type wakeable struct {
	net.Conn

	mu       sync.Mutex // guards the rest
	deadline time.Time  // that somebody wants
	waking   bool       // the connection has one in the past instead
}

// wake has the Read that is blocked, or the next one that would be, return errWoken. A connection without deadlines has its
// reader look when something arrives.
func (w *wakeable) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waking = w.Conn.SetReadDeadline(time.Unix(1, 0)) == nil
}

// Read implements [net.Conn].
func (w *wakeable) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() && w.woken() {
		if err = nil; n == 0 {
			err = errWoken
		}
	}
	return n, err
}

// woken reports whether wake was called, and ends its effect.
func (w *wakeable) woken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.waking {
		return false
	}
	w.waking = false
	w.Conn.SetReadDeadline(w.deadline) // an error shows with the next Read
	return true
}

// SetReadDeadline implements [net.Conn].
func (w *wakeable) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	if w.waking {
		return nil
	}
	return w.Conn.SetReadDeadline(t)
}

// SetDeadline implements [net.Conn].
func (w *wakeable) SetDeadline(t time.Time) error {
	if err := w.SetReadDeadline(t); err != nil {
		return err
	}
	return w.SetWriteDeadline(t)
}

// errWoken is temporary to crypto/tls, which would otherwise take it for the end of the connection.
var errWoken error = wokenError{}

type wokenError struct{}

func (wokenError) Error() string   { return "reloadgrpc: reader woken" }
func (wokenError) Timeout() bool   { return true }
func (wokenError) Temporary() bool { return true }
