package reload

// client.go makes the tls.Config of one dial: a snapshot of the live generation that crypto/tls itself verifies with.

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"slices"
)

// ClientConfig returns base with the trust roots and the identity of the live bundle, for one dial: ask for a new config
// each time, and every connection follows the rotation that came before it. base nil is the empty config. It is cloned,
// never changed, and every field not named here is kept, hooks among them. Verification is crypto/tls's own; set
// ServerName, a name or an IP address, as for any client, where the dialler does not.
//
//   - RootCAs are the bundle's. Where the bundle has no CA file they are base's, if set: system roots never widen the
//     trust of a caller who named a pool.
//   - The bundle's keypair is sent as Config.Certificates would be: not to a server that names only other CAs, as
//     [Store.GetClientCertificate] has it. Certificates and GetClientCertificate of base are not used. A trust-only
//     bundle sends none.
//   - ClientSessionCache, where base has one, is used with keys of the bundle's identity: a session made under one
//     identity is never resumed under another. A change of trust roots alone keeps sessions whose root is still there.
//
// Before anything was loaded, and after the store was emptied, the config refuses every server with [ErrNoCertificate]
// in the handshake, whatever base allows.
func (s *Store) ClientConfig(base *tls.Config) *tls.Config {
	return s.Load().clientConfig(base)
}

// clientConfig is ClientConfig for the generation b, nil where there is none.
func (b *Bundle) clientConfig(base *tls.Config) *tls.Config {
	cfg := cloneConfig(base)
	cfg.Certificates = nil
	if b == nil {
		refuseServers(cfg)
		return cfg
	}
	cfg.RootCAs = b.rootsOver(cfg.RootCAs)
	cfg.GetClientCertificate = func(req *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return b.forRequest(req), nil
	}
	if cfg.ClientSessionCache != nil {
		cfg.ClientSessionCache = identityCache{cfg.ClientSessionCache, "reload/" + b.identity() + "/"}
	}
	return cfg
}

// cloneConfig returns a copy of base that is the caller's to change, and to append protocols to as net/http does: Clone
// shares the slices, and whatever room is behind them.
func cloneConfig(base *tls.Config) *tls.Config {
	if base == nil {
		return new(tls.Config)
	}
	cfg := base.Clone()
	cfg.NextProtos = slices.Clip(cfg.NextProtos)
	return cfg
}

// rootsOver returns the pool to verify servers with: what the CA file says, and without one what the caller chose.
func (b *Bundle) rootsOver(base *x509.CertPool) *x509.CertPool {
	if base != nil && (b.RootCAs == nil || b.RootCAs == systemTrust().roots) {
		return base
	}
	return b.RootCAs
}

// identity tells one client identity from another; a bundle made by hand may have no Fingerprint.
func (b *Bundle) identity() string {
	leaf := b.leafDER()
	if leaf == nil {
		return "none"
	}
	sum := sha256.Sum256(leaf)
	return hex.EncodeToString(sum[:])
}

// refuseServers makes every handshake under cfg end with ErrNoCertificate. The reason can only come from the callbacks,
// which run after crypto/tls's own verification, hence InsecureSkipVerify. Should somebody change a copy of cfg, the
// empty pool trusts nobody, and no session of another config is resumed past VerifyPeerCertificate.
func refuseServers(cfg *tls.Config) {
	refuse := func(tls.ConnectionState) error { return ErrNoCertificate }
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = refuse
	cfg.EncryptedClientHelloRejectionVerify = refuse
	cfg.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { return ErrNoCertificate }
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return nil, ErrNoCertificate }
	cfg.RootCAs = x509.NewCertPool()
	cfg.ClientSessionCache, cfg.SessionTicketsDisabled = nil, true
}

// identityCache keeps the sessions of one identity apart in a cache that others share. The identity is fixed when the
// config is made, not looked up: TLS 1.3 tickets arrive after the handshake, so one of an old connection would be filed
// under the identity that came after it.
type identityCache struct {
	tls.ClientSessionCache
	prefix string
}

func (c identityCache) Get(key string) (*tls.ClientSessionState, bool) {
	return c.ClientSessionCache.Get(c.prefix + key)
}

func (c identityCache) Put(key string, session *tls.ClientSessionState) {
	c.ClientSessionCache.Put(c.prefix+key, session)
}
