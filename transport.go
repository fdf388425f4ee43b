package reload

// transport.go makes an http.RoundTripper that follows rotations: a whole http.Transport for each generation, swapped at
// the first request after it and drained, so that proxies, HTTP/2 and upgrades work as they always did.

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// idleTimeout closes idle connections of a base that would keep them for ever. It is that of http.DefaultTransport, and
// what ends, in the last resort, a retired connection that draining missed.
const idleTimeout = 90 * time.Second

// drainAfter is when a retired carrier without requests closes its connections. Once is not enough: the end of a response
// body frees its HTTP/2 stream, and with it the connection, only a moment later. With 16 busy clients and 115 swaps some
// 80 connections stayed open without any of these, one now and then with the first alone, and none with the first three.
// The fourth is for a connection that was dialled for a request which then took another: dialling and handshake take as long
// as the base lets them, forty seconds by default.
var drainAfter = [...]time.Duration{0, 50 * time.Millisecond, time.Second, time.Minute}

// Transport is an [http.RoundTripper] whose requests go out under the identity and the trust roots of the live bundle:
// none starts on a connection made under an older one. Requests in flight finish where they are, and the connections of
// an older bundle close as soon as they are idle; upgraded ones (WebSocket) are the caller's. Until something was loaded
// every request fails with [ErrNoCertificate].
//
// It notices a new bundle when the next request comes, or CloseIdleConnections, and keeps no goroutine and no
// subscription: a Transport that is dropped leaves idle connections until IdleConnTimeout, as any http.Transport does.
// To let go of idle connections at the rotation itself, call CloseIdleConnections from [WatchOptions].OnSwap.
//
// Make one with [Store.Transport]; the zero Transport has nothing loaded. All methods may be called at any time from any
// goroutine.
type Transport struct {
	store *Store
	base  *http.Transport // cloned for each generation, never dialled with

	mu   sync.Mutex // serialises swaps; guards base, whose Clone configures it
	live atomic.Pointer[carrier]
}

// Transport returns a round tripper that follows rotations, configured as base is now; nil is [http.DefaultTransport].
// base is cloned, with what [http.Transport.Clone] leaves behind: protocols registered on it. It speaks HTTP/2 if base
// does. IdleConnTimeout 0, which is for ever, becomes 90 s. MaxConnsPerHost counts each generation alone.
//
// TLSClientConfig is used as [Store.ClientConfig] uses its base: the live roots and identity replace RootCAs and
// Certificates. InsecureSkipVerify stays as it is set, and then nothing verifies servers but the caller's own hooks.
//
// A base that brings its own TLS connections is refused: DialTLS, DialTLSContext, and TLSNextProto with "h2", as
// golang.org/x/net/http2 sets it, whose pool of connections all generations would share.
func (s *Store) Transport(base *http.Transport) (*Transport, error) {
	if base == nil {
		std, ok := http.DefaultTransport.(*http.Transport)
		if !ok {
			return nil, fmt.Errorf("reload: transport: http.DefaultTransport is a %T: give a base", http.DefaultTransport)
		}
		base = std
	}
	//lint:ignore SA1019 deprecated, and in use
	if base.DialTLS != nil || base.DialTLSContext != nil {
		return nil, errors.New("reload: transport: base dials TLS itself (DialTLS or DialTLSContext): use DialContext, or ClientConfig for each dial")
	}
	base = base.Clone()
	if base.TLSNextProto["h2"] != nil {
		return nil, errors.New(`reload: transport: TLSNextProto of base has "h2" (http2.ConfigureTransport): its connections would outlive a rotation: use ForceAttemptHTTP2`)
	}
	keepProtocols(base)
	if base.IdleConnTimeout == 0 {
		base.IdleConnTimeout = idleTimeout
	}
	return &Transport{store: s, base: base}, nil
}

// keepProtocols makes clones of base speak the protocols of the transport it was cloned from. Clone alone does not: it
// has the original configure itself for HTTP/2 first, and takes the trace of that in TLSClientConfig for the caller's
// wish, which turns HTTP/2 off but leaves it on offer to servers.
func keepProtocols(base *http.Transport) {
	var offers []string
	if base.TLSClientConfig != nil {
		offers = base.TLSClientConfig.NextProtos
	}
	var speaks bool
	switch {
	case base.Protocols != nil:
		speaks = base.Protocols.HTTP2()
	case base.TLSNextProto != nil: // without h2: the old way to turn HTTP/2 off
	default:
		speaks = base.ForceAttemptHTTP2 || slices.Contains(offers, "h2")
		base.ForceAttemptHTTP2 = speaks
	}
	if !speaks && len(offers) > 0 {
		base.TLSClientConfig.NextProtos = slices.DeleteFunc(slices.Clone(offers), func(p string) bool { return p == "h2" })
	}
}

