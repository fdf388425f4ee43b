package reload_test

// fuzz_test.go looks for files that load and should not, or take much memory, and for errors that say more than they may.
// The seeds run with every test; the search is go test -run '^$' -fuzz FuzzBundleFromPEM.

import (
	"bytes"
	"crypto/tls"
	"math/rand/v2"
	"regexp"
	"runtime"
	"testing"

	"github.com/seed45259946/reload"
)

// sayable is what an error may be: words of ours, and numbers.
var sayable = regexp.MustCompile(`^reload: (certificate|key|keypair|trust roots): (` +
	`malformed PEM: (empty|no certificate|no private key|` +
	`a private key but no certificate: are the files swapped\?|a certificate but no private key: are the files swapped\?|` +
	`line \d+: (DER, not PEM|byte order mark of UTF-16 text, want ASCII|NUL byte|damaged block|damaged BEGIN or END line|` +
	`BEGIN inside the block that starts at line \d+|END without BEGIN|END does not match the BEGIN at line \d+|` +
	`file ends inside a BEGIN line|file ends inside the block that starts here|` +
	`CERTIFICATE block with headers|(X509|TRUSTED) CERTIFICATE block, want CERTIFICATE|block of an unknown type|` +
	`second private key, the first is at line \d+|certificate \d+ does not parse( \(x509: [\w ]+\))?|` +
	`certificate \d+ is not signed by (its issuer in the (same|CA) file|itself, as it says)))|` +
	`private key is encrypted \(line \d+\): store it decrypted|` +
	`line \d+: ((OPENSSH|DSA) PRIVATE KEY is of no use in TLS|key cannot sign|` +
	`damaged, or no RSA, ECDSA \(P-256, P-384, P-521 as named curve\) or Ed25519 key)|` +
	`RSA key of \d+ bits, want \d+ to \d+|ECDSA key on P-224, want P-256, P-384 or P-521|want an RSA, ECDSA or Ed25519 key|` +
	`private key does not match the leaf(: it matches certificate \d+ of the file \(line \d+\): the leaf comes first)?)$`)

var beginCertificate = regexp.MustCompile(`(?m)^-----BEGIN CERTIFICATE-----[ \t\r]*$`)

func FuzzBundleFromPEM(f *testing.F) {
	ca := fixture("accept/ca.pem")
	for _, seed := range [][]byte{fixture("accept/fullchain3.pem"), edited(fullchain, crlf, withMark), fixture("accept/text.crt"),
		fixture("accept/sha1.pem"), fixture("accept/samename.crt"), fixture("refuse/trusted.crt")} {
		f.Add(seed, privkey, ca)
	}
	for _, file := range []string{"accept/haproxy.pem", "accept/pkcs12.pem", "accept/tls-combined.pem"} {
		f.Add(fixture(file), fixture(file), fixture(file))
	}
	for _, name := range []string{"accept/rsa2048", "accept/p384", "accept/ed25519", "accept/ecparam", "refuse/ed448", "refuse/explicit"} {
		f.Add(fixture(name+".crt"), fixture(name+".key"), []byte{})
	}
	f.Add(fullchain, fixture("refuse/encrypted.rsa.key"), ca)

	reload.BundleFromPEM(nil, nil, ca) // the system roots are read once
	f.Fuzz(func(t *testing.T, cert, key, ca []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b, err := reload.BundleFromPEM(cert, key, ca)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20+64*uint64(len(cert)+len(key)+len(ca)) {
			t.Errorf("takes %d bytes of memory for files of %d, %d and %d", used, len(cert), len(key), len(ca))
		}
		if err != nil {
			if !sayable.MatchString(err.Error()) {
				t.Errorf("says %q", err)
			}
			return
		}
		if len(cert) == 0 {
			return
		}
		if n := len(beginCertificate.FindAll(bytes.TrimPrefix(cert, []byte("\ufeff")), -1)); n != len(b.Cert.Certificate) {
			t.Errorf("%d certificates of %d", len(b.Cert.Certificate), n)
		}
		var chain []byte
		for _, der := range b.Cert.Certificate {
			chain = append(chain, encode("CERTIFICATE", der)...)
		}
		if _, err := tls.X509KeyPair(chain, bytes.TrimPrefix(key, []byte("\ufeff"))); err != nil {
			t.Errorf("crypto/tls refuses it: %v", err)
		}
		if b.RootCAs == nil || b.Cert.Leaf == nil {
			t.Error("incomplete")
		}
	})
}

// tape is a program that is read byte by byte. Past its end everything is 0.
type tape []byte

// next returns a number below n.
func (t *tape) next(n int) int {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return int(b) % n
}

// noise is a program of n steps or fewer.
func noise(seed uint64, n int) []byte {
	random, program := rand.New(rand.NewPCG(seed, 0)), make([]byte, n)
	for i := range program {
		program[i] = byte(random.Uint32())
	}
	return program
}
