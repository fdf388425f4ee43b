// Command minio is an HTTPS server whose keypair the certs of MinIO keep fresh.
package main

import (
	"context"
	"crypto/tls"
	"log"
	"net/http"

	"github.com/minio/pkg/v3/certs"
)

func main() {
	keypair, err := certs.NewManager(context.Background(), "tls.crt", "tls.key", tls.LoadX509KeyPair)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: ":8443", TLSConfig: &tls.Config{GetCertificate: keypair.GetCertificate}}
	log.Fatal(server.ListenAndServeTLS("", ""))
}
