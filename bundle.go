package reload

// bundle.go turns the bytes of certificate, key and CA file into a Bundle: validate everything, then freeze.

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"
)

// File names of a Kubernetes Secret of type kubernetes.io/tls as cert-manager fills it.
const (
	SecretCertFile = "tls.crt"
	SecretKeyFile  = "tls.key"
	SecretCAFile   = "ca.crt"
)

// Paths locates the files of one bundle. Cert and Key may name the same file, with certificates and key in any order.
// With neither, CA alone makes a trust-only bundle: a client that has no identity of its own.
//
// Relative paths are taken from the working directory at the time of the call they are given to.
type Paths struct {
	Cert string // the leaf, then its intermediates
	Key  string // the private key of the leaf, not encrypted
	CA   string // optional; empty means there is no CA file to read
	// CAOnly makes RootCAs the CA file alone, without the system roots. It needs a CA file that is there.
	CAOnly bool
}

// FromDir locates the files of a mounted Kubernetes Secret: tls.crt, tls.key and ca.crt under dir.
func FromDir(dir string) Paths {
	return Paths{
		Cert: filepath.Join(dir, SecretCertFile),
		Key:  filepath.Join(dir, SecretKeyFile),
		CA:   filepath.Join(dir, SecretCAFile),
	}
}

// check refuses Paths that name no bundle.
func (p Paths) check() error {
	switch {
	case (p.Cert == "") != (p.Key == ""):
		return errors.New("certificate and key come together: one path is empty")
	case p.Cert == "" && p.CA == "":
		return errors.New("no paths given")
	case p.CAOnly && p.CA == "":
		return errors.New("trust roots: CAOnly without a CA path")
	}
	return nil
}

// Bundle is one validated generation: what was in all files of a bundle at one moment.
//
// A Bundle is immutable, and so is everything it points to: handshakes read it at any time, without a lock. To change
// something, such as to add an OCSP staple, copy the Bundle, change the copy and publish that. Bundles from [LoadBundle]
// and [BundleFromPEM] have every field set as described; one made by hand may leave out all but Cert.
type Bundle struct {
	// Cert is the keypair: leaf, intermediates, private key. Leaf is set. It is the zero Certificate in a trust-only
	// bundle.
	Cert tls.Certificate
	// RootCAs verifies servers: the system roots plus the CA file, or the CA file alone with [Paths].CAOnly. The system
	// roots are read once per process. Never nil.
	RootCAs *x509.CertPool
	// ClientCAs verifies clients: the CA file alone, since a publicly trusted CA must never admit a client. Nil without a
	// CA file, which crypto/tls would take for the system roots: a server that verifies clients must refuse it.
	ClientCAs *x509.CertPool
	// Fingerprint is the SHA-256 of the leaf's DER in lower-case hex. Empty in a trust-only bundle.
	Fingerprint string
	// NotBefore and NotAfter are the leaf's. Zero in a trust-only bundle.
	NotBefore, NotAfter time.Time

	trust *trust    // what the pools are of; nil in a bundle made by hand
	proof signature // on the leaf's signature
}

// LoadBundle reads and validates the files at p, once and as one consistent set: all files were opened before any was
// read, and none changed meanwhile. It does not wait for a writer to finish; [Watch] and [NewReloader] do.
//
// The chain must start with the leaf, the key must be the leaf's, and no block in any file may be damaged. A missing or
// empty CA file counts as none, unless CAOnly. Validity times are not judged: an expired leaf loads.
func LoadBundle(p Paths) (*Bundle, error) {
	if err := p.check(); err != nil {
		return nil, prefixed(err)
	}
	set, err := readSet(p)
	if err != nil {
		return nil, prefixed(err)
	}
	b, err := newBundle(set.sources(), p.CAOnly)
	return b, prefixed(err)
}

// BundleFromPEM validates what some other source than files has to offer: an informer, Vault, a SPIFFE workload API.
// The rules are those of [LoadBundle]. An empty caPEM means there are no CAs; empty certPEM and keyPEM beside it make a
// trust-only bundle. The caller may reuse the slices.
func BundleFromPEM(certPEM, keyPEM, caPEM []byte) (*Bundle, error) {
	src := sources{ca: source{data: caPEM}}
	if len(certPEM) > 0 || len(keyPEM) > 0 || len(caPEM) == 0 {
		src.pair, src.cert, src.key = true, source{data: certPEM}, source{data: keyPEM}
	}
	b, err := newBundle(src, false)
	return b, prefixed(err)
}

// source is the content of one file.
type source struct {
	path string // for errors; empty where there was no file
	data []byte
}

// sources is the content of a whole bundle.
type sources struct {
	pair      bool // there is a keypair; without it the bundle is trust-only
	cert, key source
	ca        source // no data where there is no CA file
}

