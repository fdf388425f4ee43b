// ca.go mints certificates: a throw-away authority, its intermediates and its leaves.

package reloadtest

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"time"
)

// KeyType is the algorithm and size of a private key.
type KeyType int

// The key types crypto/tls can serve. The zero KeyType is ECDSAP256; the RSA ones take from a tenth of a second to
// some seconds to make.
const (
	ECDSAP256 KeyType = iota
	ECDSAP384
	ECDSAP521
	Ed25519
	RSA2048
	RSA3072
	RSA4096
)

// Options says what a certificate is made of. Each field's zero value is a good default for a test.
type Options struct {
	Name string   // subject common name; empty: one that says root, intermediate or leaf
	DNS  []string // of a leaf; nil with IPs nil: localhost
	IPs  []net.IP // of a leaf; nil with DNS nil: 127.0.0.1 and ::1

	NotBefore time.Time // zero: an hour before now, or before NotAfter where that is earlier
	NotAfter  time.Time // zero: a day (leaf) or ten years (CA) from now, or from NotBefore where that is later

	Key    KeyType            // of the new private key
	Signer crypto.Signer      // use this private key instead of making one: a renewal that keeps its key
	Usage  []x509.ExtKeyUsage // of a leaf; nil: server and client authentication
}

// CA is a certificate authority, made by [NewCA], [CA.Intermediate] or [CA.Renew]: the zero CA cannot sign. It is immutable
// and safe for concurrent use.
type CA struct {
	Cert *x509.Certificate
	Key  crypto.Signer

	parent *CA // who signed Cert; nil for a root
}

// Keypair is a leaf certificate with its private key and the intermediates above it.
type Keypair struct {
	Leaf    *x509.Certificate
	Key     crypto.Signer
	Chain   [][]byte // DER, leaf first, up to but without the root
	CertPEM []byte   // Chain as PEM, the content of tls.crt
	KeyPEM  []byte   // Key as PKCS #8 PEM, the content of tls.key
}

// NewCA makes a self-signed root.
func NewCA(o Options) *CA {
	return newCA(pkix.Name{CommonName: cmp.Or(o.Name, "reloadtest root")}, o.key(), o, nil)
}

// Intermediate makes an authority signed by ca. Keypairs it issues carry it in their chain.
func (ca *CA) Intermediate(o Options) *CA {
	return newCA(pkix.Name{CommonName: cmp.Or(o.Name, "reloadtest intermediate")}, o.key(), o, ca)
}

// Renew makes a new certificate for the same authority: its subject and its key stay, so that leaves issued before
// verify against the renewed certificate too. A root signs itself again, an intermediate is signed by its parent.
// Only the validity is taken from o.
func (ca *CA) Renew(o Options) *CA {
	return newCA(ca.Cert.Subject, ca.Key, o, ca.parent)
}

