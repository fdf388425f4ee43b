//go:build linux

package chaos_test

// state_test.go is what files say, and how to recognise it.

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// state is what the files of a side are to say.
type state struct {
	n    int // counts them
	pair *reloadtest.Keypair
	cas  []*reloadtest.CA
}

func (s state) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, ca := range s.cas {
		pool.AddCert(ca.Cert)
	}
	return pool
}

// is reports whether b is s, all of it and nothing else.
func (s state) is(b *reload.Bundle) bool {
	return b != nil && b.Fingerprint == s.pair.Fingerprint() && b.ClientCAs.Equal(s.pool()) &&
		slices.EqualFunc(b.Cert.Certificate, s.pair.Chain, bytes.Equal)
}

// digest identifies a chain, or one certificate.
type digest [sha256.Size]byte

func digestOf(ders ...[]byte) (d digest) {
	h := sha256.New()
	for _, der := range ders {
		fmt.Fprintf(h, "%d:", len(der))
		h.Write(der)
	}
	h.Sum(d[:0])
	return d
}

func chainDigest(certs []*x509.Certificate) digest {
	ders := make([][]byte, len(certs))
	for i, c := range certs {
		ders[i] = c.Raw
	}
	return digestOf(ders...)
}

// ring keeps the last lines of a log.
type ring struct {
	mu    sync.Mutex
	lines []string
}

func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines = append(r.lines, string(p)); len(r.lines) > 60 {
		r.lines = slices.Delete(r.lines, 0, 30)
	}
	return len(p), nil
}

func (r *ring) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines[max(0, len(r.lines)-6):], "")
}
