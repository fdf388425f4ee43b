// Command configtls is an HTTPS server whose keypair the configtls of OpenTelemetry load again in handshakes.
package main

import (
	"context"
	"log"
	"net/http"
	"time"

	"go.opentelemetry.io/collector/config/configtls"
)

func main() {
	config, err := configtls.ServerConfig{
		Config: configtls.Config{CertFile: "tls.crt", KeyFile: "tls.key", ReloadInterval: time.Second},
	}.LoadTLSConfig(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: ":8443", TLSConfig: config}
	log.Fatal(server.ListenAndServeTLS("", ""))
}
