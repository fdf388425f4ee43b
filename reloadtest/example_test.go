package reloadtest_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/seed45259946/reload/reloadtest"
)

// A test of your own server: it serves from a Kubernetes Secret volume, the Secret is renewed, and the next connection
// must see the new certificate. Here the server is a listener that reads its files at each handshake.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ca := reloadtest.NewCA(reloadtest.Options{})
	before, after := ca.Issue(reloadtest.Options{}), ca.Issue(reloadtest.Options{})

	volume, err := reloadtest.NewKubelet(dir, before.Files(ca))
	if err != nil {
		log.Fatal(err)
	}
	listener, err := serve(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		log.Fatal(err)
	}
	defer listener.Close()

	fmt.Println("first:", served(listener.Addr().String(), ca.Pool()) == before.Fingerprint())
	if err := volume.Update(after.Files(ca)); err != nil {
		log.Fatal(err)
	}
	fmt.Println("renewed:", served(listener.Addr().String(), ca.Pool()) == after.Fingerprint())
	// Output:
	// first: true
	// renewed: true
}

// A naive program, which reads its files whenever it likes, asked in the middle of each step of some rotations. Loop over
// [reloadtest.Rotators] to meet them all.
func ExampleRotator_Write() {
	ca := reloadtest.NewCA(reloadtest.Options{})
	for _, rotator := range []reloadtest.Rotator{reloadtest.Lego(), reloadtest.VaultAgent(), reloadtest.SwapDirs()} {
		dir, err := os.MkdirTemp("", "")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := rotator.Write(dir, ca.Issue(reloadtest.Options{}).Files(ca), nil); err != nil {
			log.Fatal(err)
		}

		outage := false
		cert, key, _ := rotator.Paths(dir)
		err = rotator.Write(dir, ca.Issue(reloadtest.Options{}).Files(ca), func(step string) error {
			if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
				outage = true
			}
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: outage %t\n", rotator.Name, outage)
	}
	// Output:
	// lego: outage true
	// vault agent: outage true
	// directory swap: outage true
}

// serve accepts connections until the listener is closed.
func serve(cert, key string) (net.Listener, error) {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			return &pair, err
		},
	})
	if err != nil {
		return nil, err
	}
	go func() { // ends when the listener is closed
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Write(nil) // which makes the handshake
			conn.Close()
		}
	}()
	return listener, nil
}

// served returns the fingerprint of the certificate that a client with these roots accepts at addr, or why it does not.
func served(addr string, roots *x509.CertPool) string {
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	return fmt.Sprintf("%x", sha256.Sum256(conn.ConnectionState().PeerCertificates[0].Raw))
}
