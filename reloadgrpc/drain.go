package reloadgrpc

// drain.go ends the connections of an older generation. A channel keeps its connection for months, and with it the identity
// and the trust of the day it was made.

import (
	"net"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/seed45259946/reload"
)

// Option changes what credentials do. Without any they make handshakes and nothing else.
type Option func(*drainer)

// Drain has connections of an older generation end as soon as a newer one is live: no call begins on them any more, the
// calls under way run to their end, however long that takes, and the last one closes the connection. No call fails, and one
// that begins in the very moment may still go out on the old connection.
//
// It is what a server does that sends GOAWAY: on the server it is sent, as HTTP/2 has it; on the client the channel is told
// that it had come, and connects anew with its next call. Both sides may drain. A client that ignores GOAWAY goes on; see
// [DrainWithin].
//
// All peers connect anew at a rotation, so that a mistake in a CA file shows with it and not weeks later. On a server with
// thousands of clients that is a burst of handshakes; keepalive.ServerParameters.MaxConnectionAge spreads them, and heeds no
// rotation. Publishing one Bundle again, the same pointer, makes no connection old, and while nothing is loaded none ends.
// What is remembered goes with each connection.
//
// The source must be a [reload.Reloader] or a [reload.Store], or embed one: the functions that make credentials panic
// where they are given Drain for another.
func Drain() Option { return func(d *drainer) { d.drains = true } }

// DrainWithin is [Drain] with an end: what is left of a connection after grace is closed, and calls that still run on it
// fail with codes.Unavailable, which gRPC does not retry by itself. With it a CA that was withdrawn is of no more use after
// grace, to a peer that ignores GOAWAY and in streams that never end. Without grace, 0 or less, nothing is waited for.
func DrainWithin(grace time.Duration) Option {
	return func(d *drainer) { d.drains, d.ends, d.grace = true, true, grace }
}

// generations is what a [reload.Store] tells of what is live.
type generations interface {
	Load() *reload.Bundle
	Subscribe(func(*reload.Bundle)) (stop func())
}

// drainer knows the connections that were made with some credentials and are open.
type drainer struct {
	generations
	drains, ends bool
	grace        time.Duration

	mu sync.Mutex // guards the rest
	// open is weak, so that a connection that gRPC lets go of without closing it is forgotten too.
	open map[weak.Pointer[conn]]struct{}
	stop func() // of the subscription, which lasts while any connection is open
}

// newDrainer returns the drainer that options ask for, nil if they do not.
func newDrainer(source Source, options []Option) *drainer {
	d := &drainer{open: map[weak.Pointer[conn]]struct{}{}}
	for _, o := range options {
		o(d)
	}
	if !d.drains {
		return nil
	}
	switch s := source.(type) {
	case generations:
		d.generations = s
	case interface{ Store() *reload.Store }:
		d.generations = s.Store()
	default:
		panic("reloadgrpc: Drain needs a source that is, or embeds, a *reload.Reloader or a *reload.Store")
	}
	return d
}

// client returns what gRPC shall use for a connection that it made under the generation made. below is under the TLS of c.
func (d *drainer) client(c net.Conn, below *wakeable, made *reload.Bundle) net.Conn {
	cc := &clientConn{conn: conn{Conn: c, drainer: d, made: made}, below: below}
	cc.tell = cc.wake
	d.add(&cc.conn)
	return withSyscalls(cc, below.Conn)
}

// server returns what gRPC shall use for a connection that it accepted under the generation made, over raw.
func (d *drainer) server(c, raw net.Conn, made *reload.Bundle) net.Conn {
	sc := &serverConn{conn: conn{Conn: c, drainer: d, made: made}}
	sc.tell = sc.sendSoon
	d.add(&sc.conn)
	return withSyscalls(sc, raw)
}

// add begins to watch over c.
func (d *drainer) add(c *conn) {
	key := weak.Make(c)
	runtime.AddCleanup(c, d.forget, key)
	d.mu.Lock()
	d.open[key] = struct{}{}
	if d.stop == nil {
		d.stop = d.Subscribe(func(*reload.Bundle) { d.retireOlder() })
	}
	d.mu.Unlock()
	d.retire(c) // what went live since the handshake was told to nobody
}

// forget ends what add began.
func (d *drainer) forget(key weak.Pointer[conn]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, key)
	if len(d.open) == 0 && d.stop != nil {
		d.stop()
		d.stop = nil
	}
}

// retireOlder looks at all connections. None of them is waited for.
func (d *drainer) retireOlder() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.open {
		if c := key.Value(); c != nil {
			d.retire(c)
		}
	}
}

// retire has c end if it is of an older generation.
func (d *drainer) retire(c *conn) {
	if live := d.Load(); live == nil || live == c.made || c.retired.Swap(true) {
		return
	}
	c.tell()
	if d.ends {
		c.closeAfter(d.grace)
	}
}
