//go:build linux

package chaos_test

// wire_test.go has one client of each protocol, and what it takes to make one.

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadgrpc"
)

// base is what a client's config begins with.
func base(version uint16, cache bool, protocols ...string) *tls.Config {
	c := &tls.Config{MinVersion: version, MaxVersion: version, ServerName: "localhost", NextProtos: protocols}
	if cache {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	return c
}

// dialTLS makes one connection under config.
func dialTLS(ctx context.Context, addr string, config *tls.Config) (s sight, err error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return s, err
	}
	conn := tls.Client(raw, config)
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	if err := conn.HandshakeContext(ctx); err != nil {
		return s, err
	}
	said := make([]byte, answerSize)
	if _, err = io.ReadFull(conn, said); err != nil {
		return s, err
	}
	cs := conn.ConnectionState()
	s.server, s.resumed = answerTo(cs.PeerCertificates), cs.DidResume
	s.client, err = parseAnswer(said)
	return s, err
}

// tlsClient dials with a config of its own each time.
func tlsClient(name, addr string, config func() *tls.Config) client {
	return client{name: name, exact: true, close: func() {}, once: func(ctx context.Context) (sight, error) {
		return dialTLS(ctx, addr, config())
	}}
}

// nowAndThen is true once in n times: when a client that keeps sessions or connections starts without them.
func nowAndThen(n int) bool { return rand.IntN(n) == 0 }

// resuming dials with ClientConfig and a cache of sessions that is emptied now and then.
func resuming(name, addr string, from *reload.Store, version uint16) client {
	b := base(version, true)
	return tlsClient(name, addr, func() *tls.Config {
		if nowAndThen(10) {
			b = base(version, true)
		}
		return from.ClientConfig(b)
	})
}

// httpClient makes requests through a Transport.
func httpClient(name, addr string, from *reload.Store, h2 bool) (client, error) {
	transport := &http.Transport{TLSClientConfig: base(0, true), ForceAttemptHTTP2: h2}
	if !h2 {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP1(true)
	}
	follows, err := from.Transport(transport)
	if err != nil {
		return client{}, err
	}
	return client{name: name, exact: true, close: follows.CloseIdleConnections, once: func(ctx context.Context) (sight, error) {
		if nowAndThen(3) {
			follows.CloseIdleConnections()
		}
		return get(ctx, follows, addr)
	}}, nil
}

// get makes one request.
func get(ctx context.Context, through http.RoundTripper, addr string) (s sight, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { s.reused = info.Reused }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+"/", nil)
	if err != nil {
		return s, err
	}
	resp, err := through.RoundTrip(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		return s, err
	}
	if resp.StatusCode != http.StatusOK {
		return s, errors.New(resp.Status)
	}
	s.server, s.resumed = answerTo(resp.TLS.PeerCertificates), resp.TLS.DidResume
	s.client, err = parseAnswer(said)
	return s, err
}

// quicFrom makes a socket to dial QUIC from, and closeQUIC closes it.
func quicFrom(addr string) (*quic.Transport, net.Addr, error) {
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, nil, err
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	return &quic.Transport{Conn: socket}, to, err
}

func closeQUIC(t *quic.Transport) {
	t.Close()
	t.Conn.Close()
}

// quicClient dials QUIC, from one socket.
func quicClient(name, addr string, from *reload.Store) (client, error) {
	transport, to, err := quicFrom(addr)
	b := base(tls.VersionTLS13, true, "chaos")
	return client{name: name, exact: true, close: func() { closeQUIC(transport) }, once: func(ctx context.Context) (sight, error) {
		if nowAndThen(10) {
			b = base(tls.VersionTLS13, true, "chaos")
		}
		return dialQUIC(ctx, transport, to, from.ClientConfig(b))
	}}, err
}

func dialQUIC(ctx context.Context, transport *quic.Transport, to net.Addr, config *tls.Config) (s sight, err error) {
	conn, err := transport.Dial(ctx, to, config, quicConfig)
	if err != nil {
		return s, err
	}
	defer conn.CloseWithError(0, "")
	stream, err := conn.AcceptUniStream(ctx)
	if err != nil {
		return s, err
	}
	said, err := io.ReadAll(stream)
	if err != nil {
		return s, err
	}
	cs := conn.ConnectionState().TLS
	s.server, s.resumed = answerTo(cs.PeerCertificates), cs.DidResume
	s.client, err = parseAnswer(said)
	return s, err
}

// http3Client makes requests on connections of their own.
func http3Client(name, addr string, from *reload.Store) client {
	b := base(0, true)
	return client{name: name, exact: true, close: func() {}, once: func(ctx context.Context) (sight, error) {
		if nowAndThen(10) {
			b = base(0, true)
		}
		transport := &http3.Transport{TLSClientConfig: from.ClientConfig(b), QUICConfig: quicConfig}
		defer transport.Close()
		return get(ctx, transport, addr)
	}}
}

// grpcClient makes calls on a channel, which is made anew now and then.
func grpcClient(name, addr string, from *reload.Store) client {
	creds := reloadgrpc.NewClientCredentials(from, base(0, true), reloadgrpc.Drain())
	var channel *grpc.ClientConn
	var last string // the client's end of the connection of the last call
	stop := func() {
		if channel != nil {
			channel.Close()
			channel = nil
		}
	}
	return client{name: name, close: stop, once: func(ctx context.Context) (sight, error) {
		if nowAndThen(5) {
			stop()
		}
		if channel == nil {
			var err error
			if channel, err = grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds)); err != nil {
				return sight{}, err
			}
		}
		s, from, err := call(ctx, channel)
		s.reused, last = from == last, from
		return s, err
	}}
}

// call makes one call, and returns the client's end of the connection.
func call(ctx context.Context, channel *grpc.ClientConn) (s sight, from string, err error) {
	var p peer.Peer
	var asked, said []byte
	if err = channel.Invoke(ctx, whoMethod, &asked, &said, grpc.Peer(&p), grpc.ForceCodec(rawCodec{})); err != nil {
		return s, "", err
	}
	cs := p.AuthInfo.(credentials.TLSInfo).State
	s.server, s.resumed = answerTo(cs.PeerCertificates), cs.DidResume
	s.client, err = parseAnswer(said)
	return s, p.LocalAddr.String(), err
}
