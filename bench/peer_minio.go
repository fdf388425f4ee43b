package main

// peer_minio.go is github.com/minio/pkg/v3/certs: events, or a look every minute where the files are links. It reads no CA
// file here. Its licence is the AGPL; see README.md.

import (
	"context"
	"crypto/tls"

	"github.com/minio/pkg/v3/certs"

	"github.com/seed45259946/reload"
)

var minio = peer{
	name: "minio",
	start: func(files reload.Paths, mutual bool) (*server, error) {
		ctx, cancel := context.WithCancel(context.Background())
		manager, err := certs.NewManager(ctx, files.Cert, files.Key, tls.LoadX509KeyPair)
		if err != nil {
			cancel()
			return nil, err
		}
		s, err := hooked(manager.GetCertificate, files, mutual)
		if err != nil {
			cancel()
			return nil, err
		}
		s.stop = cancel
		return s, nil
	},
}
