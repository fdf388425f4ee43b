// Command reloadutil is an HTTPS server whose keypair the reloadutil of HashiCorp loads again upon a signal.
package main

import (
	"crypto/tls"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-secure-stdlib/reloadutil"
)

func main() {
	keypair := reloadutil.NewCertificateGetter("tls.crt", "tls.key", "")
	if err := keypair.Reload(); err != nil {
		log.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for range signals {
			if err := keypair.Reload(); err != nil {
				log.Print(err)
			}
		}
	}()
	server := &http.Server{Addr: ":8443", TLSConfig: &tls.Config{GetCertificate: keypair.GetCertificate}}
	log.Fatal(server.ListenAndServeTLS("", ""))
}
