package reload_test

// torn_test.go damages good files the way interrupted and overlapping writes do, at every place or at random ones. What
// loads must be made of whole certificates that some writer meant.

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// damages is how many random cases each spec tries. The seed of the suite, which is printed, repeats them.
const damages = 300

var _ = Describe("A torn file", func() {
	var random *rand.Rand
	BeforeEach(func() { random = rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0)) })

	// span returns a random part of a file, of up to a third of it in half of the cases.
	span := func(file []byte) (from, to int) {
		from, to = random.IntN(len(file)), random.IntN(len(file)+1)
		if random.IntN(2) == 0 {
			to = from + random.IntN(len(file)/3)
		}
		return min(from, to), min(max(from, to), len(file))
	}

	DescribeTable("of certificates loads only where it ends between two blocks",
		func(file []byte) {
			whole := certificatesIn(file)
			lengths := map[int]bool{}
			for n := range file {
				b, err := reload.BundleFromPEM(file[:n], privkey, nil)
				if err != nil {
					continue
				}
				blocks, ok := blocksBefore(file, n)
				Expect(ok).To(BeTrue(), "cut at %d", n)
				Expect(b.Cert.Certificate).To(Equal(whole[:blocks]), "cut at %d", n)
				lengths[blocks] = true
			}
			Expect(lengths).To(HaveLen(len(whole)))
		},
		Entry("leaf, intermediate, root", fixture("accept/fullchain3.pem")),
		Entry("Windows line ends", edited(fixture("accept/fullchain3.pem"), crlf)),
		Entry("text between the blocks", fixture("accept/showcerts.txt")[:lineStart("accept/showcerts.txt", "New, TLS")]),
	)

	It("of key and certificates loads only where it ends between two blocks", func() {
		for n := range combined {
			b, err := reload.BundleFromPEM(combined[:n], combined[:n], nil)
			if err == nil {
				blocks, ok := blocksBefore(combined, n)
				Expect(ok).To(BeTrue(), "cut at %d", n)
				Expect(b.Cert.Certificate).To(HaveLen(blocks-1), "cut at %d", n)
			}
		}
	})

	It("of a key never loads", func() {
		for n := range len(privkey) - 1 { // all but the last newline
			_, err := reload.BundleFromPEM(fullchain, privkey[:n], nil)
			Expect(err).To(MatchError(reload.ErrMalformedPEM), "cut at %d", n)
		}
	})

	It("of CAs loads only where it ends between two blocks", func() {
		file := fixture("accept/ca.pem")
		for n := range file {
			if b, err := reload.BundleFromPEM(nil, nil, file[:n]); err == nil {
				blocks, ok := blocksBefore(file, n)
				Expect(ok).To(BeTrue(), "cut at %d", n)
				Expect(b.ClientCAs.Equal(poolOf([]string{"pki/root.crt", "pki/other.crt"}[:blocks]...))).To(BeTrue(), "cut at %d", n)
			}
		}
	})

	DescribeTable("with a part overwritten never loads",
		func(fill byte, mayLose bool) {
			file := fixture("accept/fullchain3.pem")
			for range damages {
				from, to := span(file)
				damaged := bytes.Clone(file)
				for i := from; i < to; i++ {
					damaged[i] = fill
				}
				if b, err := reload.BundleFromPEM(damaged, privkey, nil); err == nil && !bytes.Equal(damaged, file) {
					Expect(mayLose).To(BeTrue(), "%d to %d", from, to)
					Expect(b.Cert.Certificate).To(BeSubsequenceOf(certificatesIn(file)), "%d to %d", from, to)
				}
			}
		},
		Entry("by NULs: a hole", byte(0), false),
		Entry("by ones", byte(0xff), true),
		Entry("by spaces, but for whole blocks", byte(' '), true),
		Entry("by newlines, but for whole blocks", byte('\n'), true),
	)

	It("with a part missing loads only without whole blocks", func() {
		file := fixture("accept/fullchain3.pem")
		for range damages {
			from, to := span(file)
			if b, err := reload.BundleFromPEM(slices.Concat(file[:from], file[to:]), privkey, nil); err == nil {
				Expect(b.Cert.Certificate).To(BeSubsequenceOf(certificatesIn(file)), "%d to %d", from, to)
			}
		}
	})

	DescribeTable("half overwritten by a renewal that kept its keys never loads with a corrupt certificate",
		func(leafKey, caKey crypto.Signer, withRoot, withCAs bool) {
			root := reloadtest.NewCA(reloadtest.Options{Signer: keyIn("pki/root.key")})
			ca, tempted := root.Intermediate(reloadtest.Options{Signer: caKey}), 0
			for range damages / 30 {
				old, renewed := ca.Issue(reloadtest.Options{Signer: leafKey}), ca.Renew(reloadtest.Options{}).Issue(reloadtest.Options{Signer: leafKey})
				before, after := old.CertPEM, renewed.CertPEM
				var cas []byte
				if withRoot {
					before, after = slices.Concat(before, root.PEM()), slices.Concat(after, root.PEM())
				}
				if withCAs {
					cas = root.PEM()
				}
				whole := BeElementOf(slices.Concat(certificatesIn(before), certificatesIn(after)))
				for range 30 {
					n := random.IntN(len(after))
					file := overwritten(before, after, n)
					b, err := reload.BundleFromPEM(file, old.KeyPEM, cas)
					if err == nil {
						Expect(b.Cert.Certificate).To(HaveEach(whole), "cut at %d", n)
					} else if _, err := tls.X509KeyPair(file, old.KeyPEM); err == nil {
						tempted++
					}
				}
			}
			Expect(tempted).NotTo(BeZero(), "crypto/tls accepts some")
		},
		Entry("ECDSA, the root at the end", keyIn("accept/privkey.pem"), keyIn("pki/other.key"), true, false),
		Entry("ECDSA, the root in the CA file", keyIn("accept/privkey.pem"), keyIn("pki/other.key"), false, true),
		Entry("RSA, the root at the end", keyIn("accept/rsa2048.key"), keyIn("accept/rsa2048.key"), true, false),
		Entry("RSA, the root in the CA file", keyIn("accept/rsa2048.key"), keyIn("accept/rsa2048.key"), false, true),
	)

	DescribeTable("half overwritten by a CA that kept its key never loads with a corrupt CA",
		func(key crypto.Signer) {
			old := reloadtest.NewCA(reloadtest.Options{Signer: key})
			for range damages / 30 {
				renewed := old.Renew(reloadtest.Options{})
				for range 30 {
					n := random.IntN(len(renewed.PEM()))
					b, err := reload.BundleFromPEM(nil, nil, overwritten(old.PEM(), renewed.PEM(), n))
					if err == nil {
						Expect(b.ClientCAs.Equal(old.Pool()) || b.ClientCAs.Equal(renewed.Pool())).To(BeTrue(), "cut at %d", n)
					}
				}
			}
		},
		Entry("ECDSA", keyIn("pki/other.key")),
		Entry("RSA", keyIn("accept/rsa2048.key")),
	)
})

