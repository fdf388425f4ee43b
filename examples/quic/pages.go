package main

// pages.go is a part to copy: HTTP/3 beside HTTP/2, from one keypair, and a client of HTTP/3 with one of its own.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/seed45259946/reload"
)

// grace is how long requests may go on when the servers are told to end.
const grace = 5 * time.Second

// site serves the same pages over HTTP/3 and over HTTP/2.
type site struct {
	h2  *http.Server
	h3  *http3.Server
	tcp net.Listener
	udp net.PacketConn
}

// newSite listens. Each server has a config of its own: HTTP/3 and HTTP/2 have no protocol in common.
func newSite(addr string, keypair *reload.Reloader) (*site, error) {
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	udp, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	base := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}
	s := &site{tcp: tcp, udp: udp}
	// Over both protocols Drain refuses requests of clients whose CA was withdrawn. Connections of an older generation it
	// closes in HTTP/2 only: over HTTP/3 those who care dial anew (see visitor).
	handler := keypair.Drain(http.HandlerFunc(s.page))
	s.h2 = &http.Server{Handler: handler, TLSConfig: keypair.ServerConfig(base), ReadHeaderTimeout: grace}
	s.h3 = &http3.Server{Handler: handler, TLSConfig: keypair.ServerConfig(base)}
	return s, nil
}

// page says who asked for it, and whether in data that others may have recorded and sent again: before the handshake is
// complete.
func (s *site) page(w http.ResponseWriter, r *http.Request) {
	s.h3.SetQUICHeaders(w.Header()) // browsers come by TCP first, and change over to where this says
	who, early := "anybody", ""
	if len(r.TLS.PeerCertificates) > 0 {
		who = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	if !r.TLS.HandshakeComplete {
		early = ", in 0-RTT"
	}
	fmt.Fprintf(w, "%s for %s%s\n", r.Proto, who, early)
}

// serve serves until ctx is done.
func (s *site) serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var both sync.WaitGroup
	var err2, err3, err error
	both.Go(func() { defer stop(); err2 = s.h2.ServeTLS(s.tcp, "", "") })
	both.Go(func() { defer stop(); err3 = s.h3.Serve(s.udp) })
	<-ctx.Done()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err = errors.Join(s.h2.Shutdown(patience), s.h3.Shutdown(patience))
	both.Wait()
	for _, e := range []error{err2, err3} {
		if !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return errors.Join(err, s.udp.Close())
}

// newVisitor returns a client of HTTP/3 that dials under the identity and the roots of the moment. It goes on with a
// connection while that lives: call CloseIdleConnections after a rotation, such as in WatchOptions.OnSwap. Requests of the
// method http3.MethodGet0RTT go out in the first flight of a resumed session; where the server rejects that, they fail with
// quic.Err0RTTRejected, and are to be sent again.
func newVisitor(keypair *reload.Reloader, sessions tls.ClientSessionCache) *http3.Transport {
	base := new(tls.Config)
	if sessions != nil {
		base.ClientSessionCache = &usedOnce{ClientSessionCache: sessions}
	}
	return &http3.Transport{
		TLSClientConfig: base,
		Dial: func(ctx context.Context, addr string, base *tls.Config, cfg *quic.Config) (*quic.Conn, error) {
			return quic.DialAddrEarly(ctx, addr, keypair.ClientConfig(base), cfg)
		},
	}
}

// usedOnce hands out each session once; every connection brings new ones. A server may refuse to resume one, as after a
// restart, or after a CA of clients was renewed. quic-go then dials once more: without the session that is a full handshake,
// with it the request would fail.
type usedOnce struct {
	mu sync.Mutex // one session goes to one connection
	tls.ClientSessionCache
}

func (c *usedOnce) Get(key string) (*tls.ClientSessionState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	session, ok := c.ClientSessionCache.Get(key)
	if ok {
		c.Put(key, nil)
	}
	return session, ok
}
