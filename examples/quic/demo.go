package main

// demo.go replaces one thing after the other and shows what the tunnels make of it.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/examples/internal/party"
)

// demonstration is two ends and what is between them.
type demonstration struct {
	server, client *party.Party

	first     *tunnel // open from the start
	newcomer  *dialer // remembers nothing
	returning *dialer // resumes sessions
	h3        *http3.Transport
	h2        *reload.Transport
	pages     string // where they are over HTTP/3
	pages2    string // and over HTTP/2

	rotations, surprises int
}

// demonstrate shows rotations until ctx is done. Whoever depends on another ends first: the clients, then the servers, then
// the reloaders; the files go last.
func demonstrate(ctx context.Context, every time.Duration) error {
	dir, err := os.MkdirTemp("", "reload-quic-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	servers, clients := party.NewCA("servers"), party.NewCA("clients")
	d := new(demonstration)
	if d.server, err = party.New(dir, "server", servers, clients); err != nil {
		return err
	}
	if d.client, err = party.New(dir, "client", clients, servers); err != nil {
		return err
	}
	listener, err := listen("127.0.0.1:0", d.server.Reloader)
	if err != nil {
		return err
	}
	site, err := newSite("127.0.0.1:0", d.server.Reloader)
	if err != nil {
		return errors.Join(err, listener.Close())
	}

	ctx, stop := context.WithCancel(ctx)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	var servings, watchings sync.WaitGroup
	var errs [5]error
	watchings.Go(func() { defer stop(); errs[0] = d.server.Start(watching) })
	watchings.Go(func() { defer stop(); errs[1] = d.client.Start(watching) })
	servings.Go(func() { defer stop(); errs[2] = serve(serving, listener) })
	servings.Go(func() { defer stop(); errs[3] = site.serve(serving) })
	errs[4] = d.run(ctx, every, listener.Addr().String(), site)
	stopServing()
	servings.Wait()
	stopWatching()
	watchings.Wait()
	return errors.Join(errs[:]...)
}

// run plays the client's part.
func (d *demonstration) run(ctx context.Context, every time.Duration, addr string, s *site) (err error) {
	d.newcomer = &dialer{keypair: d.client.Reloader, addr: addr}
	d.returning = &dialer{keypair: d.client.Reloader, addr: addr, sessions: tls.NewLRUClientSessionCache(0)}
	d.h3 = newVisitor(d.client.Reloader, tls.NewLRUClientSessionCache(0))
	defer d.h3.Close()
	if d.h2, err = d.client.Transport(nil); err != nil {
		return err
	}
	defer d.h2.CloseIdleConnections()
	d.pages, d.pages2 = "https://"+s.udp.LocalAddr().String(), "https://"+s.tcp.Addr().String()
	fmt.Printf(`A tunnel over QUIC to %s, and pages at %s over HTTP/2 and at %s over HTTP/3.
Every %v something is replaced the way a kubelet does it, and nobody tells either end. Ctrl-C ends it all.

`, addr, d.pages2, d.pages, every)
	if d.first, err = d.returning.dial(ctx); err != nil {
		return err
	}
	defer d.first.close()

	acts := d.acts()
	next := time.NewTicker(every)
	defer next.Stop()
	announce("both ends have their first leaves")
	for err = d.look(ctx); err == nil && ctx.Err() == nil; {
		select {
		case <-next.C:
			act := acts[d.rotations%len(acts)]
			if err = act.do(ctx); err == nil {
				d.rotations++
				announce(act.what)
				err = d.look(ctx)
			}
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		err = nil // what was under way has been cut
	}
	fmt.Printf("\nrotations: %d, messages through the first tunnel: %d, surprises: %d\n", d.rotations, d.first.echoes, d.surprises)
	if d.surprises > 0 {
		err = errors.Join(err, errors.New("not all went as it should"))
	}
	return err
}

// act is one thing that is replaced.
type act struct {
	do   func(context.Context) error
	what string
}

func (d *demonstration) acts() []act {
	return []act{
		{d.server.Renew, "the server has a new leaf"},
		{d.replaceServerCA, "the server has a leaf of a new CA, and the client trusts no other"},
		{d.client.Renew, "the client has a new leaf; sessions of the one before are not for it"},
		{d.withdrawClientCA, "the client has a leaf of the new CA"},
	}
}

// replaceServerCA replaces the CA of the server in the order in which nothing fails.
func (d *demonstration) replaceServerCA(ctx context.Context) error {
	return d.server.ReplaceCA(ctx, party.NewCA("servers"), d.client)
}

// withdrawClientCA has the server trust another CA from one moment to the next, as nobody does unless the one before is
// compromised, and shows how the client fares until it has a leaf of that one.
func (d *demonstration) withdrawClientCA(ctx context.Context) error {
	d.client.CA = party.NewCA("clients")
	if err := d.server.Trust(ctx, d.client.CA); err != nil {
		return err
	}
	announce("the server trusts another CA of clients")
	if err := d.lookRefused(ctx); err != nil {
		return err
	}
	return d.client.Renew(ctx)
}
