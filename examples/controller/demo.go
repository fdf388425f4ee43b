package main

// demo.go is the demonstration: a replica in a world whose certificates do not last.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// grace is what a slow machine needs for something that is done at once.
const grace = 30 * time.Second

// demonstrate shows a replica until ctx is done. Whoever depends on another ends first: the visitor and the rotations, then
// the replica, then the servers; the files go last.
func demonstrate(ctx context.Context, every time.Duration, out io.Writer) error {
	dir, err := os.MkdirTemp("", "reload-controller-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := newWorld(dir)
	if err != nil {
		return err
	}
	defer w.close()
	s, err := w.settings()
	if err != nil {
		return err
	}
	r, err := newReplica(ctx, s)
	if err != nil {
		return err
	}
	v, err := newVisitor(ctx, w, r.client, s, out)
	if err != nil {
		return err
	}
	defer v.watch.Stop()
	fmt.Fprintf(out, introduction, every, s.manager.HealthProbeBindAddress, s.proxy.Addr())

	ctx, stop := context.WithCancel(ctx)
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	var ran, rotated, visited error
	var acting, process sync.WaitGroup
	process.Go(func() { defer stop(); ran = r.run(running) })
	acting.Go(func() { defer stop(); rotated = w.rotations(ctx, every) })
	acting.Go(func() { defer stop(); visited = v.visits(ctx, min(every/3, time.Second)) })
	acting.Wait()
	end()
	process.Wait()

	fmt.Fprintf(out, "\nrotations: %d, visits: %d, failures: %d\n", w.generation-1, v.visited, v.failed)
	if v.failed > 0 {
		visited = errors.Join(visited, errors.New("a visit failed"))
	}
	return errors.Join(rotated, visited, ran)
}

const introduction = `Every %v all certificates of this controller are replaced. Each line is what others see of it:
the leaf that its webhooks and its metrics show to a client that keeps its connections, and the reloads it counts there;
the user that the API server takes it for, in a new request and in a watch that stays open, with the events of that;
and the identity of its proxy, which begins with the Secret, at 2, while its mount is still at 1, and then follows the mount.
Ctrl-C ends it all; until then you may join in: curl http://%s/readyz/tls, or curl http://%s

`

// settings are those of a replica in this world.
func (w *world) settings() (s settings, err error) {
	var free [3]*net.TCPAddr
	for i := range free {
		if free[i], err = freeAddress(); err != nil {
			return s, err
		}
	}
	s = settings{
		api:       &rest.Config{Host: w.cluster.target().String()},
		namespace: "default", secret: "proxy-tls", target: w.outside.target(),
		mounts:  w.mounts,
		hooks:   webhook.Options{Host: free[0].IP.String(), Port: free[0].Port},
		manager: manager.Options{HealthProbeBindAddress: free[1].String()},
	}
	s.manager.Metrics.BindAddress = free[2].String()
	s.proxy, err = net.Listen("tcp", "127.0.0.1:0")
	return s, err
}

// freeAddress returns an address that nobody listens at, for servers that cannot be asked for theirs. Its port is none of
// those that systems give to whoever needs any, so that nobody comes by it before the server does.
func freeAddress() (address *net.TCPAddr, err error) {
	for range 100 {
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))); err == nil {
			return listener.Addr().(*net.TCPAddr), listener.Close()
		}
	}
	return nil, err
}

// rotations replaces everything again and again until ctx is done.
func (w *world) rotations(ctx context.Context, every time.Duration) error {
	next := time.NewTicker(every)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			if err := w.rotate(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
