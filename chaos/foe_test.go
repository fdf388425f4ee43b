//go:build linux

package chaos_test

// foe_test.go has those whose CA was withdrawn: clients with a certificate of it, and servers. They knew their peers while it
// was trusted, and come back with sessions and connections of that time.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

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

// try adds a try.
func (f *foe) try(name string, do func(context.Context) error) {
	f.tries = append(f.tries, try{name: name, do: do})
}

// close ends what it has open. There may be no foe.
func (f *foe) close() {
	if f == nil {
		return
	}
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
	config := func(version uint16, protocols ...string) *tls.Config {
		c := base(version, false, protocols...)
		c.InsecureSkipVerify = true // whatever the server shows, this one wants in
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &keypair, nil }
		c.ClientSessionCache = new(hoard)
		return c
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		with, without := config(version), config(version)
		without.ClientSessionCache = nil
		f.try(tls.VersionName(version)+" with a session", func(ctx context.Context) error { return onlyError(dialTLS(ctx, w.tlsAddr, with)) })
		f.try(tls.VersionName(version), func(ctx context.Context) error { return onlyError(dialTLS(ctx, w.tlsAddr, without)) })
	}
	f.overHTTP(w, config)
	return f, errors.Join(f.overQUIC(w, config), f.overGRPC(w, config), f.greet(w))
}

// configs make the config of an intruder.
type configs func(version uint16, protocols ...string) *tls.Config

// overHTTP tries connections that are kept open.
func (f *foe) overHTTP(w *world, config configs) {
	first, second := &http.Transport{TLSClientConfig: config(0), Protocols: new(http.Protocols)},
		&http.Transport{TLSClientConfig: config(0), ForceAttemptHTTP2: true}
	first.Protocols.SetHTTP1(true)
	third := &http3.Transport{TLSClientConfig: config(0), QUICConfig: quicConfig}
	f.try("open HTTP/1 connection", func(ctx context.Context) error { return onlyError(get(ctx, first, w.httpAddr)) })
	f.try("open HTTP/2 connection", func(ctx context.Context) error { return onlyError(get(ctx, second, w.httpAddr)) })
	f.try("open HTTP/3 connection", func(ctx context.Context) error { return onlyError(get(ctx, third, w.http3Addr)) })
	f.closers = append(f.closers, first.CloseIdleConnections, second.CloseIdleConnections, func() { third.Close() })
}

// overQUIC tries to resume.
func (f *foe) overQUIC(w *world, config configs) error {
	transport, to, err := quicFrom(w.quicAddr)
	if err != nil {
		return err
	}
	with := config(tls.VersionTLS13, "chaos")
	f.try("QUIC with a session", func(ctx context.Context) error { return onlyError(dialQUIC(ctx, transport, to, with)) })
	f.closers = append(f.closers, func() { closeQUIC(transport) })
	return nil
}

// overGRPC tries a channel that is kept open, and others that resume.
func (f *foe) overGRPC(w *world, config configs) error {
	creds := grpc.WithTransportCredentials(credentials.NewTLS(config(0)))
	channel, err := grpc.NewClient("passthrough:///"+w.grpcAddr, creds)
	if err != nil {
		return err
	}
	f.closers = append(f.closers, func() { channel.Close() })
	f.try("open gRPC channel", func(ctx context.Context) error {
		_, _, err := call(ctx, channel)
		return err
	})
	f.tries[len(f.tries)-1].later = 5 * time.Second
	f.try("new gRPC channel with a session", func(ctx context.Context) error {
		channel, err := grpc.NewClient("passthrough:///"+w.grpcAddr, creds)
		if err != nil {
			return err
		}
		defer channel.Close()
		_, _, err = call(ctx, channel)
		return err
	})
	return nil
}

// onlyError drops what came of a try but that it failed.
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
		with, without := base(version, false), base(version, false)
		with.ClientSessionCache = new(hoard)
		f.try("ClientConfig, "+tls.VersionName(version)+" with a session", func(ctx context.Context) error {
			return onlyError(dialTLS(ctx, raw.addr, one.ClientConfig(with)))
		})
		f.try("ClientConfig, "+tls.VersionName(version), func(ctx context.Context) error {
			return onlyError(dialTLS(ctx, raw.addr, one.ClientConfig(without)))
		})
	}
	live := one.LiveClientConfig(base(0, false), "localhost")
	f.try("LiveClientConfig", func(ctx context.Context) error { return onlyError(dialTLS(ctx, raw.addr, live)) })
	transport, err := one.Transport(&http.Transport{TLSClientConfig: base(0, true), ForceAttemptHTTP2: true})
	if err != nil {
		return f, err
	}
	f.try("Transport with an open connection", func(ctx context.Context) error { return onlyError(get(ctx, transport, web.addr)) })
	f.closers = append(f.closers, transport.CloseIdleConnections)
	return f, f.greet(w)
}
