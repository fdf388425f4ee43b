package main

// replica.go puts one replica of the controller together, and says in which order its parts start and end.

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/seed45259946/reload"
)

// settings is what a replica is told.
type settings struct {
	api       *rest.Config // where the API server is
	namespace string
	secret    string   // name of the one with the proxy's identity
	target    *url.URL // of the proxy
	mounts    string   // directory with those that are named below

	hooks   webhook.Options
	manager manager.Options
	proxy   net.Listener
}

// Names of what is mounted.
const (
	servingMount  = "serving"  // the keypair of webhooks and metrics, and the CA of their clients
	upstreamMount = "upstream" // the identity at the API server, and its CA
	proxyMount    = "proxy"    // the Secret
)

// replica is one of several processes that run the same controller.
type replica struct {
	upstream *reload.Reloader
	client   client
	manager  manager.Manager
}

// newReplica makes a replica, for which it asks the API server for a Secret.
func newReplica(ctx context.Context, s settings) (*replica, error) {
	serving, err := reload.NewReloader(reload.FromDir(filepath.Join(s.mounts, servingMount)), "serving")
	if err != nil {
		return nil, err
	}
	upstream, err := reload.NewReloader(reload.FromDir(filepath.Join(s.mounts, upstreamMount)), "upstream")
	if err != nil {
		return nil, err
	}
	config, err := follow(s.api, upstream)
	if err != nil {
		return nil, err
	}
	c, err := newClient(config)
	if err != nil {
		return nil, err
	}
	secret, err := c.secret(ctx, s.namespace, s.secret)
	if err != nil {
		return nil, err
	}
	p, err := newProxy(s.target, secret, filepath.Join(s.mounts, proxyMount))
	if err != nil {
		return nil, err
	}
	mgr, err := newManager(config, serving, s.hooks, s.manager)
	if err != nil {
		return nil, err
	}
	server := &manager.Server{Name: "proxy", Server: &http.Server{Handler: p}, Listener: s.proxy}
	return &replica{upstream, c, mgr}, errors.Join(mgr.Add(p), mgr.Add(server))
}

// run runs the replica until ctx is done. What a manager adds starts after its caches have synced and ends before its
// servers; the identity at the API server is needed by both, so that it begins before the manager and ends after it.
func (r *replica) run(ctx context.Context) error {
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var kept error
	var upstream sync.WaitGroup
	upstream.Go(func() { kept = r.upstream.Start(keeping) })
	err := r.manager.Start(ctx)
	stop()
	upstream.Wait()
	return errors.Join(err, kept)
}
