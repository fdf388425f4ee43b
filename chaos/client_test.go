//go:build linux

package chaos_test

// client_test.go has the clients: one of each way to be one. All of them judge what they see, and what was seen of them.

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadgrpc"
)

// sight is what came of one operation.
type sight struct {
	server  answer // what the client saw
	client  answer // what the server saw
	resumed bool
	reused  bool // a connection that was there before
}

// client is one way to talk to a server.
type client struct {
	name      string
	once      func(ctx context.Context) (sight, error)
	anonymous bool // the server does not ask for a certificate
	// exact says that the identity must be that of the generation live when the operation began, or a later one. Only gRPC's
	// Drain promises less: it is told of a rotation when it is over.
	exact bool
	close func()
}

// run has a client do its job at a pace until ctx is done. What it has begun then, it finishes.
func (w *world) run(ctx context.Context, c client, pace time.Duration) {
	for next := time.Now(); ; {
		if next = next.Add(rand.N(2 * pace)); time.Since(next) > pace {
			next = time.Now() // the machine is not fast enough
		}
		if rest(ctx, time.Until(next)) != nil {
			return
		}
		w.one(c)
	}
}

// one has a client do its job once, and judges it.
func (w *world) one(c client) {
	done := w.flights.begin()
	defer done()
	serverLive, clientLive := w.server.live.Load(), w.client.live.Load()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.once(ctx)
	w.t.count(c.name, func(k *kind) {
		switch {
		case err != nil:
			k.failed++
		case s.reused:
			k.reused++
		case s.resumed:
			k.resumed++
		default:
			k.full++
		}
	})
	if err != nil {
		w.report(failed, "%s: %s: %v", w.name, c.name, err)
		return
	}
	if s.resumed || s.reused {
		serverLive = 0 // it shows the leaf of the handshake that made it
	}
	if f, why := w.server.judge(s.server.chain, s.server.leaf, serverLive); f != "" {
		w.report(f, "%s: %s: the client saw %s", w.name, c.name, why)
	}
	if c.anonymous {
		return
	}
	if !c.exact {
		clientLive = 0
	}
	if f, why := w.client.judge(s.client.chain, s.client.leaf, clientLive); f != "" {
		w.report(f, "%s: %s: the server saw %s", w.name, c.name, why)
	}
}

// report counts a fault, unless there is a writer on either side that may be to blame.
func (w *world) report(f fault, format string, args ...any) {
	args = append(args, w.server.circumstances(), w.client.circumstances())
	format += "%s%s"
	w.client.mu.Lock()
	blamed := w.client.partial
	w.client.mu.Unlock()
	if blamed {
		w.client.report(f, format, args...)
		return
	}
	w.server.report(f, format, args...)
}

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

// now and then a client that keeps sessions or connections starts without them.
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

// quicClient dials QUIC, from one socket.
func quicClient(name, addr string, from *reload.Store) (client, error) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return client{}, err
	}
	transport := &quic.Transport{Conn: socket}
	to, err := net.ResolveUDPAddr("udp", addr)
	b := base(tls.VersionTLS13, true, "chaos")
	return client{
		name: name, exact: true,
		close: func() { transport.Close(); socket.Close() },
		once: func(ctx context.Context) (sight, error) {
			if nowAndThen(10) {
				b = base(tls.VersionTLS13, true, "chaos")
			}
			return dialQUIC(ctx, transport, to, from.ClientConfig(b))
		},
	}, err
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

// populate starts the servers of a world and returns their clients.
func (w *world) populate() (clients []client, err error) {
	server, second := w.server.reloader.Store(), w.server.followers[1]
	one := w.client.reloader.Store()
	other := w.client.followers[1]
	serve := func(e *endpoint, problem error) string {
		if err = errors.Join(err, problem); problem != nil {
			return ""
		}
		w.servers = append(w.servers, e)
		return e.addr
	}
	add := func(c client, problem error) {
		err = errors.Join(err, problem)
		clients = append(clients, c)
	}
	configured := mutual()
	second.ConfigureServer(configured)
	w.tlsAddr = serve(serveTLS(server.ServerConfig(mutual())))
	secondAddr := serve(serveTLS(configured))
	anonymous := serve(serveTLS(&tls.Config{GetCertificate: server.GetCertificate}))
	w.httpAddr = serve(serveHTTP(server.ServerConfig(mutual()), server.Drain))
	w.quicAddr = serve(serveQUIC(server.ServerConfig(mutual("chaos"))))
	w.http3Addr = serve(serveHTTP3(server.ServerConfig(mutual("h3")), server.Drain))
	w.grpcAddr = serve(serveGRPC(server))

	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		name := tls.VersionName(version)
		add(resuming("ClientConfig to ServerConfig, "+name, w.tlsAddr, one, version), nil)
		add(resuming("ClientConfig to ConfigureServer, "+name, secondAddr, other, version), nil)
		full := base(version, false)
		add(tlsClient("GetClientCertificate, "+name, w.tlsAddr, func() *tls.Config {
			c := full.Clone()
			c.RootCAs, c.GetClientCertificate = one.Load().RootCAs, one.GetClientCertificate
			return c
		}), nil)
	}
	static := one.LiveClientConfig(base(0, false), "localhost")
	add(tlsClient("LiveClientConfig", w.tlsAddr, func() *tls.Config { return static }), nil)
	plain := resuming("to GetCertificate", anonymous, one, 0)
	plain.anonymous = true
	add(plain, nil)
	add(httpClient("Transport, HTTP/1, to Drain", w.httpAddr, one, false))
	add(httpClient("Transport, HTTP/2, to Drain", w.httpAddr, one, true))
	add(quicClient("QUIC", w.quicAddr, one))
	add(http3Client("HTTP/3, to Drain", w.http3Addr, one), nil)
	add(grpcClient("gRPC", w.grpcAddr, one), nil)
	return clients, err
}