// newBundle validates src, the one way every Bundle of ours is made.
func newBundle(src sources, caOnly bool) (*Bundle, error) {
	b := &Bundle{}
	var chain, cas []located
	var err error
	if src.pair {
		if chain, err = b.setKeypair(src.cert, src.key); err != nil {
			return nil, err
		}
	}
	if len(bytes.TrimSpace(src.ca.data)) > 0 {
		if cas, err = readCertificates(src.ca.data); err == nil && !inUse(certificatesOf(cas), caOnly) {
			err = checkRoots(cas)
		}
	} else if caOnly || !src.pair {
		err = fmt.Errorf("%w: empty", ErrMalformedPEM)
	}
	if err != nil {
		return nil, &fileError{roleCA, src.ca.path, err}
	}
	if b.proof, err = checkSignatures(chain, cas); err != nil {
		return nil, &fileError{roleCert, src.cert.path, err}
	}
	b.setTrust(certificatesOf(cas), caOnly)
	return b, nil
}

// setTrust fills in the pools.
func (b *Bundle) setTrust(cas []*x509.Certificate, alone bool) {
	b.trust = trustIn(cas, alone)
	b.RootCAs, b.ClientCAs = b.trust.roots, b.trust.clients
}

// setKeypair fills in everything about the keypair and returns its chain.
func (b *Bundle) setKeypair(cert, key source) ([]located, error) {
	chain, err := readCertificates(cert.data)
	if err == nil {
		err = checkKey(chain[0].PublicKey)
	}
	if err != nil {
		return nil, &fileError{roleCert, cert.path, err}
	}
	block, err := readKey(key.data)
	if err != nil {
		return nil, &fileError{roleKey, key.path, err}
	}
	signer, err := parseKey(block)
	if err != nil {
		return nil, &fileError{roleKey, key.path, err}
	}
	if b.Cert, err = newKeypair(chain, signer); err != nil {
		return nil, &fileError{roleKeypair, pairPath(cert.path, key.path), err}
	}
	leaf := chain[0]
	sum := sha256.Sum256(leaf.Raw)
	b.Fingerprint = hex.EncodeToString(sum[:])
	b.NotBefore, b.NotAfter = leaf.NotBefore, leaf.NotAfter
	return chain, nil
}

// pairPath names the files of a keypair in an error.
func pairPath(cert, key string) string {
	if cert == key {
		return cert
	}
	return cert + ", " + key
}

// equal reports whether o would serve exactly as b does: the same chain, and with it the same key, and the same trust.
func (b *Bundle) equal(o *Bundle) bool {
	if b == nil || o == nil {
		return b == o
	}
	return slices.EqualFunc(b.Cert.Certificate, o.Cert.Certificate, bytes.Equal) &&
		b.ClientCAs.Equal(o.ClientCAs) && b.RootCAs.Equal(o.RootCAs)
}

// validity returns the leaf's times, also of a bundle made by hand; zero without a leaf.
func (b *Bundle) validity() (notBefore, notAfter time.Time) {
	switch {
	case b == nil:
		return
	case b.Cert.Leaf != nil:
		return b.Cert.Leaf.NotBefore, b.Cert.Leaf.NotAfter
	default:
		return b.NotBefore, b.NotAfter
	}
}

// leafDER returns the leaf as it is sent; nil without one.
func (b *Bundle) leafDER() []byte {
	if b == nil || len(b.Cert.Certificate) == 0 {
		return nil
	}
	return b.Cert.Certificate[0]
}

// atTime returns why the leaf is of no use at a time, by the wall clock: ErrExpired, ErrNotYetValid or nil.
func (b *Bundle) atTime(now time.Time) error {
	notBefore, notAfter := b.validity()
	switch {
	case notAfter.IsZero():
		return nil // trust alone does not expire
	case now.After(notAfter):
		return fmt.Errorf("%w at %s", ErrExpired, notAfter.UTC().Format(time.RFC3339))
	case now.Before(notBefore):
		return fmt.Errorf("%w before %s", ErrNotYetValid, notBefore.UTC().Format(time.RFC3339))
	default:
		return nil
	}
}

// LogValue lets a Bundle be logged as a group of what tells one generation from another: fingerprint, serial number (hex)
// and not_after. No formatting of a Bundle shows key material.
func (b *Bundle) LogValue() slog.Value {
	switch {
	case b == nil:
		return slog.StringValue("none")
	case len(b.Cert.Certificate) == 0:
		return slog.GroupValue(slog.Bool("trust_only", true))
	case b.Cert.Leaf == nil: // made by hand
		return slog.GroupValue(slog.String("fingerprint", b.Fingerprint))
	}
	return slog.GroupValue(
		slog.String("fingerprint", b.Fingerprint),
		slog.String("serial", b.Cert.Leaf.SerialNumber.Text(16)),
		slog.Time("not_after", b.NotAfter),
	)
}

// Format prints what LogValue shows, whatever the verb: the default would print the private key. Like MarshalText it is
// there for values too, since a Bundle may be copied to be changed.
func (b Bundle) Format(f fmt.State, _ rune) {
	fmt.Fprint(f, b.LogValue().String())
}

// MarshalText encodes what LogValue shows, for JSON, XML, YAML and whatever else asks for a text: the default would encode the
// private key.
func (b Bundle) MarshalText() ([]byte, error) {
	return []byte(b.LogValue().String()), nil
}
