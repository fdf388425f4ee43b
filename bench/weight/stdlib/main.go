// Command stdlib is an HTTPS server with a keypair that never changes.
package main

import (
	"log"
	"net/http"
)

func main() {
	server := &http.Server{Addr: ":8443"}
	log.Fatal(server.ListenAndServeTLS("tls.crt", "tls.key"))
}