// Issue makes a leaf signed by ca.
func (ca *CA) Issue(o Options) *Keypair {
	if o.DNS == nil && o.IPs == nil {
		o.DNS, o.IPs = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	}
	if o.Usage == nil {
		o.Usage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	key := o.key()
	template := o.template(24 * time.Hour)
	template.Subject = pkix.Name{CommonName: cmp.Or(o.Name, "reloadtest leaf")}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if _, ok := key.Public().(*rsa.PublicKey); ok {
		template.KeyUsage |= x509.KeyUsageKeyEncipherment
	}
	template.ExtKeyUsage, template.DNSNames, template.IPAddresses = o.Usage, o.DNS, o.IPs

	k := &Keypair{Leaf: sign(template, key, ca), Key: key}
	k.Chain = [][]byte{k.Leaf.Raw}
	for above := ca; above.parent != nil; above = above.parent {
		k.Chain = append(k.Chain, above.Cert.Raw)
	}
	for _, der := range k.Chain {
		k.CertPEM = append(k.CertPEM, block("CERTIFICATE", der)...)
	}
	k.KeyPEM = block("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key)))
	return k
}

// PEM returns the authority's own certificate, the content of ca.crt.
func (ca *CA) PEM() []byte { return block("CERTIFICATE", ca.Cert.Raw) }

// Pool returns a new pool that holds only the authority's own certificate.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	return pool
}

// TLS returns the keypair as crypto/tls wants it, Leaf included.
func (k *Keypair) TLS() tls.Certificate {
	return tls.Certificate{Certificate: slices.Clone(k.Chain), PrivateKey: k.Key, Leaf: k.Leaf}
}

// Fingerprint returns the SHA-256 of the leaf's DER in lower-case hex, which identifies the keypair in a handshake:
// compare it with the peer certificate's.
func (k *Keypair) Fingerprint() string {
	sum := sha256.Sum256(k.Leaf.Raw)
	return hex.EncodeToString(sum[:])
}

// Files returns the keypair under the names of a Kubernetes TLS Secret, tls.crt and tls.key, and, with any CA given,
// ca.crt holding their certificates in order.
func (k *Keypair) Files(cas ...*CA) Files {
	f := Files{certFile: slices.Clone(k.CertPEM), keyFile: slices.Clone(k.KeyPEM)}
	for _, ca := range cas {
		f[caFile] = append(f[caFile], ca.PEM()...)
	}
	return f
}

func newCA(subject pkix.Name, key crypto.Signer, o Options, parent *CA) *CA {
	template := o.template(10 * 365 * 24 * time.Hour)
	template.Subject = subject
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	template.IsCA = true
	return &CA{Cert: sign(template, key, parent), Key: key, parent: parent}
}

// template fills in what every certificate has: a validity. x509 draws a random serial number when there is none.
func (o Options) template(lifetime time.Duration) *x509.Certificate {
	now := time.Now()
	if o.NotBefore.IsZero() {
		o.NotBefore = now
		if !o.NotAfter.IsZero() && o.NotAfter.Before(now) {
			o.NotBefore = o.NotAfter
		}
		o.NotBefore = o.NotBefore.Add(-time.Hour)
	}
	if o.NotAfter.IsZero() {
		o.NotAfter = now
		if o.NotBefore.After(now) {
			o.NotAfter = o.NotBefore
		}
		o.NotAfter = o.NotAfter.Add(lifetime)
	}
	if o.NotAfter.Before(o.NotBefore) {
		panic(fmt.Sprintf("reloadtest: NotAfter %v lies before NotBefore %v", o.NotAfter, o.NotBefore))
	}
	return &x509.Certificate{NotBefore: o.NotBefore, NotAfter: o.NotAfter, BasicConstraintsValid: true}
}

// key returns the private key o asks for. Keys are never cached: two certificates share one only through Signer.
func (o Options) key() crypto.Signer {
	if o.Signer != nil {
		return o.Signer
	}
	switch o.Key {
	case ECDSAP256:
		return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	case ECDSAP384:
		return must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	case ECDSAP521:
		return must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	case Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return must(key, err)
	case RSA2048:
		return must(rsa.GenerateKey(rand.Reader, 2048))
	case RSA3072:
		return must(rsa.GenerateKey(rand.Reader, 3072))
	case RSA4096:
		return must(rsa.GenerateKey(rand.Reader, 4096))
	}
	panic(fmt.Sprintf("reloadtest: no key type %d", o.Key))
}

// sign makes the certificate of key. Without a parent it is self-signed.
func sign(template *x509.Certificate, key crypto.Signer, parent *CA) *x509.Certificate {
	// x509 derives a key identifier for authorities only, and with SHA-1 under some GODEBUG settings.
	id := sha256.Sum256(must(x509.MarshalPKIXPublicKey(key.Public())))
	template.SubjectKeyId = id[:20]
	issuer, signer := template, key
	if parent != nil {
		issuer, signer = parent.Cert, parent.Key
	}
	template.AuthorityKeyId = issuer.SubjectKeyId
	der := must(x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer))
	return must(x509.ParseCertificate(der))
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic("reloadtest: " + err.Error())
	}
	return v
}
