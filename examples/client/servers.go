package main

// servers.go is whom the clients call: each server answers with the name in the certificate of its caller, and follows its
// own keypair and the CAs of its clients.

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"github.com/seed45259946/reload"
)

// grace is how long requests may go on when a server is told to end.
const grace = 5 * time.Second

// verifying is what servers serve with: no client without a certificate.
var verifying = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}

// serveHTTPS serves until ctx is done, and then has the requests in flight finish.
func serveHTTPS(ctx context.Context, l net.Listener, keypair *reload.Reloader) error {
	server := &http.Server{
		TLSConfig:         keypair.ServerConfig(verifying),
		ReadHeaderTimeout: grace,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName)
		}),
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(l, "", "") }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		err := server.Shutdown(patience)
		<-served
		return err
	}
}

// serveRedis speaks as much of Redis' protocol as it takes to be asked for a name, until ctx is done.
func serveRedis(ctx context.Context, l net.Listener, keypair *reload.Reloader) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	err := redcon.Serve(tls.NewListener(l, keypair.ServerConfig(verifying)), func(conn redcon.Conn, cmd redcon.Command) {
		if name := string(cmd.Args[0]); !strings.EqualFold(name, "WHOAMI") {
			conn.WriteError(fmt.Sprintf("ERR unknown command '%s'", name)) // drivers ask for more, and do without
			return
		}
		state := conn.NetConn().(*tls.Conn).ConnectionState()
		conn.WriteBulkString(state.PeerCertificates[0].Subject.CommonName)
	}, nil, nil)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
