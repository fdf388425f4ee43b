package reloadgrpc

// conn.go is a connection that can be told to take no new calls: GOAWAY goes into its stream of HTTP/2 frames, between two
// of them, where the other side would have put it.

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"weak"

	"github.com/seed45259946/reload"
)

// conn is what the connections of both sides have in common.
type conn struct {
	net.Conn
	drainer *drainer
	made    *reload.Bundle // its generation; its TLS config holds it anyway
	tell    func()         // has the client hear of GOAWAY; it does not block
	retired atomic.Bool    // set once, before tell

	mu     sync.Mutex // guards the rest
	timer  *time.Timer
	closed bool
}

// closeAfter closes c after grace, if it is still there and nobody else does.
func (c *conn) closeAfter(grace time.Duration) {
	self := weak.Make(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.timer = time.AfterFunc(grace, func() { // stopped by Close
		if c := self.Value(); c != nil {
			c.Close()
		}
	})
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.drainer.forget(weak.Make(c))
	c.mu.Lock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// clientConn lets gRPC read a GOAWAY that the server did not send.
type clientConn struct {
	conn
	below *wakeable

	reading sync.Mutex // guards the rest
	in      frames
	unread  []byte // of GOAWAY
}

// wake has the reader look at retired, even if the server sends nothing.
func (c *clientConn) wake() { c.below.wake() }

// Read implements [net.Conn].
func (c *clientConn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		due := c.retired.Load() && !c.in.goAway
		if due && c.in.between() {
			c.in.goAway, c.unread = true, []byte(goAway)
		}
		if len(c.unread) > 0 {
			n := copy(p, c.unread)
			c.unread = c.unread[n:]
			return n, nil
		}
		some := p
		if due {
			some = p[:min(len(p), c.in.left())] // not into the next frame
		}
		n, err := c.Conn.Read(some)
		c.in.pass(some[:n])
		if !errors.Is(err, errWoken) {
			return n, err
		}
		if n > 0 { // it was woken in the alert behind this data
			return n, nil
		}
	}
}

// serverConn sends a GOAWAY that gRPC does not know of.
type serverConn struct {
	conn

	writing sync.Mutex // guards the rest
	out     frames
}

// sendSoon sends GOAWAY, unless a frame is under way: then the writer of that frame will. The goroutine ends when the
// connection takes the few bytes or is closed.
func (c *serverConn) sendSoon() {
	go func() {
		c.writing.Lock()
		defer c.writing.Unlock()
		c.sendIfBetween() // an error shows with the next write
	}()
}

// sendIfBetween sends GOAWAY once, if this is where it may stand.
func (c *serverConn) sendIfBetween() error {
	if c.out.goAway || !c.out.between() {
		return nil
	}
	c.out.goAway = true
	_, err := c.Conn.Write([]byte(goAway))
	return err
}

// Write implements [net.Conn].
func (c *serverConn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.retired.Load() && !c.out.goAway {
		n = c.out.passUntilBetween(p)
		if n > 0 {
			if n, err = c.Conn.Write(p[:n]); err != nil {
				return n, err
			}
		}
		if err := c.sendIfBetween(); err != nil || n == len(p) {
			return n, err
		}
	}
	c.out.pass(p[n:])
	m, err := c.Conn.Write(p[n:])
	return n + m, err
}

// syscalls is a connection that gives access to its socket too, as those of [credentials.NewTLS] do.
type syscalls struct {
	net.Conn
	sysConn
}

type sysConn = syscall.Conn // two fields cannot both be named Conn

// withSyscalls returns c with the socket of raw, if that gives access to one: channelz shows its options.
func withSyscalls(c, raw net.Conn) net.Conn {
	if s, ok := raw.(syscall.Conn); ok {
		return syscalls{c, s}
	}
	return c
}
