package reload

// trust.go makes the pools of a CA file: one pair for each content, shared by every bundle that has it.

import (
	"crypto/sha256"
	"crypto/x509"
	"runtime"
	"sync"
	"weak"
)

// trust is what a CA file says, as pools. It is immutable once made.
type trust struct {
	cas     []*x509.Certificate // the CA file
	roots   *x509.CertPool      // to verify servers: the CA file, and the system roots unless it stands alone
	clients *x509.CertPool      // to verify clients: the CA file alone; nil without one
}

// systemTrust is the trust of a bundle without a CA file. The system roots are read once per process, as crypto/x509
// does itself; a machine without any has an empty pool, which trusts nobody.
var systemTrust = sync.OnceValue(func() *trust {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	return &trust{roots: roots}
})

// cas are the certificates of the CA file.
func (b *Bundle) cas() []*x509.Certificate {
	if b.trust == nil {
		return nil
	}
	return b.trust.cas
}

// trustKey names a content: the certificates in order, and whether the system roots stay out.
type trustKey struct {
	sum   [sha256.Size]byte
	alone bool
}

// trusts holds the pools that some bundle still uses. A clone of the system roots is tens of kilobytes, and processes
// with many bundles have few CA files.
var trusts struct {
	sync.Mutex // guards live
	live       map[trustKey]weak.Pointer[trust]
}

// keyOf names the content that cas is.
func keyOf(cas []*x509.Certificate, alone bool) trustKey {
	h := sha256.New()
	for _, c := range cas {
		h.Write(c.Raw)
	}
	key := trustKey{alone: alone}
	h.Sum(key.sum[:0])
	return key
}

// inUse reports whether some bundle has the pools of these CAs, which then need no check: that of all public roots
// takes as long as a hundred handshakes.
func inUse(cas []*x509.Certificate, alone bool) bool {
	trusts.Lock()
	defer trusts.Unlock()
	return trusts.live[keyOf(cas, alone)].Value() != nil
}

// trustIn returns the pools of a CA file; none at all is the system's trust.
func trustIn(cas []*x509.Certificate, alone bool) *trust {
	if len(cas) == 0 {
		return systemTrust()
	}
	key := keyOf(cas, alone)
	trusts.Lock()
	defer trusts.Unlock()
	if t := trusts.live[key].Value(); t != nil {
		return t
	}
	t := &trust{cas: cas, roots: x509.NewCertPool(), clients: x509.NewCertPool()}
	if !alone {
		t.roots = systemTrust().roots.Clone()
	}
	for _, c := range cas {
		t.roots.AddCert(c)
		t.clients.AddCert(c)
	}
	if trusts.live == nil {
		trusts.live = map[trustKey]weak.Pointer[trust]{}
	}
	trusts.live[key] = weak.Make(t)
	runtime.AddCleanup(t, forgetTrust, key)
	return t
}

// forgetTrust runs after the last bundle with these pools is gone.
func forgetTrust(key trustKey) {
	trusts.Lock()
	defer trusts.Unlock()
	if trusts.live[key].Value() == nil {
		delete(trusts.live, key)
	}
}
