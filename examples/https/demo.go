package main

// demo.go plays the cluster: a CA, a volume, and somebody who replaces the keypair in it.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// cluster replaces a keypair the way cert-manager and a kubelet do.
type cluster struct {
	ca     *reloadtest.CA
	volume *reloadtest.Kubelet
	every  time.Duration
}

// demonstrate shows a server that follows its keypair, until ctx is done. Whoever depends on another ends first: the
// client and the rotation, then the server, then the reloader; the files go last.
func demonstrate(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "reload-https-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := &cluster{ca: reloadtest.NewCA(reloadtest.Options{Name: "throw-away CA"}), every: o.every}
	if c.volume, err = reloadtest.NewKubelet(dir, c.issue()); err != nil {
		return err
	}
	o.paths = reload.FromDir(dir)
	s, err := newSite(o, quietly)
	if err != nil {
		return err
	}
	c.introduce(s, o)

	ctx, stop := context.WithCancel(ctx)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	v := c.visitor(s.url)
	var served, rotated, visited error
	var acting, server sync.WaitGroup
	server.Go(func() { defer stop(); served = s.serve(serving) })
	acting.Go(func() { defer stop(); rotated = c.rotate(ctx) })
	acting.Go(func() { defer stop(); visited = v.visits(ctx, min(o.every/3, time.Second)) })
	acting.Wait()
	stopServing()
	server.Wait()

	fmt.Printf("\nhandshakes: %d, generations seen: %d, failures: %d\n", v.handshakes, v.generations, v.failures)
	if v.failures > 0 {
		visited = errors.Join(visited, errors.New("a handshake failed"))
	}
	return errors.Join(rotated, visited, served)
}

// introduce says what is going to be seen.
func (c *cluster) introduce(s *site, o options) {
	dir := c.volume.Dir
	curl := fmt.Sprintf("curl --cacert %s/ca.crt", dir)
	if o.verify {
		curl += fmt.Sprintf(" --cert %s/tls.crt --key %[1]s/tls.key", dir)
	}
	fmt.Printf(`Serving %s with the keypair in %s.
Every %v its files are replaced the way a kubelet does it. Nobody tells the server; a leaf that stayed would expire after %v.
Each line is one handshake of a client that verifies the leaf. Ctrl-C ends it all; until then you may join in:
%s %[1]s

`, s.url, dir, c.every, c.lifetime(), curl)
}

// rotate replaces the keypair again and again until ctx is done.
func (c *cluster) rotate(ctx context.Context) error {
	next := time.NewTicker(c.every)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			if err := c.volume.Update(c.issue()); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// issue makes the files of the next generation.
func (c *cluster) issue() reloadtest.Files {
	now := time.Now()
	leaf := c.ca.Issue(reloadtest.Options{NotBefore: now, NotAfter: now.Add(c.lifetime())})
	return leaf.Files(c.ca)
}

// lifetime is that of a leaf: some rotations, and what a slow machine needs.
func (c *cluster) lifetime() time.Duration { return 3*c.every + 30*time.Second }

// visitor makes a client that trusts the CA, and that the CA vouches for.
func (c *cluster) visitor(url string) *visitor {
	return &visitor{url: url, out: os.Stdout, config: &tls.Config{
		RootCAs:      c.ca.Pool(),
		ServerName:   "localhost", // whatever address it listens at
		Certificates: []tls.Certificate{c.ca.Issue(reloadtest.Options{}).TLS()},
	}}
}

// quietly keeps what goes well out of the log, since the demonstration shows it.
func quietly(w *reload.WatchOptions) {
	w.Hints = hangups()
	w.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
