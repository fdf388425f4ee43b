// Command apiserver is an HTTPS server whose keypair the dynamiccertificates of Kubernetes keep fresh.
package main

import (
	"context"
	"crypto/tls"
	"log"
	"net/http"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

func main() {
	ctx := context.Background()
	keypair, err := dynamiccertificates.NewDynamicServingContentFromFiles("https", "tls.crt", "tls.key")
	if err != nil {
		log.Fatal(err)
	}
	live := dynamiccertificates.NewDynamicServingCertificateController(new(tls.Config), nil, keypair, nil, nil)
	keypair.AddListener(live)
	if err := live.RunOnce(); err != nil {
		log.Fatal(err)
	}
	go keypair.Run(ctx, 1)
	go live.Run(1, ctx.Done())
	server := &http.Server{Addr: ":8443", TLSConfig: &tls.Config{GetConfigForClient: live.GetConfigForClient}}
	log.Fatal(server.ListenAndServeTLS("", ""))
}
