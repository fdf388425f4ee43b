// Command reload is an HTTPS server whose keypair this library keeps fresh.
package main

import (
	"context"
	"log"
	"net/http"

	"github.com/seed45259946/reload"
)

func main() {
	keypair, err := reload.NewReloader(reload.FromDir("."), "https")
	if err != nil {
		log.Fatal(err)
	}
	go keypair.Start(context.Background())
	server := &http.Server{Addr: ":8443", TLSConfig: keypair.ServerConfig(nil)}
	log.Fatal(server.ListenAndServeTLS("", ""))
}
