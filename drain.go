package reload

// drain.go closes the connections of an older generation, each after its next response: a peer that keeps its connections
// would otherwise go on for months with a leaf that has long been replaced, or with a CA that was withdrawn.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// Drain returns a handler that serves as next does and has peers on connections of an older generation connect anew: the
// next response on such a connection closes it, with "Connection: close" in HTTP/1 and a GOAWAY in HTTP/2, and a client
// that keeps to the protocol loses no request. Connections without a request stay open; plain HTTP and HTTP/3 are served
// as they come.
//
// If a client was verified against [Bundle].ClientCAs by a config of [Store.ServerConfig] or [Store.ConfigureServer], in
// this handshake or in the one that it resumes, and the live ones no longer lead to its certificate, its requests are
// answered with 403 Forbidden, and the connection is closed; next does not see them. HTTP/3 is included, up to the
// closing. Only a withdrawn CA counts. A client certificate that has expired meanwhile is refused in the next handshake. Requests that next
// is already answering are not cut.
//
// A connection belongs to the generation of its handshake, where a config of this Store made it for net/http, over a
// listener whose connections have a *net.TCPAddr or *net.UnixAddr for an address. Otherwise, such as with GetCertificate
// alone, it belongs to the generation that was live at its first request through a Drain of this Store. Publishing one
// Bundle again, the same pointer, does not make an older generation of it. While nothing is loaded nothing is closed, and
// nobody who was verified before is refused: only new handshakes are.
//
// Call Drain before the server starts: handshakes before the first call in the process are not remembered. What is
// remembered is a few words for each connection, and goes with it. A handler that takes over the connection, or answers
// a request to upgrade it, is left alone.
func (s *Store) Drain(next http.Handler) http.Handler {
	draining.Store(true)
	self := weak.Make(s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		live := s.live.Load()
		switch {
		case r.TLS == nil || live == nil:
			next.ServeHTTP(w, r)
		case !trusted(self, live, r.TLS):
			if closable(r) {
				w.Header().Set("Connection", "close")
			}
			http.Error(w, "client certificate is no longer trusted", http.StatusForbidden)
		case !closable(r) || r.Header.Get("Upgrade") != "" || !outdated(self, live, r):
			next.ServeHTTP(w, r)
		default:
			serveLast(w, r, next)
		}
	})
}

// closable reports whether a response can end the connection of r: HTTP/3 has no header for it, and clients refuse
// responses with that of its predecessors.
func closable(r *http.Request) bool { return r.ProtoMajor <= 2 }

// draining is set by the first Drain of the process, so that others do not pay for what only Drain asks.
var draining atomic.Bool

// connections remembers what is known of connections of which somebody may ask Drain: by connection, a
// weak.Pointer[Bundle] for its generation or a *verified for its client. Handshakes write it and requests read it. Keys
// are weak, and so are the bundles: neither connections nor private keys are kept alive.
var connections sync.Map

// connection is a key: a pointer that only this connection has, and the store that asks about it, since one server may use
// the Drain of several stores.
type connection struct {
	store   weak.Pointer[Store]
	pointer any // a weak.Pointer
}

// remember keeps what for as long as pointer lives, in place of what was known before.
func remember[T any](store weak.Pointer[Store], pointer *T, what any) {
	key := connection{store, weak.Make(pointer)}
	if _, known := connections.Swap(key, what); !known {
		runtime.AddCleanup(pointer, func(key connection) { connections.Delete(key) }, key)
	}
}

// recall returns what is known of the connection that pointer belongs to.
func recall[T any](store weak.Pointer[Store], pointer *T) (what any, ok bool) {
	return connections.Load(connection{store, weak.Make(pointer)})
}

// noteHandshake remembers that the connection of hello is made under b.
func (s *Store) noteHandshake(hello *tls.ClientHelloInfo, b *Bundle) {
	if !draining.Load() || hello == nil || hello.Context() == nil {
		return
	}
	switch addr := localAddr(hello.Context()).(type) {
	case *net.TCPAddr:
		remember(weak.Make(s), addr, weak.Make(b))
	case *net.UnixAddr:
		remember(weak.Make(s), addr, weak.Make(b))
	}
}

// localAddr returns the one value that net/http gives to a handshake and to the requests on its connection, and that no
// other connection has: the address is made when the connection is accepted, and its pointer stays the same.
func localAddr(ctx context.Context) net.Addr {
	addr, _ := ctx.Value(http.LocalAddrContextKey).(net.Addr)
	return addr
}

// outdated reports whether the connection of r was made under another generation than live.
func outdated(store weak.Pointer[Store], live *Bundle, r *http.Request) bool {
	// r.TLS is one pointer for all requests of a connection. What the handshake noted is read once: a listener that has
	// one address for all its connections would otherwise make the oldest look like the latest.
	made, ok := recall(store, r.TLS)
	if !ok {
		switch addr := localAddr(r.Context()).(type) {
		case *net.TCPAddr:
			made, ok = recall(store, addr)
		case *net.UnixAddr:
			made, ok = recall(store, addr)
		}
		if !ok {
			made = weak.Make(live)
		}
		remember(store, r.TLS, made)
	}
	return made.(weak.Pointer[Bundle]).Value() != live
}

// verified is a client that was verified against the ClientCAs of a store.
type verified struct {
	by atomic.Pointer[x509.CertPool] // the latest that its certificate is known to lead to
}

// notingClients returns a VerifyConnection that does what inner does, nil being nothing, and remembers clients that were
// verified against pool. The slice of a client's certificates is made for its connection, and is still the same in the
// ConnectionState that a handler sees.
func (s *Store) notingClients(pool *x509.CertPool, inner func(tls.ConnectionState) error) func(tls.ConnectionState) error {
	self := weak.Make(s)
	return func(cs tls.ConnectionState) error {
		if inner != nil {
			if err := inner(cs); err != nil {
				return err
			}
		}
		if len(cs.PeerCertificates) > 0 {
			v := new(verified)
			v.by.Store(pool)
			remember(self, &cs.PeerCertificates[0], v)
		}
		return nil
	}
}

// trusted reports whether the live ClientCAs still lead to the client's certificate, if that is how it was verified.
func trusted(store weak.Pointer[Store], live *Bundle, cs *tls.ConnectionState) bool {
	if len(cs.PeerCertificates) == 0 {
		return true
	}
	known, ok := recall(store, &cs.PeerCertificates[0])
	if !ok {
		return true
	}
	v := known.(*verified)
	switch {
	case v.by.Load() == live.ClientCAs:
		return true
	case live.ClientCAs == nil || !leadsTo(cs.PeerCertificates, live.ClientCAs):
		return false
	}
	v.by.Store(live.ClientCAs)
	return true
}

// leadsTo reports whether the chain leads to a CA of pool. That the leaf may have expired since it was verified is of no
// account: connections outlive it everywhere.
func leadsTo(chain []*x509.Certificate, pool *x509.CertPool) bool {
	leaf, above := chain[0], x509.NewCertPool()
	for _, c := range chain[1:] {
		above.AddCert(c)
	}
	at := time.Now()
	if at.After(leaf.NotAfter) {
		at = leaf.NotAfter
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots:         pool,
		Intermediates: above,
		CurrentTime:   at,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}
