package reload

// live.go makes the one static client tls.Config that follows rotations, for drivers that take nothing else.

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/fips140"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"
)

// errNoServerName is why a handshake under LiveClientConfig fails when nobody said what to verify.
var errNoServerName = errors.New("reload: no server name to verify: the driver set none, or an IP address, " +
	"which a callback is not told: name it in LiveClientConfig")

// LiveClientConfig returns base as one static config that follows rotations: the last resort, for drivers that take a
// config once and clone it for years. Whatever dials through a hook, or speaks HTTP, is better off with
// [Store.ClientConfig] per dial or [Store.Transport], which leave verification to crypto/tls.
//
// This config sets InsecureSkipVerify and verifies in VerifyConnection instead: the chain against the live trust roots
// (with RootCAs of base as in ClientConfig), by the clock of Config.Time, and the name. Errors are
// [tls.CertificateVerificationError] as ever; with nothing loaded it wraps [ErrNoCertificate]. Whoever replaces
// VerifyConnection in a copy of the config switches verification off.
//
// serverName, a host name or an IP address without a port, is what every server must prove to be, whatever name the
// driver sets; empty, it is ServerName of base. With both empty it is the name that the driver sets for each connection,
// and a connection without one is refused: crypto/tls does not tell callbacks the IP address a driver dials. Ask for one
// config per driver and per server where you can.
//
//   - VerifyPeerCertificate and VerifyConnection of base run after the verification and see the verified chains. The
//     connection itself has none: ConnectionState.VerifiedChains is empty to whoever reads it later.
//   - The identity is that of [Store.GetClientCertificate], asked in each handshake. If a rotation falls into the middle
//     of one, the server may have been verified by the generation before.
//   - There is no session resumption, and ClientSessionCache of base is not used: a session resumes under the identity
//     it was made with, and nothing ties it to a generation here.
//   - In FIPS 140-3 mode chains are filtered as crypto/tls filters them. A BoringCrypto build that imports
//     crypto/tls/fipsonly does not show that mode, and gets no filter.
//   - When a server rejects Encrypted Client Hello, crypto/tls (as of Go 1.26) does not show the callback what the server
//     presented, so the handshake fails without the server's retry configs, unless
//     EncryptedClientHelloRejectionVerify of base decides.
//
// Connections that are open stay open: bound their life with the driver's own setting.
func (s *Store) LiveClientConfig(base *tls.Config, serverName string) *tls.Config {
	cfg := cloneConfig(base)
	cfg.ServerName = cmp.Or(serverName, cfg.ServerName)
	v := &liveVerifier{
		store:      s,
		name:       cfg.ServerName,
		time:       cfg.Time,
		roots:      cfg.RootCAs,
		peer:       cfg.VerifyPeerCertificate,
		connection: cfg.VerifyConnection,
	}
	cfg.Certificates, cfg.GetClientCertificate = nil, s.GetClientCertificate
	cfg.ClientSessionCache, cfg.SessionTicketsDisabled = nil, true
	cfg.InsecureSkipVerify = true
	cfg.VerifyPeerCertificate, cfg.VerifyConnection = nil, v.verify
	if cfg.EncryptedClientHelloRejectionVerify == nil {
		cfg.EncryptedClientHelloRejectionVerify = v.verifyRejection
	}
	// A driver that clears InsecureSkipVerify in its copy has crypto/tls verify as well: with stale roots, not open ones.
	if b := s.Load(); b != nil {
		cfg.RootCAs = b.rootsOver(cfg.RootCAs)
	} else {
		cfg.RootCAs = x509.NewCertPool()
	}
	return cfg
}

// liveVerifier does what crypto/tls does where InsecureSkipVerify is not set. It is immutable.
type liveVerifier struct {
	store *Store
	name  string // what to verify; empty: what the connection says
	// From the caller's config.
	time       func() time.Time
	roots      *x509.CertPool
	peer       func([][]byte, [][]*x509.Certificate) error
	connection func(tls.ConnectionState) error
}

// verify fits tls.Config.VerifyConnection. It runs on resumed connections too, should a driver bring its own cache.
func (v *liveVerifier) verify(cs tls.ConnectionState) error {
	chains, err := v.chains(cs.PeerCertificates, cmp.Or(v.name, cs.ServerName))
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: cs.PeerCertificates, Err: err}
	}
	if v.peer != nil && !cs.DidResume {
		raw := make([][]byte, len(cs.PeerCertificates))
		for i, cert := range cs.PeerCertificates {
			raw[i] = cert.Raw
		}
		if err := v.peer(raw, chains); err != nil {
			return err
		}
	}
	if v.connection != nil {
		cs.VerifiedChains = chains
		return v.connection(cs)
	}
	return nil
}

// verifyRejection fits tls.Config.EncryptedClientHelloRejectionVerify: the server must prove the public name of the ECH
// config, whatever else was to be verified, before its retry configs are believed.
func (v *liveVerifier) verifyRejection(cs tls.ConnectionState) error {
	if _, err := v.chains(cs.PeerCertificates, cs.ServerName); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: cs.PeerCertificates, Err: err}
	}
	return nil
}

// chains verifies what a server presents under the live bundle.
func (v *liveVerifier) chains(presented []*x509.Certificate, name string) ([][]*x509.Certificate, error) {
	b := v.store.Load()
	switch {
	case b == nil:
		return nil, ErrNoCertificate
	case name == "":
		return nil, errNoServerName // x509 would check no name at all
	case len(presented) == 0:
		return nil, errors.New("reload: no server certificate to verify")
	}
	opts := x509.VerifyOptions{Roots: b.rootsOver(v.roots), DNSName: name, Intermediates: x509.NewCertPool()}
	if v.time != nil {
		opts.CurrentTime = v.time()
	}
	for _, cert := range presented[1:] {
		opts.Intermediates.AddCert(cert)
	}
	chains, err := presented[0].Verify(opts)
	if err != nil {
		return nil, err
	}
	return fipsChains(chains)
}

// fipsChains leaves only the chains that crypto/tls allows in FIPS 140-3 mode.
func fipsChains(chains [][]*x509.Certificate) ([][]*x509.Certificate, error) {
	if !fips140.Enabled() {
		return chains, nil
	}
	refused := func(cert *x509.Certificate) bool { return !fipsAllows(cert) }
	chains = slices.DeleteFunc(chains, func(chain []*x509.Certificate) bool { return slices.ContainsFunc(chain, refused) })
	if len(chains) == 0 {
		return nil, errors.New("reload: no FIPS compatible certificate chains found")
	}
	return chains, nil
}

// fipsAllows reports whether FIPS 140-3 mode has a use for a certificate, by its key.
func fipsAllows(cert *x509.Certificate) bool {
	switch pub := cert.PublicKey.(type) {
	case *rsa.PublicKey:
		return pub.N.BitLen() >= fipsRSABits
	case *ecdsa.PublicKey:
		return usable(pub.Curve)
	case ed25519.PublicKey:
		return true
	default:
		return false
	}
}
