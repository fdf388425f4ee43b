package main

// proxy.go passes requests on to an API outside the cluster, under an identity that is in a Secret. It reads the Secret
// once, to begin with the newest, and then follows the mount, which is up to two minutes behind.

import (
	"context"
	"fmt"
	"net/http/httputil"
	"net/url"

	"github.com/seed45259946/reload"
)

// proxy is a reverse proxy and, to a manager, the watcher of its identity.
type proxy struct {
	httputil.ReverseProxy
	store *reload.Store
	mount string
}

// newProxy makes a proxy to target whose identity is, to begin with, what is in secret. It is mounted at mount, or not.
func newProxy(target *url.URL, secret map[string][]byte, mount string) (*proxy, error) {
	bundle, err := reload.BundleFromPEM(secret[reload.SecretCertFile], secret[reload.SecretKeyFile], secret[reload.SecretCAFile])
	if err != nil {
		return nil, fmt.Errorf("secret of the proxy: %w", err)
	}
	p := &proxy{store: reload.NewStore(), mount: mount}
	p.store.Store(bundle)
	transport, err := p.store.Transport(nil)
	if err != nil {
		return nil, err
	}
	p.Transport = transport
	p.Rewrite = func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
	}
	return p, nil
}

// Start follows the mount until ctx is done. An older keypair in it does not displace that of the Secret, and whatever it
// changes to after that goes live. Without a mount the proxy keeps what it has, and Start returns at once.
func (p *proxy) Start(ctx context.Context) error {
	return reload.Watch(ctx, reload.FromDir(p.mount), p.store, reload.WatchOptions{
		Component: "proxy",
		Metrics:   reload.DefaultMetrics("proxy"),
	})
}

// NeedLeaderElection has a manager start it on every replica. A manager.RunnableFunc would run on the leader alone.
func (p *proxy) NeedLeaderElection() bool { return false }
