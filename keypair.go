package reload

// keypair.go judges whether a chain and a private key make a keypair that every handshake can use.

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/fips140"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// RSA sizes, in bits, that handshakes can use: crypto/tls cannot sign for TLS 1.3 below the first and its clients refuse
// keys above the last; FIPS 140-3 mode filters chains with keys below fipsRSABits.
const (
	minRSABits  = 1024
	fipsRSABits = 2048
	maxRSABits  = 8192
)

// parseKey parses the key block in any of the encodings of crypto/tls: PKCS #1, PKCS #8, SEC 1.
func parseKey(block pemBlock) (crypto.Signer, error) {
	switch {
	case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["Proc-Type"] != "" || block.Headers["DEK-Info"] != "":
		return nil, fmt.Errorf("%w (line %d): store it decrypted", ErrEncryptedKey, block.line)
	case block.Type == "OPENSSH PRIVATE KEY" || block.Type == "DSA PRIVATE KEY":
		return nil, fmt.Errorf("line %d: %s is of no use in TLS", block.line, block.Type)
	}
	key, err := decodeKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", block.line, err)
	}
	return key, nil
}

// decodeKey tries the encodings in turn, whatever the block's type says, as crypto/tls does.
func decodeKey(der []byte) (crypto.Signer, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, errors.New("key cannot sign")
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	return nil, errors.New("damaged, or no RSA, ECDSA (P-256, P-384, P-521 as named curve) or Ed25519 key")
}

// checkKey refuses keys that load but that handshakes cannot use.
func checkKey(pub crypto.PublicKey) error {
	switch pub := pub.(type) {
	case *rsa.PublicKey:
		least := minRSABits
		if fips140.Enabled() {
			least = fipsRSABits
		}
		if n := pub.N.BitLen(); n < least || n > maxRSABits {
			return fmt.Errorf("RSA key of %d bits, want %d to %d", n, least, maxRSABits)
		}
	case *ecdsa.PublicKey:
		if !usable(pub.Curve) {
			return fmt.Errorf("ECDSA key on %s, want P-256, P-384 or P-521", pub.Curve.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return errors.New("want an RSA, ECDSA or Ed25519 key")
	}
	return nil
}

// usable reports whether c is a curve of TLS 1.3 signatures, which are those of FIPS 140-3 mode too.
func usable(c elliptic.Curve) bool {
	return c == elliptic.P256() || c == elliptic.P384() || c == elliptic.P521()
}

// newKeypair joins chain and key. The key must be that of the first certificate.
func newKeypair(chain []located, key crypto.Signer) (tls.Certificate, error) {
	if !samePublicKey(key, chain[0].Certificate) {
		for i, c := range chain[1:] {
			if samePublicKey(key, c.Certificate) {
				return tls.Certificate{}, fmt.Errorf("%w: it matches certificate %d of the file (line %d): the leaf comes first", ErrKeyMismatch, i+2, c.line)
			}
		}
		return tls.Certificate{}, ErrKeyMismatch
	}
	cert := tls.Certificate{PrivateKey: key, Leaf: chain[0].Certificate}
	for _, c := range chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	return cert, nil
}

// samePublicKey reports whether key is the private key of cert.
func samePublicKey(key crypto.Signer, cert *x509.Certificate) bool {
	pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && pub.Equal(cert.PublicKey)
}

// checkSignatures refuses a chain in which a certificate names an issuer that is at hand and that did not sign it: the mark
// of a file overwritten in place and read half way, which parses, and whose key matches where it was reused. An issuer in
// the same file is named by its name alone, one among the CAs, which may be there for others, by its key identifier too.
// It returns what is known of the leaf.
func checkSignatures(chain, cas []located) (leaf signature, err error) {
	for i, c := range chain {
		v, where := signedBy(c.Certificate, chain), "in the same file"
		if v == unknown {
			v, where = signedBy(c.Certificate, cas), "in the CA file"
			if v == forged && !slices.ContainsFunc(cas, c.identifies) {
				v = unknown
			}
		}
		if v == forged {
			return v, malformed(c.line, "certificate %d is not signed by its issuer %s", i+1, where)
		}
		if i == 0 {
			leaf = v
		}
	}
	return leaf, nil
}

// identifies reports whether c names p as its issuer by key identifier.
func (c located) identifies(p located) bool {
	return bytes.Equal(p.RawSubject, c.RawIssuer) && len(c.AuthorityKeyId) > 0 && bytes.Equal(p.SubjectKeyId, c.AuthorityKeyId)
}

// checkRoots refuses CAs of which one says that it signed itself and did not. Nothing else would notice: the signature of
// a trusted root is never looked at.
func checkRoots(cas []located) error {
	for i, c := range cas {
		if signedBy(c.Certificate, cas[i:i+1]) == forged {
			return malformed(c.line, "certificate %d is not signed by itself, as it says", i+1)
		}
	}
	return nil
}

// signature says what is known of a certificate's signature.
type signature int

const (
	unknown signature = iota // its issuer is not at hand, or its algorithm cannot be checked
	genuine                  // one of the candidates signed it
	forged                   // its issuer is at hand and did not sign it
)

// signedBy looks among candidates for the issuer of c and checks its signature. A certificate that names itself as its
// issuer is its own candidate, unless its key identifiers say that another key of the same name signed it. A leaf without
// any may only share the name of its authority: that it did not sign itself proves nothing.
func signedBy(c *x509.Certificate, candidates []located) signature {
	switch c.SignatureAlgorithm {
	case x509.UnknownSignatureAlgorithm, x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.ECDSAWithSHA1, x509.DSAWithSHA1, x509.DSAWithSHA256:
		return unknown // crypto/x509 does not check these, or not in FIPS 140-3 mode
	}
	found := unknown
	for _, p := range candidates {
		if !bytes.Equal(p.RawSubject, c.RawIssuer) {
			continue
		}
		if p.Certificate.Equal(c) && len(c.AuthorityKeyId) > 0 && !bytes.Equal(c.AuthorityKeyId, c.SubjectKeyId) {
			continue
		}
		if p.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil {
			return genuine
		}
		if !p.Certificate.Equal(c) || c.IsCA || len(c.AuthorityKeyId) > 0 {
			found = forged
		}
	}
	return found
}
