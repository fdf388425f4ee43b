// Command slog is an HTTPS server with a keypair that never changes, which logs through log/slog as this library does.
package main

import (
	"log/slog"
	"net/http"
	"os"
)

func main() {
	server := &http.Server{Addr: ":8443"}
	slog.Error("cannot serve", "err", server.ListenAndServeTLS("tls.crt", "tls.key"))
	os.Exit(1)
}