// blocksBefore returns how many blocks of a good file end before an offset, and whether none is cut by it.
func blocksBefore(file []byte, n int) (blocks int, whole bool) {
	const begin, end = "-----BEGIN ", "-----END "
	for at := 0; ; blocks++ {
		start := bytes.Index(file[at:], []byte(begin))
		if start < 0 || at+start >= n {
			return blocks, true
		}
		stop := at + start + bytes.Index(file[at+start:], []byte(end))
		at = stop + len(end) + bytes.Index(file[stop+len(end):], []byte("-----")) + len("-----")
		if n < at {
			return blocks, false
		}
	}
}

// overwritten is what a file holds when n bytes of its new content are written.
func overwritten(old, new []byte, n int) []byte {
	return slices.Concat(new[:n], old[min(n, len(old)):])
}

// lineStart returns where in a fixture a line with a text starts.
func lineStart(name, text string) int {
	file := fixture(name)
	return 1 + bytes.LastIndexByte(file[:bytes.Index(file, []byte(text))], '\n')
}

// certificatesIn returns the certificates of a good file.
func certificatesIn(file []byte) (chain [][]byte) {
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			chain = append(chain, block.Bytes)
		}
	}
	return chain
}

// keyIn returns the key in a plain fixture.
func keyIn(name string) crypto.Signer {
	key, err := x509.ParsePKCS8PrivateKey(ders(name)[0])
	if err != nil {
		panic(err)
	}
	return key.(crypto.Signer)
}

// BeSubsequenceOf succeeds if the actual certificates stand in whole in the same order.
func BeSubsequenceOf(whole [][]byte) OmegaMatcher {
	return WithTransform(func(part [][]byte) bool {
		rest := whole
		for _, der := range part {
			i := slices.IndexFunc(rest, func(d []byte) bool { return bytes.Equal(d, der) })
			if i < 0 {
				return false
			}
			rest = rest[i+1:]
		}
		return true
	}, BeTrue())
}
