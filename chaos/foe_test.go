//go:build linux

package chaos_test

// foe_test.go has those whose CA was withdrawn: clients with a certificate of it, and servers. They knew their peers while it
// was trusted, and come back with sessions and connections of that time.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/seed45259946/reload/reloadtest"
)

// foe is one of them. Its tries succeed while its CA is trusted, and must not any more once it is not.
type foe struct {
	who     string
	since   time.Time
	tries   []try
	closers []func()
}

// try is one way in.
type try struct {
	name string
	do   func(context.Context) error
	// later is how long after the withdrawal it must fail. Only gRPC's Drain takes time: it is told of a rotation when it is
	// over.
	later time.Duration
}

func (f *foe) close() {
	for _, c := range f.closers {
		c()
	}
}

// greet has every try succeed, twice, so that there are sessions to resume.
func (f *foe) greet(w *world) error {
	defer w.flights.begin()()
	var problems error
	for range 2 {
		for _, t := range f.tries {
			if err := f.attempt(t); err != nil {
				problems = errors.Join(problems, fmt.Errorf("%s: %s: %w", f.who, t.name, err))
			}
		}
	}
	return problems
}

func (f *foe) attempt(t try) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return t.do(ctx)
}

// attack makes all tries at first, and later one. Its CA was gone from the live bundle before it began.
func (f *foe) attack(w *world) {
	tries := f.tries
	if f.since.IsZero() {
		f.since = time.Now()
	} else {
		tries = tries[rand.IntN(len(tries)):][:1]
	}
	for _, t := range tries {
		if time.Since(f.since) < t.later {
			continue
		}
		if f.attempt(t) == nil {
			w.report(admitted, "%s: %s: %s, %s after its CA was gone", w.name, f.who, t.name, time.Since(f.since))
		} else {
			w.t.repelled(f.who + " repelled: " + t.name)
		}
	}
}

// hoard keeps the first session for each key and forgets none.
type hoard struct {
	mu   sync.Mutex
	kept map[string]*tls.ClientSessionState
}

func (h *hoard) Get(key string) (*tls.ClientSessionState, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.kept[key]
	return s, ok
}

func (h *hoard) Put(key string, s *tls.ClientSessionState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kept == nil {
		h.kept = map[string]*tls.ClientSessionState{}
	}
	if s != nil && h.kept[key] == nil {
		h.kept[key] = s
	}
}

// newIntruder is a client with keypair k.
func newIntruder(w *world, k *reloadtest.Keypair) (*foe, error) {
	f := &foe{who: "client of a withdrawn CA"}
	keypair := k.TLS()
	static := func(version uint16, protocols ...string) *tls.Config {
		c := base(version, false, protocols...)
		c.InsecureSkipVerify = true // whatever the server shows, this one wants in
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &keypair, nil }
		c.ClientSessionCache = new(hoard)
		return c
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		with, without := static(version), static(version)
		without.ClientSessionCache = nil
		f.tries = append(f.tries,
			try{name: tls.VersionName(version) + " with a session", do: func(ctx context.Context) error { return onlyError(dialTLS(ctx, w.tlsAddr, with)) }},
			try{name: tls.VersionName(version), do: func(ctx context.Context) error { return onlyError(dialTLS(ctx, w.tlsAddr, without)) }})
	}
	for _, h2 := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: static(0), ForceAttemptHTTP2: h2}
		name := "open HTTP/2 connection"
		if !h2 {
			name = "open HTTP/1 connection"
			transport.Protocols = new(http.Protocols)
			transport.Protocols.SetHTTP1(true)
		}
		f.tries = append(f.tries, try{name: name, do: func(ctx context.Context) error { return onlyError(get(ctx, transport, w.httpAddr)) }})
		f.closers = append(f.closers, transport.CloseIdleConnections)
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	from := &quic.Transport{Conn: socket}
	to, err := net.ResolveUDPAddr("udp", w.quicAddr)
	if err != nil {
		return nil, err
	}
	overQUIC := static(tls.VersionTLS13, "chaos")
	f.tries = append(f.tries, try{name: "QUIC with a session", do: func(ctx context.Context) error { return onlyError(dialQUIC(ctx, from, to, overQUIC)) }})
	f.closers = append(f.closers, func() { from.Close(); socket.Close() })

	overHTTP3 := &http3.Transport{TLSClientConfig: static(0), QUICConfig: quicConfig}
	f.tries = append(f.tries, try{name: "open HTTP/3 connection", do: func(ctx context.Context) error { return onlyError(get(ctx, overHTTP3, w.http3Addr)) }})
	f.closers = append(f.closers, func() { overHTTP3.Close() })

	creds := credentials.NewTLS(static(0))
	channel, err := grpc.NewClient("passthrough:///"+w.grpcAddr, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, err
	}
	f.closers = append(f.closers, func() { channel.Close() })
	f.tries = append(f.tries,
		try{name: "open gRPC channel", later: 5 * time.Second, do: func(ctx context.Context) error {
			_, _, err := call(ctx, channel)
			return err
		}},
		try{name: "new gRPC channel", do: func(ctx context.Context) error {
			channel, err := grpc.NewClient("passthrough:///"+w.grpcAddr, grpc.WithTransportCredentials(creds))
			if err != nil {
				return err
			}
			defer channel.Close()
			_, _, err = call(ctx, channel)
			return err
		}})
	return f, f.greet(w)
}

func onlyError(_ sight, err error) error { return err }

// newRogue is a server with keypair k, which asks for no certificate, and those who follow the files are its clients.
func newRogue(w *world, k *reloadtest.Keypair) (*foe, error) {
	f := &foe{who: "server of a withdrawn CA"}
	config := &tls.Config{Certificates: []tls.Certificate{k.TLS()}}
	raw, err := serveTLS(config)
	if err != nil {
		return nil, err
	}
	web, err := serveHTTP(config, func(h http.Handler) http.Handler { return h })
	if err != nil {
		raw.close()
		return nil, err
	}
	f.closers = append(f.closers, raw.close, web.close)
	one := w.client.reloader
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		with := base(version, false)
		with.ClientSessionCache = new(hoard)
		f.tries = append(f.tries, try{name: "ClientConfig, " + tls.VersionName(version) + " with a session", do: func(ctx context.Context) error {
			return onlyError(dialTLS(ctx, raw.addr, one.ClientConfig(with)))
		}}, try{name: "ClientConfig, " + tls.VersionName(version), do: func(ctx context.Context) error {
			return onlyError(dialTLS(ctx, raw.addr, one.ClientConfig(base(version, false))))
		}})
	}
	live := one.LiveClientConfig(base(0, false), "localhost")
	transport, err := one.Transport(&http.Transport{TLSClientConfig: base(0, true), ForceAttemptHTTP2: true})
	if err != nil {
		return nil, err
	}
	f.closers = append(f.closers, transport.CloseIdleConnections)
	f.tries = append(f.tries,
		try{name: "LiveClientConfig", do: func(ctx context.Context) error { return onlyError(dialTLS(ctx, raw.addr, live)) }},
		try{name: "Transport with an open connection", do: func(ctx context.Context) error { return onlyError(get(ctx, transport, web.addr)) }})
	return f, f.greet(w)
}

var silent = log.New(io.Discard, "", 0)
