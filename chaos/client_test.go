//go:build linux

package chaos_test

// client_test.go has the clients: one of each way to be one. All of them judge what they see, and what was seen of them.

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"time"
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
	close func() // idle connections and what else there is; it may be used again unless it is QUIC
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

// populate starts the servers of a world and returns their clients.
func (w *world) populate() ([]client, error) {
	first, second := w.server.followers[0], w.server.followers[1]
	var problems error
	serve := func(e *endpoint, err error) string {
		if err != nil {
			problems = errors.Join(problems, err)
			return ""
		}
		w.servers = append(w.servers, e)
		return e.addr
	}
	configured := mutual()
	second.ConfigureServer(configured)
	w.tlsAddr = serve(serveTLS(first.ServerConfig(mutual())))
	w.secondAddr = serve(serveTLS(configured))
	w.openAddr = serve(serveTLS(&tls.Config{GetCertificate: first.GetCertificate}))
	w.httpAddr = serve(serveHTTP(first.ServerConfig(mutual()), first.Drain))
	w.quicAddr = serve(serveQUIC(first.ServerConfig(mutual("chaos"))))
	w.http3Addr = serve(serveHTTP3(first.ServerConfig(mutual("h3")), first.Drain))
	w.grpcAddr = serve(serveGRPC(first))
	if problems != nil {
		return nil, problems
	}
	return w.clients()
}

// clients returns one of each.
func (w *world) clients() (all []client, err error) {
	one, other := w.client.followers[0], w.client.followers[1]
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		name := tls.VersionName(version)
		full := base(version, false)
		all = append(all,
			resuming("ClientConfig to ServerConfig, "+name, w.tlsAddr, one, version),
			resuming("ClientConfig to ConfigureServer, "+name, w.secondAddr, other, version),
			tlsClient("GetClientCertificate, "+name, w.tlsAddr, func() *tls.Config {
				c := full.Clone()
				c.RootCAs, c.GetClientCertificate = one.Load().RootCAs, one.GetClientCertificate
				return c
			}))
	}
	live := one.LiveClientConfig(base(0, false), "localhost")
	anonymous := resuming("ClientConfig to GetCertificate", w.openAddr, one, 0)
	anonymous.anonymous = true
	all = append(all, tlsClient("LiveClientConfig", w.tlsAddr, func() *tls.Config { return live }), anonymous,
		http3Client("HTTP/3, to Drain", w.http3Addr, one), grpcClient("gRPC, both sides drain", w.grpcAddr, one))
	for _, make := range []func() (client, error){
		func() (client, error) { return httpClient("Transport, HTTP/1, to Drain", w.httpAddr, one, false) },
		func() (client, error) { return httpClient("Transport, HTTP/2, to Drain", w.httpAddr, one, true) },
		func() (client, error) { return quicClient("QUIC", w.quicAddr, one) },
	} {
		c, problem := make()
		if err = errors.Join(err, problem); problem == nil {
			all = append(all, c)
		}
	}
	return all, err
}
