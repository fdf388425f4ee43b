// Command advancedtls is an HTTPS server whose keypair the advancedtls of gRPC keep fresh.
package main

import (
	"log"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/tls/certprovider/pemfile"
	"google.golang.org/grpc/security/advancedtls"
)

func main() {
	keypair, err := pemfile.NewProvider(pemfile.Options{CertFile: "tls.crt", KeyFile: "tls.key", RefreshDuration: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	creds, err := advancedtls.NewServerCreds(&advancedtls.Options{
		IdentityOptions: advancedtls.IdentityCertificateOptions{IdentityProvider: keypair},
	})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", ":8443")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener{l, creds}, nil))
}

// listener does the handshakes, which the credentials have no config for.
type listener struct {
	net.Listener
	credentials.TransportCredentials
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	secure, _, err := l.ServerHandshake(conn)
	return secure, err
}
