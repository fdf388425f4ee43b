package main

// peer_reload.go is this library.

import (
	"context"
	"crypto/tls"
	"log/slog"

	"github.com/seed45259946/reload"
)

var ours = peer{
	name: "reload",
	start: func(files reload.Paths, mutual bool) (*server, error) {
		r, err := reload.NewReloader(files, "bench", func(o *reload.WatchOptions) { o.Logger = slog.New(slog.DiscardHandler) })
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Start(ctx)
		}()
		base := new(tls.Config)
		if mutual {
			base.ClientAuth = tls.RequireAndVerifyClientCert
		}
		return &server{
			get:    r.GetCertificate,
			config: r.ServerConfig(base),
			resync: func() error { return r.Reload(ctx) },
			stop:   func() { cancel(); <-ended },
		}, nil
	},
}
