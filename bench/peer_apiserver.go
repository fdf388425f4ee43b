package main

// peer_apiserver.go is k8s.io/apiserver/pkg/server/dynamiccertificates, which kube-apiserver and aggregated ones serve with:
// events, and a look every minute once a watch has failed. It follows the CA file too.

import (
	"context"
	"crypto/tls"

	dynamic "k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/seed45259946/reload"
)

var apiserver = peer{
	name: "apiserver",
	start: func(files reload.Paths, mutual bool) (*server, error) {
		pair, err := dynamic.NewDynamicServingContentFromFiles("bench", files.Cert, files.Key)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		base, clients := new(tls.Config), dynamic.CAContentProvider(nil)
		if mutual {
			base.ClientAuth = tls.RequireAndVerifyClientCert
			cas, err := dynamic.NewDynamicCAContentFromFile("bench", files.CA)
			if err != nil {
				cancel()
				return nil, err
			}
			clients = cas
			go cas.Run(ctx, 1)
		}
		all := dynamic.NewDynamicServingCertificateController(base, clients, pair, nil, nil)
		pair.AddListener(all)
		if cas, ok := clients.(dynamic.Notifier); ok {
			cas.AddListener(all)
		}
		if err := all.RunOnce(); err != nil {
			cancel()
			return nil, err
		}
		go pair.Run(ctx, 1)
		go all.Run(1, ctx.Done())
		return &server{
			get: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				config, err := all.GetConfigForClient(hello)
				if err != nil {
					return nil, err
				}
				return &config.Certificates[0], nil
			},
			config: &tls.Config{GetConfigForClient: all.GetConfigForClient},
			resync: func() error { return pair.RunOnce(ctx) },
			stop:   cancel,
		}, nil
	},
}
