package main

// peer.go says what a peer is. Each has a file of its own, peer_*.go, which does as little as possible besides calling it.

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/seed45259946/reload"
)

// peer is one way for a server to get at the keypair in some files.
type peer struct {
	name string
	// start serves the files until server.stop. A mutual server verifies its clients against the CA file, which many peers
	// read only once.
	start func(files reload.Paths, mutual bool) (*server, error)
	// looks is how often it looks at the files where nothing else makes it look; zero if events do, or each handshake.
	looks time.Duration
	// deaf peers have to be told that the files have changed.
	deaf bool
	// yardstick is no peer but what some other figure is compared with.
	yardstick bool
}

// callback is the hook of crypto/tls for the keypair of a server.
type callback = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// server is a peer at work. It has either a config or a way of its own to accept connections.
type server struct {
	get    callback // what a handshake asks for the keypair
	config *tls.Config
	accept func(net.Conn) (net.Conn, error) // does the handshake; nil: with config
	resync func() error                     // finds that nothing has changed; nil: there is no such call
	stop   func()
}

// peers are all, ours first.
var peers = []peer{ours, certwatcher, apiserver, advanced, minio, hashicorp, otel, static, bare, naive}

// choose returns the peers in a list, all if it is empty.
func choose(list string) (chosen []peer) {
	for _, p := range peers {
		if listed(list, p.name) {
			chosen = append(chosen, p)
		}
	}
	return chosen
}

// handshake accepts a client on conn.
func (s *server) handshake(conn net.Conn) (net.Conn, error) {
	if s.accept != nil {
		return s.accept(conn)
	}
	secure := tls.Server(conn, s.config)
	return secure, secure.Handshake()
}

// hooked returns a server with a callback for the keypair, and clients verified against the CA file as it is now.
func hooked(get callback, files reload.Paths, mutual bool) (*server, error) {
	s := &server{get: get, config: &tls.Config{GetCertificate: get}, stop: func() {}}
	return s, verifying(s.config, files, mutual)
}

// verifying has config verify clients, if the server is mutual.
func verifying(config *tls.Config, files reload.Paths, mutual bool) error {
	if !mutual {
		return nil
	}
	pem, err := os.ReadFile(files.CA)
	if err != nil {
		return err
	}
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s: no certificate", files.CA)
	}
	return nil
}

// hello is what a client says that asks for a name, to call callbacks with.
var hello = func() (said *tls.ClientHelloInfo) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	go tls.Client(here, &tls.Config{ServerName: "localhost"}).Handshake() // which fails, at the latest when here closes
	tls.Server(there, &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		said = hello
		return nil, errors.ErrUnsupported
	}}).Handshake()
	return said
}()
