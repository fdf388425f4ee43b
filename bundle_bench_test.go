package reload_test

// bundle_bench_test.go measures what a handshake pays for its certificate and what a reload pays for its checks, each
// beside the least that a program could do.

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed45259946/reload"
)

// BenchmarkGetCertificate calls the hook as a method value, which is what crypto/tls is given, beside a bare atomic load
// that is called in the same way, and a read lock.
func BenchmarkGetCertificate(b *testing.B) {
	bundle, err := reload.BundleFromPEM(fullchain, privkey, nil)
	succeed(b, err)
	store := reload.NewStore()
	store.Store(bundle)

	var bare atomically
	bare.live.Store(bundle)
	var locked struct {
		sync.RWMutex
		live *reload.Bundle
	}
	locked.live = bundle

	for _, c := range []struct {
		name string
		hook func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	}{
		{"reload", store.GetCertificate},
		{"atomic", bare.getCertificate},
		{"rwmutex", func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			locked.RLock()
			defer locked.RUnlock()
			if locked.live != nil {
				return &locked.live.Cert, nil
			}
			return nil, reload.ErrNoCertificate
		}},
	} {
		hello := &tls.ClientHelloInfo{ServerName: "localhost"}
		b.Run("serial/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.hook(hello)
			}
		})
		b.Run("parallel/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.hook(hello)
				}
			})
		})
	}
}

// atomically is the least that such a hook can be.
type atomically struct{ live atomic.Pointer[reload.Bundle] }

func (a *atomically) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if live := a.live.Load(); live != nil {
		return &live.Cert, nil
	}
	return nil, reload.ErrNoCertificate
}

// BenchmarkLoadBundle reads and checks a pair, and a CA file that is live already, beside the standard library, which
// checks less: it parses neither intermediates nor, where it drops a damaged block, says so.
func BenchmarkLoadBundle(b *testing.B) {
	for _, c := range []struct{ name, cert, key string }{
		{"P-256", "accept/fullchain.pem", "accept/privkey.pem"},
		{"RSA2048", "accept/rsa2048.crt", "accept/rsa2048.key"},
	} {
		p := reload.Paths{Cert: filepath.Join("testdata", c.cert), Key: filepath.Join("testdata", c.key)}
		withCA := p
		withCA.CA = filepath.Join("testdata", "accept/ca.pem")
		live, err := reload.LoadBundle(withCA)
		succeed(b, err)

		b.Run(c.name+"/reload", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := reload.LoadBundle(p)
				succeed(b, err)
			}
		})
		b.Run(c.name+"/standard", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := tls.LoadX509KeyPair(p.Cert, p.Key)
				succeed(b, err)
			}
		})
		b.Run(c.name+"+CA/reload", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := reload.LoadBundle(withCA)
				succeed(b, err)
			}
		})
		b.Run(c.name+"+CA/standard", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := tls.LoadX509KeyPair(p.Cert, p.Key)
				succeed(b, err)
				pem, err := os.ReadFile(withCA.CA)
				succeed(b, err)
				roots, err := x509.SystemCertPool()
				succeed(b, err)
				clients := x509.NewCertPool()
				if !roots.AppendCertsFromPEM(pem) || !clients.AppendCertsFromPEM(pem) {
					b.Fatal("no CA")
				}
			}
		})
		runtime.KeepAlive(live)
	}
}
