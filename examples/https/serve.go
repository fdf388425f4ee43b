package main

// serve.go is the part to copy: a server, the reloader of its keypair, and the order in which they end.

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/seed45259946/reload"
)

// grace is how long requests may go on when the server is told to end.
const grace = 5 * time.Second

// site is an HTTPS server with a keypair that is kept fresh.
type site struct {
	reloader *reload.Reloader
	server   *http.Server
	listener net.Listener
	url      string
}

// newSite loads the keypair and listens.
func newSite(o options, opts ...func(*reload.WatchOptions)) (*site, error) {
	r, err := reload.NewReloader(o.paths, "https", opts...)
	if err != nil {
		return nil, err
	}
	var base tls.Config
	if o.verify {
		base.ClientAuth = tls.RequireAndVerifyClientCert
		if r.Bundle().ClientCAs == nil {
			return nil, reload.ErrNoClientCAs // every handshake would fail with it
		}
	}
	listener, err := net.Listen("tcp", o.addr)
	if err != nil {
		return nil, err
	}
	return &site{
		reloader: r,
		server:   &http.Server{Handler: r.Drain(handler(r, o)), TLSConfig: r.ServerConfig(&base), ReadHeaderTimeout: grace},
		listener: listener,
		url:      "https://" + listener.Addr().String(),
	}, nil
}

// serve serves until ctx is done. The reloader ends last: what is still in flight when the server is told to end has a
// fresh keypair too.
func (s *site) serve(ctx context.Context) error {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	watched, served := make(chan error, 1), make(chan error, 1)
	go func() { watched <- s.reloader.Start(watching) }()
	go func() { served <- s.server.ServeTLS(s.listener, "", "") }()

	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		patience, cancel := context.WithTimeout(watching, grace)
		err = s.server.Shutdown(patience)
		cancel()
		<-served
	}
	stop()
	return errors.Join(err, <-watched)
}

// handler answers with what is live.
func handler(r *reload.Reloader, o options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		s := r.Status()
		fmt.Fprintf(w, "generation %d, leaf %s, expires %s\n", s.Generation, short(s.Fingerprint), s.NotAfter.Format(time.RFC3339))
	})
	if o.metrics {
		mux.HandleFunc("GET /metrics", serveMetrics)
		mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(r.Status())
		})
	}
	return mux
}

// short is as much of a fingerprint as a person compares.
func short(fingerprint string) string { return fingerprint[:min(len(fingerprint), 12)] }
