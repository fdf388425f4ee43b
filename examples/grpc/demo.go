package main

// demo.go runs both sides, and replaces the keypair of one after the other.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/seed45259946/reload/examples/internal/party"
)

// demonstrate shows both sides until ctx is done. Whoever depends on another ends first: calls and rotations, then the
// server, then the reloaders; the files go last.
func demonstrate(ctx context.Context, every time.Duration) error {
	dir, err := os.MkdirTemp("", "reload-grpc-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ca := party.NewCA("both sides")
	server, err := party.New(dir, "server", ca, ca)
	if err != nil {
		return err
	}
	client, err := party.New(dir, "client", ca, ca)
	if err != nil {
		return err
	}
	s, err := newSite(server.Reloader)
	if err != nil {
		return err
	}
	v, err := newVisitor(client.Reloader, s.listener.Addr().String(), os.Stdout)
	if err != nil {
		return err
	}
	introduce(s, dir, every)

	ctx, stop := context.WithCancel(ctx)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	var acting, behind sync.WaitGroup
	var errs [6]error
	run := func(group *sync.WaitGroup, i int, f func() error) {
		group.Go(func() { defer stop(); errs[i] = f() })
	}
	run(&behind, 0, func() error { return server.Start(following) })
	run(&behind, 1, func() error { return client.Start(following) })
	run(&behind, 2, func() error { defer stopFollowing(); return s.serve(serving) })
	run(&acting, 3, func() error { return v.listen(ctx) })
	run(&acting, 4, func() error { return v.visits(ctx, min(every/5, 200*time.Millisecond)) })
	run(&acting, 5, func() error { return rotate(ctx, every, s, server, client) })
	acting.Wait()
	closed := v.channel.Close()
	stopServing()
	behind.Wait()

	fmt.Printf("\ncalls: %d, connections: %d, messages of the one stream: %d\n", v.calls, v.connections, v.heard.Load())
	return errors.Join(append(errs[:], closed)...)
}

// introduce says what is going to be seen.
func introduce(s *site, dir string, every time.Duration) {
	fmt.Printf(`Serving gRPC at %s; server and client verify each other, with the keypairs in %s.
Every %v one of the two is replaced the way a kubelet does it. Nobody tells either side.
Each line is the first call on a new connection; the stream was begun on the first one. Ctrl-C ends it all.

`, s.listener.Addr(), dir, every)
}

// rotate replaces the keypair of one side after the other until ctx is done, and has the stream hear of each time.
func rotate(ctx context.Context, every time.Duration, s *site, sides ...*party.Party) error {
	next := time.NewTicker(every)
	defer next.Stop()
	news := []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_NOT_SERVING, healthpb.HealthCheckResponse_SERVING}
	for i := 0; ; i++ {
		select {
		case <-next.C:
			err := sides[i%len(sides)].Renew(ctx)
			if ctx.Err() != nil {
				return nil // what was under way has been cut
			}
			if err != nil {
				return err
			}
			s.health.SetServingStatus("", news[i%len(news)])
		case <-ctx.Done():
			return nil
		}
	}
}
