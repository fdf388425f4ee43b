package main

// peer_certwatcher.go is sigs.k8s.io/controller-runtime/pkg/certwatcher: events, and a look every ten seconds. It reads no
// CA file.

import (
	"context"

	watcher "sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/seed45259946/reload"
)

var certwatcher = peer{
	name: "certwatcher",
	start: func(files reload.Paths, mutual bool) (*server, error) {
		w, err := watcher.New(files.Cert, files.Key)
		if err != nil {
			return nil, err
		}
		s, err := hooked(w.GetCertificate, files, mutual)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Start(ctx)
		}()
		s.resync = w.ReadCertificate
		s.stop = func() { cancel(); <-ended }
		return s, nil
	},
}