// RoundTrip sends one request under the live bundle. See [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c := t.acquire()
	if c == nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, ErrNoCertificate
	}
	counted := false // else the request is over when this returns, also by a panic in one of the caller's hooks
	defer func() {
		if !counted {
			c.release()
		}
	}()
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	// The connection of an upgrade has left the pool, and its body must remain an io.Writer.
	if resp.Body != http.NoBody && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body, counted = &countedBody{ReadCloser: resp.Body, carrier: c}, true
	}
	return resp, nil
}

// CloseIdleConnections closes connections that are idle, and has those of an older bundle close as soon as they are. It
// is what [http.Client.CloseIdleConnections] calls.
func (t *Transport) CloseIdleConnections() {
	if c := t.live.Load(); c != nil {
		c.transport.CloseIdleConnections()
	}
	t.current()
}

// WrappedRoundTripper returns the [http.Transport] of the live bundle, for libraries that look through wrappers for a
// dialler or a TLS config, as client-go does. It does not follow the next rotation: use it and let it go.
func (t *Transport) WrappedRoundTripper() http.RoundTripper { return t.current().transport }

// acquire returns the carrier of the live bundle with one more request on it, nil when nothing is loaded.
func (t *Transport) acquire() *carrier {
	for {
		c := t.current()
		if c.bundle == nil {
			return nil
		}
		// Count first, then look again: either this sees that c was retired meanwhile, or retiring saw the request.
		c.users.Add(1)
		if t.live.Load() == c {
			return c
		}
		c.release()
	}
}

// current returns the carrier of the live bundle. It is made here, after the bundle changed.
func (t *Transport) current() *carrier {
	if c := t.live.Load(); c != nil && c.bundle == t.bundle() {
		return c
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b, old := t.bundle(), t.live.Load() // read again: whoever held the lock may have done it
	if old != nil && old.bundle == b {
		return old
	}
	c := newCarrier(t.base, b)
	t.live.Store(c)
	if old != nil {
		old.retire()
	}
	return c
}

// bundle returns the live bundle, of the zero Transport none.
func (t *Transport) bundle() *Bundle {
	if t.store == nil {
		return nil
	}
	return t.store.Load()
}

// carrier is the http.Transport of one bundle, with the requests it carries.
type carrier struct {
	bundle    *Bundle // nil: nothing is loaded, and transport refuses every server
	transport *http.Transport
	users     atomic.Int64 // requests in flight, and one for as long as it is live
	drained   sync.Once
}

// newCarrier makes the http.Transport of b.
func newCarrier(base *http.Transport, b *Bundle) *carrier {
	c := &carrier{bundle: b, transport: new(http.Transport)}
	if base != nil {
		c.transport = base.Clone()
	}
	c.transport.TLSClientConfig = b.clientConfig(c.transport.TLSClientConfig)
	c.users.Store(1)
	return c
}

// retire closes what c holds open and does not use. Closing writes to the network, so whoever came with the first request
// after a rotation does not wait for it: timers run it, here and in drain, and end.
func (c *carrier) retire() {
	time.AfterFunc(0, c.transport.CloseIdleConnections)
	c.release()
}

// release ends a use of c. After the last one c was retired, and nobody begins another.
func (c *carrier) release() {
	if c.users.Add(-1) == 0 {
		c.drained.Do(c.drain) // once: acquire may pass through zero again, without a request
	}
}

// drain closes every connection of c, which are all idle or about to be.
func (c *carrier) drain() {
	for _, after := range drainAfter {
		time.AfterFunc(after, c.transport.CloseIdleConnections)
	}
}

// countedBody holds its request in flight until it is read to the end or closed.
type countedBody struct {
	io.ReadCloser
	carrier *carrier
	over    atomic.Bool
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done()
	}
	return n, err
}

func (b *countedBody) Close() error {
	err := b.ReadCloser.Close()
	b.done()
	return err
}

func (b *countedBody) done() {
	if b.over.CompareAndSwap(false, true) {
		b.carrier.release()
	}
}
