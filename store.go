package reload

// store.go publishes bundles: one atomic pointer for those who read, and those who want to be told of a swap. It knows
// nothing of files: whatever can produce a Bundle can publish it here and has every hook.

import (
	"crypto/tls"
	"slices"
	"sync"
	"sync/atomic"
)

// Store holds the live [Bundle]. The zero Store is empty and ready to use; it must not be copied after first use. All
// methods may be called at any time from any goroutine.
type Store struct {
	live atomic.Pointer[Bundle]
	pair atomic.Pointer[tls.Certificate] // the keypair of live, nil where it has none: all that GetCertificate reads

	mu     sync.Mutex // orders publications, and guards relays; readers never take it
	relays []*relay
}

// NewStore returns an empty Store.
func NewStore() *Store { return new(Store) }

// Load returns the live bundle, nil while there is none. It is one atomic load: no lock, no allocation.
func (s *Store) Load() *Bundle { return s.live.Load() }

// Store publishes b: handshakes that begin after it returns use b. A nil b empties the store. The bundle, and all it
// points to, must not be changed afterwards.
func (s *Store) Store(b *Bundle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pair.Store(b.keypair()) // first: no handshake that counts as made under b shows an older leaf
	s.live.Store(b)
	for _, r := range s.relays {
		r.tell(b)
	}
}

// Subscribe has fn called with every bundle published from now on, nil where the store was emptied: in order, one call
// at a time, on a goroutine of its own, holding nothing. A slow fn delays no publication and no other subscriber; a panic
// in it is logged to [slog.Default]. After stop returns no call begins; one already under way may still be running. stop
// may be called more than once, also from within fn.
func (s *Store) Subscribe(fn func(*Bundle)) (stop func()) {
	r := &relay{fn: fn}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relays = append(s.relays, r)
	return func() {
		r.close()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.relays = slices.DeleteFunc(s.relays, func(o *relay) bool { return o == r })
	}
}

// GetCertificate fits [tls.Config].GetCertificate: it returns the live leaf and its chain whatever name the client asks
// for, and [ErrNoCertificate] before there is one. It is one atomic load and allocates nothing. crypto/tls asks it only
// where Config.Certificates is empty or the client names a server: leave Certificates empty.
func (s *Store) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := s.pair.Load(); pair != nil {
		return pair, nil
	}
	return nil, ErrNoCertificate
}

// GetClientCertificate fits [tls.Config].GetClientCertificate: it returns the live keypair. Like a certificate in
// Config.Certificates, it is not sent to a server that names only other CAs or signature algorithms, so that a server to
// which a client certificate is optional goes on; what it gets is no certificate, as it does from a trust-only bundle.
// [ErrNoCertificate] before anything was loaded. It never returns nil without an error, on which crypto/tls would panic.
//
// A config with a ClientSessionCache resumes under the identity it first connected with and does not ask again;
// [Store.ClientConfig] has no such trap.
func (s *Store) GetClientCertificate(req *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	b := s.live.Load()
	if b == nil {
		return nil, ErrNoCertificate
	}
	return b.forRequest(req), nil
}

// keypair returns the keypair of b, nil where there is none.
func (b *Bundle) keypair() *tls.Certificate {
	if b == nil || len(b.Cert.Certificate) == 0 {
		return nil
	}
	return &b.Cert
}

// forRequest returns the keypair if it is of use to the server that sends req, and otherwise the empty Certificate. Some
// callers only want to see the keypair and have no request.
func (b *Bundle) forRequest(req *tls.CertificateRequestInfo) *tls.Certificate {
	if len(b.Cert.Certificate) == 0 || req != nil && req.SupportsCertificate(&b.Cert) != nil {
		return new(tls.Certificate)
	}
	return &b.Cert
}
