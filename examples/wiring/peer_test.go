package wiring_test

// peer_test.go has the server that clients connect to. It speaks no protocol but TLS, which is all that matters here.

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/quic-go/quic-go"

	"github.com/seed45259946/reload/reloadtest"
)

// peer makes a handshake with whoever connects, hangs up, and remembers the client.
type peer struct {
	addr string

	mu   sync.Mutex // guards what follows
	shot *shot
}

// shot is what happened while the peer showed one keypair.
type shot struct {
	config  *tls.Config
	taken   chan struct{} // closed by the first handshake that a client has come to a decision in
	mu      sync.Mutex    // guards what follows
	clients []string      // fingerprints of the clients that took the peer for what it should be
	refused int           // by clients that did not
}

// opening begins to listen, and has the peer meet those who connect until stop is called, which waits for the last of them.
type opening func(p *peer) (addr net.Addr, stop func())

// newPeer starts one, for as long as the spec runs.
func newPeer(host string, open opening) *peer {
	GinkgoHelper()
	p := new(peer)
	addr, stop := open(p)
	DeferCleanup(stop)
	_, port, err := net.SplitHostPort(addr.String())
	Expect(err).NotTo(HaveOccurred())
	p.addr = net.JoinHostPort(host, port)
	return p
}

// show has the peer present a keypair to all who connect from now on.
func (p *peer) show(k *reloadtest.Keypair) *shot {
	s := &shot{taken: make(chan struct{}), config: &tls.Config{
		Certificates: []tls.Certificate{k.TLS()},
		ClientAuth:   tls.RequireAnyClientCert,
		NextProtos:   []string{"h2", "h3"}, // for clients that insist; the others offer nothing
	}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shot = s
	return s
}

func (p *peer) showing() *shot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shot
}

// note remembers how a handshake ended: with the certificates of a client, or because it refused, which it does before it
// shows any.
func (s *shot) note(clients []*x509.Certificate, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.clients) == 0 && s.refused == 0 && (refused || len(clients) > 0) {
		close(s.taken)
	}
	if len(clients) > 0 {
		sum := sha256.Sum256(clients[0].Raw)
		s.clients = append(s.clients, hex.EncodeToString(sum[:]))
	} else if refused {
		s.refused++
	}
}

// leaves returns the fingerprints of clients.
func (s *shot) leaves() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.clients)
}

// refusals returns how often a client broke the handshake off.
func (s *shot) refusals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// plain is TLS from the first byte.
func plain(p *peer) (net.Addr, func()) {
	return after(func(net.Conn) error { return nil })(p)
}

// after is TLS over TCP after a greeting.
func after(greet func(net.Conn) error) opening {
	return func(p *peer) (net.Addr, func()) {
		l := must(net.Listen("tcp", "127.0.0.1:0"))
		var all sync.WaitGroup // of this loop, which the listener ends, and of the handshakes, which their clients end
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				s := p.showing()
				all.Go(func() {
					defer c.Close()
					if greet(c) == nil {
						meet(c, s)
					}
				})
			}
		})
		return l.Addr(), func() { l.Close(); all.Wait() }
	}
}

func meet(c net.Conn, s *shot) {
	conn := tls.Server(c, s.config)
	var alert *net.OpError
	refused := errors.As(conn.Handshake(), &alert) && alert.Op == "remote error"
	s.note(conn.ConnectionState().PeerCertificates, refused)
}

// udp is QUIC.
func udp(p *peer) (net.Addr, func()) {
	var shots sync.Map // of connections that are not accepted yet, by the address that each comes from
	l := must(quic.ListenAddrEarly("127.0.0.1:0", &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			s := p.showing()
			shots.Store(hello.Conn.RemoteAddr().String(), s)
			return s.config, nil
		},
	}, nil))
	var all sync.WaitGroup // of this loop, which the listener ends
	all.Go(func() {
		for {
			c, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			select {
			case <-c.HandshakeComplete():
			case <-c.Context().Done():
			}
			state := c.ConnectionState().TLS
			var alert *quic.TransportError
			_ = c.CloseWithError(0, "")
			refused := errors.As(context.Cause(c.Context()), &alert) && alert.Remote
			if s, ok := shots.LoadAndDelete(c.RemoteAddr().String()); ok {
				s.(*shot).note(state.PeerCertificates, refused)
			}
		}
	})
	return l.Addr(), func() { l.Close(); all.Wait() }
}

// postgres agrees to TLS.
func postgres(c net.Conn) error {
	if _, err := io.ReadFull(c, make([]byte, 8)); err != nil {
		return err
	}
	_, err := c.Write([]byte("S"))
	return err
}

// mySQL offers TLS and hears that it is wanted.
func mySQL(c net.Conn) error {
	payload := "\x0a8.0.0\x00" + // protocol and version
		"\x01\x00\x00\x00" + "12345678\x00" + // connection and the first part of a nonce
		"\x00\x8a" + "\x2d" + "\x02\x00" + "\x08\x00" + // can do TLS, protocol 4.1, plugins; character set, status
		"\x15" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "123456789012\x00" + // the rest of the nonce
		"mysql_native_password\x00"
	if _, err := c.Write(append([]byte{byte(len(payload)), 0, 0, 0}, payload...)); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 4+32))
	return err
}

// natsInfo asks for TLS.
func natsInfo(c net.Conn) error {
	_, err := c.Write([]byte(`INFO {"server_id":"peer","max_payload":1024,"tls_required":true}` + "\r\n"))
	return err
}
