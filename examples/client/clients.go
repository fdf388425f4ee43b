package main

// clients.go is the part to copy: three clients whose identity and trust roots follow their files.

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed45259946/reload"
)

// throughProxy speaks HTTP, through the proxy. Each request after a rotation goes out on a connection that was made after
// it; those in flight finish where they are.
func throughProxy(keypair *reload.Reloader, proxy *url.URL) (*http.Client, error) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.Proxy = http.ProxyURL(proxy)
	transport, err := keypair.Transport(base)
	return &http.Client{Transport: transport}, err
}

// dialling is a driver with a hook for its dials. Each dial has a config of its own, made of what is live, with which
// crypto/tls verifies the server as it always does: by name or by address, whatever is dialled.
//
// A connection that is open stays open, under the identity it was made with: lifetime bounds that.
func dialling(keypair *reload.Reloader, addr string, lifetime time.Duration) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&tls.Dialer{Config: keypair.ClientConfig(nil)}).DialContext(ctx, network, addr)
		},
		ConnMaxLifetime: lifetime,
	})
}

// static is a driver that takes one config and keeps it, as drivers without a hook do. The config follows the files by
// itself; it has to be told the name or the address of the server.
func static(keypair *reload.Reloader, addr, serverName string, lifetime time.Duration) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:            addr,
		TLSConfig:       keypair.LiveClientConfig(nil, serverName),
		ConnMaxLifetime: lifetime,
	})
}
