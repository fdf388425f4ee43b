package reload_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// An HTTPS server that picks up new certificates without a restart.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	keypair, err := reload.NewReloader(reload.FromDir("/etc/tls"), "https")
	if err != nil {
		log.Fatal(err)
	}
	followed := make(chan error, 1)
	go func() { followed <- keypair.Start(ctx) }()

	server := &http.Server{Addr: ":8443", TLSConfig: keypair.ServerConfig(nil)}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServeTLS("", ""); err != http.ErrServerClosed {
		log.Fatal(err)
	}
	if err := <-followed; err != nil {
		log.Fatal(err)
	}
}

// A client with an identity and roots of its own, both of which rotate.
func Example_client() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	identity, err := reload.NewReloader(reload.FromDir("/etc/upstream-tls"), "upstream")
	if err != nil {
		log.Fatal(err)
	}
	go identity.Start(ctx)

	transport, err := identity.Transport(nil)
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	response, err := client.Get("https://upstream.example/")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
}

// A server that verifies its clients against a CA file that rotates too. Drain has them come back on new connections after
// a rotation, so that a client whose CA was withdrawn does not stay.
func ExampleReloader_ServerConfig() {
	keypair, err := reload.NewReloader(reload.FromDir("/etc/tls"), "https")
	if err != nil {
		log.Fatal(err)
	}
	go keypair.Start(context.Background())

	server := &http.Server{
		Addr:      ":8443",
		TLSConfig: keypair.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, "hello", r.TLS.PeerCertificates[0].Subject.CommonName)
		}),
	}
	log.Fatal(server.ListenAndServeTLS("", ""))
}

// Start blocks until its context is done, and returns nil then: it fits errgroup and the managers of controllers.
func ExampleReloader_Start() {
	keypair, err := reload.NewReloader(reload.FromDir("/etc/tls"), "https", func(o *reload.WatchOptions) {
		o.OnSwap = func(b *reload.Bundle) { log.Print("serving ", b.Fingerprint) }
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := keypair.Start(ctx); err != nil {
		log.Fatal(err)
	}
}

// A rotator that sends SIGHUP need not wait for a notification.
func ExampleWatchOptions_hints() {
	hints := make(chan struct{})
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			hints <- struct{}{}
		}
	}()
	keypair, err := reload.NewReloader(reload.FromDir("/etc/tls"), "https", func(o *reload.WatchOptions) { o.Hints = hints })
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(keypair.Start(context.Background()))
}

// Watch fills a Store that may have had its first bundle from elsewhere.
func ExampleWatch() {
	store := reload.NewStore()
	err := reload.Watch(context.Background(), reload.FromDir("/etc/tls"), store, reload.WatchOptions{
		Component:  "https",
		Metrics:    reload.DefaultMetrics("https"),
		AwaitFiles: true,
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A keypair that is in no file, such as one read through an API, has the same hooks.
func ExampleBundleFromPEM() {
	secret := reloadtest.NewCA(reloadtest.Options{}).Issue(reloadtest.Options{}) // or from an informer, Vault, SPIFFE

	bundle, err := reload.BundleFromPEM(secret.CertPEM, secret.KeyPEM, nil)
	if err != nil {
		log.Fatal(err)
	}
	var store reload.Store
	store.Store(bundle)

	cert, err := store.GetCertificate(nil)
	fmt.Println(cert.Leaf.DNSNames, err)
	// Output: [localhost] <nil>
}
