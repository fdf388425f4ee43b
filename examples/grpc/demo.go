package main

// demo.go plays the cluster: a CA, a volume for each side, and somebody who replaces the keypairs in them.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// mount is a volume, and the reloader that follows it.
type mount struct {
	volume   *reloadtest.Kubelet
	reloader *reload.Reloader
}

// newMount makes both, with a keypair of ca.
func newMount(dir, name string, ca *reloadtest.CA) (m mount, err error) {
	if m.volume, err = reloadtest.NewKubelet(filepath.Join(dir, name), issue(ca)); err != nil {
		return m, err
	}
	m.reloader, err = reload.NewReloader(reload.FromDir(m.volume.Dir), name, quietly)
	return m, err
}

// issue makes the files of one generation.
func issue(ca *reloadtest.CA) reloadtest.Files { return ca.Issue(reloadtest.Options{}).Files(ca) }

// demonstrate shows both sides until ctx is done. Whoever depends on another ends first: calls and rotations, then the
// server, then the reloaders; the files go last.
func demonstrate(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "reload-grpc-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ca := reloadtest.NewCA(reloadtest.Options{Name: "throw-away CA"})
	server, err1 := newMount(dir, "server", ca)
	client, err2 := newMount(dir, "client", ca)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	s, err := newSite(server.reloader)
	if err != nil {
		return err
	}
	v, err := newVisitor(client.reloader, s.listener.Addr().String(), os.Stdout)
	if err != nil {
		return err
	}
	introduce(s, dir, o)

	ctx, stop := context.WithCancel(ctx)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	following, stopFollowing := context.WithCancel(serving)
	var acting, behind sync.WaitGroup
	var errs [6]error
	run := func(group *sync.WaitGroup, i int, f func() error) {
		group.Go(func() { defer stop(); errs[i] = f() })
	}
	run(&behind, 0, func() error { return server.reloader.Start(following) })
	run(&behind, 1, func() error { return client.reloader.Start(following) })
	run(&behind, 2, func() error { defer stopFollowing(); return s.serve(serving) })
	run(&acting, 3, func() error { return v.listen(ctx) })
	run(&acting, 4, func() error { return v.visits(ctx, min(o.every/5, 200*time.Millisecond)) })
	run(&acting, 5, func() error { return rotate(ctx, o.every, s, ca, server.volume, client.volume) })
	acting.Wait()
	closed := v.channel.Close()
	stopServing()
	behind.Wait()

	fmt.Printf("\ncalls: %d, connections: %d, messages of the one stream: %d\n", v.calls, v.connections, v.heard.Load())
	return errors.Join(append(errs[:], closed)...)
}

// introduce says what is going to be seen.
func introduce(s *site, dir string, o options) {
	fmt.Printf(`Serving gRPC at %s; server and client verify each other, with the keypairs in %s.
Every %v one of the two is replaced the way a kubelet does it. Nobody tells either side.
Each line is the first call on a new connection; the stream was begun on the first one. Ctrl-C ends it all.

`, s.listener.Addr(), dir, o.every)
}

// rotate replaces the keypair in one volume after the other until ctx is done, and has the stream hear of each time.
func rotate(ctx context.Context, every time.Duration, s *site, ca *reloadtest.CA, volumes ...*reloadtest.Kubelet) error {
	next := time.NewTicker(every)
	defer next.Stop()
	news := []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_NOT_SERVING, healthpb.HealthCheckResponse_SERVING}
	for i := 0; ; i++ {
		select {
		case <-next.C:
			if err := volumes[i%len(volumes)].Update(issue(ca)); err != nil {
				return err
			}
			s.health.SetServingStatus("", news[i%len(news)])
		case <-ctx.Done():
			return nil
		}
	}
}

// quietly keeps what goes well out of the log, since the demonstration shows it.
func quietly(w *reload.WatchOptions) {
	w.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
