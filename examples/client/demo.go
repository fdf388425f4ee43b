package main

// demo.go replaces certificates, has the clients call meanwhile, and shows as whom they were seen.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed45259946/reload/examples/internal/party"
)

// demonstration is all that there is.
type demonstration struct {
	server, client *party.Party
	proxy          proxy
	listeners      [3]net.Listener // of the HTTPS server, of the Redis server, of the proxy

	calls                          []call
	rotations, requests, surprises int
}

// call asks a server for the name of its caller.
type call func(context.Context) (string, error)

// demonstrate shows rotations until ctx is done. Whoever depends on another ends first: the clients, then the servers, then
// the reloaders; the files go last.
func demonstrate(ctx context.Context, every time.Duration) error {
	dir, err := os.MkdirTemp("", "reload-client-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	servers, clients := party.NewCA("servers"), party.NewCA("clients")
	d := new(demonstration)
	if d.server, err = party.New(dir, "server", servers, clients); err != nil {
		return err
	}
	if d.client, err = party.New(dir, "client 1", clients, servers); err != nil {
		return err
	}
	for i := range d.listeners {
		if d.listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err // the process is about to end
		}
	}

	ctx, stop := context.WithCancel(ctx)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	var servings, watchings sync.WaitGroup
	var errs [6]error
	watchings.Go(func() { defer stop(); errs[0] = d.server.Start(watching) })
	watchings.Go(func() { defer stop(); errs[1] = d.client.Start(watching) })
	servings.Go(func() { defer stop(); errs[2] = serveHTTPS(serving, d.listeners[0], d.server.Reloader) })
	servings.Go(func() { defer stop(); errs[3] = serveRedis(serving, d.listeners[1], d.server.Reloader) })
	servings.Go(func() { defer stop(); errs[4] = d.proxy.serve(serving, d.listeners[2]) })
	errs[5] = d.run(ctx, every)
	stopServing()
	servings.Wait()
	stopWatching()
	watchings.Wait()
	return errors.Join(errs[:]...)
}

// run makes the clients and has them call until ctx is done.
func (d *demonstration) run(ctx context.Context, every time.Duration) error {
	_, port, err := net.SplitHostPort(d.listeners[0].Addr().String())
	if err != nil {
		return err
	}
	through, err := throughProxy(d.client.Reloader, &url.URL{Scheme: "http", Host: d.listeners[2].Addr().String()})
	if err != nil {
		return err
	}
	defer through.CloseIdleConnections()
	addr, lifetime := d.listeners[1].Addr().String(), every/2
	dials, fixed := dialling(d.client.Reloader, addr, lifetime), static(d.client.Reloader, addr, "localhost", lifetime)
	defer dials.Close()
	defer fixed.Close()
	page := "https://localhost:" + port
	d.calls = []call{
		func(ctx context.Context) (string, error) { return get(ctx, through, page) },
		func(ctx context.Context) (string, error) { return whoAmI(ctx, dials) },
		func(ctx context.Context) (string, error) { return whoAmI(ctx, fixed) },
	}
	fmt.Printf(`%s through a proxy at %s, and a server of Redis' protocol at %s.
Every %v the client gets another certificate in its files, and the servers one of another CA now and then. Nobody tells
either side. Each line is three calls, with the name by which the server knows its caller. A driver keeps its connections,
and with them the name, for %v here. Ctrl-C ends it all.

`, page, d.listeners[2].Addr(), addr, every, lifetime)
	err = d.show(ctx, every)
	fmt.Printf("\nrotations: %d, calls: %d, connections through the proxy: %d, surprises: %d\n",
		d.rotations, d.requests, d.proxy.tunnels.Load(), d.surprises)
	if d.surprises > 0 {
		err = errors.Join(err, errors.New("not all went as it should"))
	}
	return err
}

// show replaces and calls in turns.
func (d *demonstration) show(ctx context.Context, every time.Duration) error {
	rotate, visit := time.NewTicker(every), time.NewTicker(min(every/3, time.Second))
	defer rotate.Stop()
	defer visit.Stop()
	line("time", "in the files", "HTTPS, by proxy", "driver, dialling", "driver, one config")
	for d.visit(ctx); ctx.Err() == nil; {
		var err error
		select {
		case <-visit.C:
			d.visit(ctx)
		case <-rotate.C:
			if err = d.rotate(ctx); err == nil {
				d.visit(ctx)
			}
		case <-ctx.Done():
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// rotate gives the client another certificate, and every third time the servers one of another CA before that.
func (d *demonstration) rotate(ctx context.Context) error {
	d.rotations++
	if d.rotations%3 == 0 {
		if err := d.server.ReplaceCA(ctx, party.NewCA("servers"), d.client); err != nil {
			return err
		}
		fmt.Printf("%s  the servers have a leaf of another CA, and the client trusts no other\n", now())
	}
	d.client.Name = fmt.Sprintf("client %d", d.rotations+1)
	return d.client.Renew(ctx)
}

// visit makes every call and shows the answers. HTTPS must follow at once.
func (d *demonstration) visit(ctx context.Context) {
	columns := []any{now(), d.client.Name}
	for i, ask := range d.calls {
		name, err := ask(ctx)
		if ctx.Err() != nil {
			return // what was under way has been cut
		}
		d.requests++
		switch {
		case err != nil:
			d.surprises++
			name = "SURPRISE: " + err.Error()
		case i == 0 && name != d.client.Name:
			d.surprises++
			name = "SURPRISE: " + name
		}
		columns = append(columns, name)
	}
	line(columns...)
}

// get asks over HTTP.
func get(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// whoAmI asks in Redis' protocol.
func whoAmI(ctx context.Context, client *redis.Client) (string, error) {
	return client.Do(ctx, "WHOAMI").Text()
}

func now() string { return time.Now().Format("15:04:05.000") }

// line shows one line of the table.
func line(columns ...any) { fmt.Printf("%-12v  %-12v  %-15v  %-16v  %v\n", columns...) }
