package main

// peer_yardsticks.go has what the others are compared with: a config that never changes, a bare atomic load, and reading
// the files in each handshake.

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/seed45259946/reload"
)

var static = peer{
	name:      "static",
	deaf:      true,
	yardstick: true,
	start: func(files reload.Paths, mutual bool) (*server, error) {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return nil, err
		}
		s := &server{
			get:    func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil },
			config: &tls.Config{Certificates: []tls.Certificate{pair}},
			stop:   func() {},
		}
		return s, verifying(s.config, files, mutual)
	},
}

// pointer is the least that can be changed while it is read.
type pointer struct {
	live atomic.Pointer[tls.Certificate]
}

func (p *pointer) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if live := p.live.Load(); live != nil {
		return live, nil
	}
	return nil, reload.ErrNoCertificate
}

func (p *pointer) load(files reload.Paths) error {
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err == nil {
		p.live.Store(&pair)
	}
	return err
}

var bare = peer{
	name:      "atomic",
	deaf:      true,
	yardstick: true,
	start: func(files reload.Paths, mutual bool) (*server, error) {
		var p pointer
		if err := p.load(files); err != nil {
			return nil, err
		}
		return hooked(p.get, files, mutual)
	},
}

var naive = peer{
	name:      "naive",
	yardstick: true,
	start: func(files reload.Paths, mutual bool) (*server, error) {
		return hooked(func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
			return &pair, err
		}, files, mutual)
	},
}
