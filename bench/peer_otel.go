package main

// peer_otel.go is go.opentelemetry.io/collector/config/configtls, which loads again in a handshake once its interval has
// passed: never unless asked to, and asked here for every second. It follows the CA file too.

import (
	"context"
	"crypto/tls"
	"time"

	"go.opentelemetry.io/collector/config/configtls"

	"github.com/seed45259946/reload"
)

var otel = peer{
	name:  "configtls",
	looks: time.Second,
	start: func(files reload.Paths, mutual bool) (*server, error) {
		config, err := collector(files, mutual, time.Second)
		if err != nil {
			return nil, err
		}
		eager, err := collector(files, mutual, time.Nanosecond)
		if err != nil {
			return nil, err
		}
		return &server{
			get:    config.GetCertificate,
			config: config,
			resync: func() error { _, err := eager.GetCertificate(nil); return err },
			stop:   func() {},
		}, nil
	},
}

func collector(files reload.Paths, mutual bool, interval time.Duration) (*tls.Config, error) {
	settings := configtls.ServerConfig{
		Config: configtls.Config{CertFile: files.Cert, KeyFile: files.Key, ReloadInterval: interval},
	}
	if mutual {
		settings.ClientCAFile, settings.ReloadClientCAFile = files.CA, true
	}
	return settings.LoadTLSConfig(context.Background())
}
