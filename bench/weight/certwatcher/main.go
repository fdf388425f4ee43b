// Command certwatcher is an HTTPS server whose keypair the certwatcher of controller-runtime keeps fresh.
package main

import (
	"context"
	"crypto/tls"
	"log"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

func main() {
	keypair, err := certwatcher.New("tls.crt", "tls.key")
	if err != nil {
		log.Fatal(err)
	}
	go keypair.Start(context.Background())
	server := &http.Server{Addr: ":8443", TLSConfig: &tls.Config{GetCertificate: keypair.GetCertificate}}
	log.Fatal(server.ListenAndServeTLS("", ""))
}
