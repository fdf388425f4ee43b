package main

// cluster.go stands in for what is not there: an API server with one Secret, and an API outside the cluster. Both ask their
// clients for a certificate, and tell them whom they take them for.

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// peer is a server that verifies its clients. Its keypair and the CA of its clients may be replaced at any time.
type peer struct {
	address string
	store   reload.Store
	server  *http.Server
}

// listen serves handler at a port of its own until it is closed.
func (p *peer) listen(handler http.Handler, files reloadtest.Files) error {
	if err := p.present(files); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.address = listener.Addr().String()
	p.server = &http.Server{
		Handler:   handler,
		TLSConfig: p.store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}),
	}
	go func() { // until close
		if err := p.server.ServeTLS(listener, "", ""); err != http.ErrServerClosed {
			log.Print(err)
		}
	}()
	return nil
}

// present replaces the keypair and the CA.
func (p *peer) present(files reloadtest.Files) error {
	bundle, err := reload.BundleFromPEM(files[reload.SecretCertFile], files[reload.SecretKeyFile], files[reload.SecretCAFile])
	if err == nil {
		p.store.Store(bundle)
	}
	return err
}

// target is where it is to be found, for a proxy.
func (p *peer) target() *url.URL { return &url.URL{Scheme: "https", Host: p.address} }

// close ends it, and requests that are being answered.
func (p *peer) close() error { return p.server.Close() }

// user is the name in the certificate of a client.
func user(request *http.Request) string { return request.TLS.PeerCertificates[0].Subject.CommonName }

// outside is an API outside the cluster.
type outside struct{ peer }

// ServeHTTP answers with the name of the user.
func (*outside) ServeHTTP(w http.ResponseWriter, request *http.Request) { fmt.Fprint(w, user(request)) }

// cluster is an API server: as much of one as a client of ours asks for.
type cluster struct {
	peer

	mu      sync.Mutex     // guards the rest
	secret  *corev1.Secret // replaced, not changed
	changed chan struct{}  // closed when it is
}

// listen serves as an API server that has secret, until it is closed.
func (c *cluster) listen(files, secret reloadtest.Files) error {
	c.changed = make(chan struct{})
	c.put(secret)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/secrets/{name}", c.get)
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/secrets", c.watch)
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", c.review)
	return c.peer.listen(mux, files)
}

// put replaces the Secret. There is one, with the name that everybody asks for.
func (c *cluster) put(files reloadtest.Files) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secret = &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Type: corev1.SecretTypeTLS, Data: files}
	close(c.changed)
	c.changed = make(chan struct{})
}

// current returns the Secret, and what is closed when it is no longer that.
func (c *cluster) current() (*corev1.Secret, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.secret, c.changed
}

func (c *cluster) get(w http.ResponseWriter, _ *http.Request) {
	secret, _ := c.current()
	answer(w, secret)
}

// watcherLabel has the user who watches, for a client cannot see under which name its connection was made.
const watcherLabel = "watched-by"

// watch answers with an event for each Secret, for as long as the client listens.
func (c *cluster) watch(w http.ResponseWriter, request *http.Request) {
	for {
		secret, changed := c.current()
		labelled := secret.DeepCopy()
		labelled.Labels = map[string]string{watcherLabel: user(request)}
		answer(w, map[string]any{"type": "MODIFIED", "object": labelled})
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-request.Context().Done():
			return
		}
	}
}

// review answers who is asking.
func (c *cluster) review(w http.ResponseWriter, request *http.Request) {
	review := authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
	}
	review.Status.UserInfo.Username = user(request)
	answer(w, review)
}

// answer writes an object as JSON. A client that has left is no concern of a server.
func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}
