package reload_test

// bundle_test.go says what a bundle holds, whom it trusts, and that nothing printed of it is a secret.

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("Paths", func() {
	It("are those of a mounted Secret with FromDir", func() {
		Expect(reload.FromDir("/etc/tls")).To(Equal(reload.Paths{
			Cert: filepath.FromSlash("/etc/tls/tls.crt"), Key: filepath.FromSlash("/etc/tls/tls.key"), CA: filepath.FromSlash("/etc/tls/ca.crt"),
		}))
	})

	DescribeTable("that name no bundle are refused",
		func(p reload.Paths, text string) {
			b, err := reload.LoadBundle(p)
			Expect(err).To(MatchError(text))
			Expect(b).To(BeNil())
		},
		Entry("none", reload.Paths{}, "reload: no paths given"),
		Entry("CAOnly alone", reload.Paths{CAOnly: true}, "reload: no paths given"),
		Entry("no key", reload.Paths{Cert: "tls.crt"}, "reload: certificate and key come together: one path is empty"),
		Entry("no certificate", reload.Paths{Key: "tls.key", CA: "ca.crt"}, "reload: certificate and key come together: one path is empty"),
		Entry("CAOnly without a CA file", reload.Paths{Cert: "tls.crt", Key: "tls.key", CAOnly: true}, "reload: trust roots: CAOnly without a CA path"),
	)

	It("may name one file for certificate and key, which an error then names once", func() {
		path := place(GinkgoT().TempDir(), "tls.pem", combined)
		b, err := reload.LoadBundle(reload.Paths{Cert: path, Key: path})
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Cert.Certificate).To(Equal(certificatesIn(fullchain)))

		place(filepath.Dir(path), "tls.pem", append(fixture("pki/other.key"), fullchain...))
		_, err = reload.LoadBundle(reload.Paths{Cert: path, Key: path})
		Expect(err).To(MatchError("reload: keypair " + path + ": private key does not match the leaf"))
	})

	It("may name one file for everything", func() {
		path := place(GinkgoT().TempDir(), "all.pem", combined)
		b, err := reload.LoadBundle(reload.Paths{Cert: path, Key: path, CA: path, CAOnly: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(b.RootCAs.Equal(poolOf("pki/leaf.crt", "pki/intermediate.crt"))).To(BeTrue())
	})

	It("may be relative to the working directory", func() {
		p := placePair(fullchain, privkey, nil)
		GinkgoT().Chdir(filepath.Dir(p.Cert))
		b, err := reload.LoadBundle(reload.Paths{Cert: "tls.crt", Key: "./tls.key"})
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Cert.Certificate).To(Equal(certificatesIn(fullchain)))
	})
})

var _ = Describe("Bundle", func() {
	It("describes its leaf", func() {
		b, err := reload.BundleFromPEM(fullchain, privkey, nil)
		Expect(err).NotTo(HaveOccurred())
		sum := sha256.Sum256(ders("pki/leaf.crt")[0])
		Expect(b.Fingerprint).To(Equal(hex.EncodeToString(sum[:])))
		Expect(b.Cert.Leaf.Raw).To(Equal(ders("pki/leaf.crt")[0]))
		Expect(b.NotBefore).To(Equal(b.Cert.Leaf.NotBefore))
		Expect(b.NotAfter).To(Equal(b.Cert.Leaf.NotAfter))
	})

	It("is not affected by what becomes of the slices it was made from", func() {
		cert, key, ca := bytes.Clone(fullchain), bytes.Clone(privkey), fixture("accept/ca.pem")
		b, err := reload.BundleFromPEM(cert, key, ca)
		Expect(err).NotTo(HaveOccurred())
		clear(cert)
		clear(key)
		clear(ca)
		Expect(b.Cert.Certificate).To(Equal(certificatesIn(fullchain)))
		Expect(b.ClientCAs.Equal(poolOf("pki/root.crt", "pki/other.crt"))).To(BeTrue())
		Expect(handshakeBoth(b, tls.VersionTLS13)).To(Succeed())
	})

	DescribeTable("loads whatever the validity of the leaf",
		func(o reloadtest.Options) {
			k := reloadtest.NewCA(reloadtest.Options{}).Issue(o)
			b, err := reload.BundleFromPEM(k.CertPEM, k.KeyPEM, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(b.NotAfter).To(BeTemporally("~", k.Leaf.NotAfter))
		},
		Entry("expired", reloadtest.Options{NotAfter: time.Now().Add(-time.Hour)}),
		Entry("not yet valid", reloadtest.Options{NotBefore: time.Now().Add(time.Hour)}),
	)

	DescribeTable("refuses RSA keys of sizes that peers refuse",
		func(bits int, cause string) {
			_, err := reload.BundleFromPEM(rsaLeaf(bits), privkey, nil)
			Expect(err).To(MatchError("reload: " + cause))
		},
		Entry("8193 bits", 8193, "certificate: RSA key of 8193 bits, want 1024 to 8192"),
		Entry("8192 bits, but for the key", 8192, "keypair: private key does not match the leaf"),
		Entry("1024 bits, but for the key", 1024, "keypair: private key does not match the leaf"),
		Entry("1023 bits", 1023, "certificate: RSA key of 1023 bits, want 1024 to 8192"),
	)

	DescribeTable("asks for RSA keys that FIPS 140-3 allows where it is in force", Label("fips"),
		func(bits int, cause string) {
			if os.Getenv("GODEBUG") != fipsOnly {
				Skip("FIPS 140-3 is not in force")
			}
			_, err := reload.BundleFromPEM(rsaLeaf(bits), privkey, nil)
			Expect(err).To(MatchError("reload: " + cause))
		},
		Entry("2047 bits", 2047, "certificate: RSA key of 2047 bits, want 2048 to 8192"),
		Entry("2048 bits, but for the key", 2048, "keypair: private key does not match the leaf"),
	)

	It("works where nothing but FIPS 140-3 cryptography is allowed", func(ctx SpecContext) {
		rerun(ctx, "fips", func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "GODEBUG="+fipsOnly) })
	}, SpecTimeout(2*time.Minute))

	It("stays as it is while 64 goroutines use it and 500 others are published", func(ctx SpecContext) {
		bundles := rotations(8)
		store := reload.NewStore()
		store.Store(bundles[0])
		done := make(chan error)
		stop := make(chan struct{})
		var users sync.WaitGroup
		for range 64 {
			users.Go(func() {
				for {
					b := store.Load()
					_ = fmt.Sprintf("%v %s %s", b, b.Fingerprint, b.NotAfter)
					select {
					case done <- mutual(store):
					case <-stop:
						return
					}
				}
			})
		}
		for i := range 500 {
			if i%4 == 0 {
				Expect(<-done).To(Succeed())
			}
			store.Store(bundles[i%len(bundles)])
		}
		close(stop)
		users.Wait()
		for _, b := range bundles {
			sum := sha256.Sum256(b.Cert.Certificate[0])
			Expect(b.Fingerprint).To(Equal(hex.EncodeToString(sum[:])))
			Expect(b.Cert.Leaf.Raw).To(Equal(b.Cert.Certificate[0]))
			Expect(b.ClientCAs).NotTo(BeIdenticalTo(b.RootCAs))
		}
	}, SpecTimeout(2*time.Minute))
})

var _ = Describe("Trust", Label("fips"), func() {
	system, err := x509.SystemCertPool()
	if err != nil {
		system = x509.NewCertPool()
	}
	with := func(names ...string) *x509.CertPool {
		pool := system.Clone()
		for _, name := range names {
			pool.AddCert(certificate(name))
		}
		return pool
	}
	ca := fixture("accept/ca.pem")

	DescribeTable("without a CA file is that of the system, and no client's",
		func(ca []byte) {
			one, err := reload.LoadBundle(placePair(fullchain, privkey, ca))
			Expect(err).NotTo(HaveOccurred())
			two, err := reload.BundleFromPEM(combined, combined, ca)
			Expect(err).NotTo(HaveOccurred())
			for _, b := range []*reload.Bundle{one, two} {
				Expect(b.RootCAs.Equal(system)).To(BeTrue())
				Expect(b.ClientCAs).To(BeNil())
			}
			Expect(one.RootCAs).To(BeIdenticalTo(two.RootCAs), "one copy serves all")
		},
		Entry("no path", nil),
		Entry("an empty file", []byte{}),
		Entry("a blank file", []byte(" \r\n\t\n")),
	)

	DescribeTable("tolerates a CA file that is missing",
		func(path string) {
			p := placePair(fullchain, privkey, nil)
			p.CA = filepath.Join(filepath.Dir(p.Cert), path)
			b, err := reload.LoadBundle(p)
			Expect(err).NotTo(HaveOccurred())
			Expect(b.ClientCAs).To(BeNil())
			Expect(b.RootCAs.Equal(system)).To(BeTrue())
		},
		Entry("itself", "ca.crt"),
		Entry("with its directory", "ca/ca.crt"),
	)

	It("does not tolerate a link to a CA file that is missing", func() {
		p := placePair(fullchain, privkey, nil)
		p.CA = filepath.Join(filepath.Dir(p.Cert), "ca.crt")
		Expect(os.Symlink("gone", p.CA)).To(Succeed())
		_, err := reload.LoadBundle(p)
		Expect(err).To(MatchError(fs.ErrNotExist))
		Expect(err).To(MatchError("reload: trust roots: open " + p.CA + ": no such file or directory"))
	})

	It("adds the CA file to the system's for servers, and takes it alone for clients", func() {
		fromFiles, err := reload.LoadBundle(placePair(fullchain, privkey, ca))
		Expect(err).NotTo(HaveOccurred())
		fromPEM, err := reload.BundleFromPEM(fullchain, privkey, ca)
		Expect(err).NotTo(HaveOccurred())
		for _, b := range []*reload.Bundle{fromFiles, fromPEM} {
			Expect(b.RootCAs.Equal(with("pki/root.crt", "pki/other.crt"))).To(BeTrue())
			Expect(b.ClientCAs.Equal(poolOf("pki/root.crt", "pki/other.crt"))).To(BeTrue())
		}
	})

	It("shares the pools of equal CA files, and never those of others", func() {
		one, err := reload.BundleFromPEM(fullchain, privkey, ca)
		Expect(err).NotTo(HaveOccurred())
		two, err := reload.BundleFromPEM(combined, combined, edited(ca, crlf))
		Expect(err).NotTo(HaveOccurred())
		other, err := reload.BundleFromPEM(fullchain, privkey, fixture("pki/root.crt"))
		Expect(err).NotTo(HaveOccurred())
		Expect(two.RootCAs).To(BeIdenticalTo(one.RootCAs))
		Expect(two.ClientCAs).To(BeIdenticalTo(one.ClientCAs))
		Expect(other.RootCAs.Equal(with("pki/root.crt"))).To(BeTrue())
		Expect(other.ClientCAs.Equal(poolOf("pki/root.crt"))).To(BeTrue())
	})

	It("is the CA file alone with CAOnly", func() {
		p := placePair(fullchain, privkey, ca)
		p.CAOnly = true
		b, err := reload.LoadBundle(p)
		Expect(err).NotTo(HaveOccurred())
		Expect(b.RootCAs.Equal(poolOf("pki/root.crt", "pki/other.crt"))).To(BeTrue())
		Expect(b.ClientCAs.Equal(b.RootCAs)).To(BeTrue())
	})

	DescribeTable("with CAOnly needs a CA file",
		func(ca []byte, cause string) {
			p := placePair(fullchain, privkey, ca)
			p.CA, p.CAOnly = filepath.Join(filepath.Dir(p.Cert), "ca.crt"), true
			_, err := reload.LoadBundle(p)
			Expect(err).To(MatchError("reload: trust roots" + strings.ReplaceAll(cause, "PATH", p.CA)))
		},
		Entry("missing", nil, ": open PATH: no such file or directory"),
		Entry("empty", []byte{}, " PATH: malformed PEM: empty"),
		Entry("blank", []byte("\n\n"), " PATH: malformed PEM: empty"),
	)

	It("alone makes a bundle without a keypair", func() {
		p := placePair(fullchain, privkey, ca)
		for _, p := range []reload.Paths{{CA: p.CA}, {CA: p.CA, CAOnly: true}} {
			b, err := reload.LoadBundle(p)
			Expect(err).NotTo(HaveOccurred())
			Expect(b.Cert).To(BeZero())
			Expect(b.Fingerprint).To(BeEmpty())
			Expect(b.NotBefore).To(BeZero())
			Expect(b.NotAfter).To(BeZero())
			Expect(b.ClientCAs.Equal(poolOf("pki/root.crt", "pki/other.crt"))).To(BeTrue())
		}
		b, err := reload.BundleFromPEM(nil, nil, ca)
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Cert).To(BeZero())
		Expect(b.RootCAs.Equal(with("pki/root.crt", "pki/other.crt"))).To(BeTrue())
	})

	DescribeTable("alone needs a CA file",
		func(ca []byte, cause string) {
			_, err := reload.LoadBundle(reload.Paths{CA: place(GinkgoT().TempDir(), "ca.crt", ca)})
			Expect(err).To(MatchError(HaveSuffix(cause)))
		},
		Entry("empty", []byte{}, "ca.crt: malformed PEM: empty"),
		Entry("blank", []byte("\n"), "ca.crt: malformed PEM: empty"),
	)

	It("needs something to come from", func() {
		_, err := reload.BundleFromPEM(nil, nil, nil)
		Expect(err).To(MatchError("reload: certificate: malformed PEM: empty"))
		_, err = reload.BundleFromPEM(nil, privkey, ca)
		Expect(err).To(MatchError("reload: certificate: malformed PEM: empty"))
		_, err = reload.BundleFromPEM(fullchain, nil, ca)
		Expect(err).To(MatchError("reload: key: malformed PEM: empty"))
		_, err = reload.LoadBundle(reload.Paths{CA: filepath.Join(GinkgoT().TempDir(), "ca.crt")})
		Expect(err).To(MatchError(fs.ErrNotExist))
	})

	DescribeTable("takes from a CA file exactly the certificates in it",
		func(ca []byte, names ...string) {
			b, err := reload.BundleFromPEM(nil, nil, ca)
			Expect(err).NotTo(HaveOccurred())
			Expect(b.ClientCAs.Equal(poolOf(names...))).To(BeTrue())
		},
		Entry("one", fixture("pki/root.crt"), "pki/root.crt"),
		Entry("one, twice", fixture("pki/root.crt", "pki/root.crt"), "pki/root.crt"),
		Entry("comments", ca, "pki/root.crt", "pki/other.crt"),
		Entry("a text dump", fixture("accept/text.crt"), "pki/leaf.crt", "pki/intermediate.crt"),
		Entry("trailing blank lines", edited(ca, after("\n\n \n")), "pki/root.crt", "pki/other.crt"),
		Entry("spaces at line ends", edited(ca, replace("\n", "  \n")), "pki/root.crt", "pki/other.crt"),
		Entry("no final newline", unfinished(ca), "pki/root.crt", "pki/other.crt"),
		Entry("Windows line ends and byte order mark", edited(ca, crlf, withMark), "pki/root.crt", "pki/other.crt"),
		Entry("an intermediate alone", fixture("pki/intermediate.crt"), "pki/intermediate.crt"),
		Entry("a private key beside it", fixture("pki/root.key", "pki/root.crt"), "pki/root.crt"),
		Entry("another algorithm's leaf", fixture("refuse/ed448.crt", "pki/root.crt"), "refuse/ed448.crt", "pki/root.crt"),
	)

	DescribeTable("refuses a CA file that is damaged anywhere, rather than trust a part of it",
		func(ca []byte, cause string) {
			p := placePair(fullchain, privkey, ca)
			_, err := reload.LoadBundle(p)
			Expect(err).To(MatchError("reload: trust roots " + p.CA + ": " + malformed + cause))
			Expect(err).To(MatchError(reload.ErrMalformedPEM))
			Expect(overlap(cause, ca)).To(BeEmpty())
			_, err = reload.BundleFromPEM(nil, nil, ca)
			Expect(err).To(MatchError("reload: trust roots: " + malformed + cause))
		},
		Entry("no PEM", []byte("hunter2\n"), "no certificate"),
		Entry("a private key", privkey, "a private key but no certificate: are the files swapped?"),
		Entry("random bytes in a block between two CAs", bytes.Join([][]byte{fixture("pki/root.crt"), fixture("pki/other.crt")}, encode("CERTIFICATE", []byte("hunter2hunter2"))),
			fmt.Sprintf("line %d: certificate 2 does not parse (x509: malformed certificate)", 1+lineOf(fixture("pki/root.crt"), 1, "END"))),
		Entry("the first without END", edited(fixture("pki/root.crt", "pki/other.crt"), replaceNth(1, "-----END CERTIFICATE-----\n", "")),
			fmt.Sprintf("line %d: BEGIN inside the block that starts at line 1", lineOf(fixture("pki/root.crt"), 1, "END"))),
		Entry("joined without a newline", append(unfinished(fixture("pki/root.crt")), fixture("pki/other.crt")...),
			fmt.Sprintf("line %d: damaged BEGIN or END line", lineOf(fixture("pki/root.crt"), 1, "END"))),
		Entry("a TRUSTED CERTIFICATE", fixture("pki/root.crt", "refuse/trusted.crt"),
			fmt.Sprintf("line %d: TRUSTED CERTIFICATE block, want CERTIFICATE", 1+lineOf(fixture("pki/root.crt"), 1, "END"))),
		Entry("an X509 CERTIFICATE", edited(ca, replace(" CERTIFICATE", " X509 CERTIFICATE")), "line 4: X509 CERTIFICATE block, want CERTIFICATE"),
		Entry("headers", edited(ca, replaceNth(1, "-----BEGIN CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\nPassphrase: hunter2\n\n")), "line 4: CERTIFICATE block with headers"),
		Entry("a type that is a secret", edited(ca, before(string(encode("hunter2 SECRET", nil)))), "line 1: block of an unknown type"),
		Entry("a root with the signature of another", encode("CERTIFICATE", spliced("pki/root.crt", "pki/other.crt")), "line 1: certificate 1 is not signed by itself, as it says"),
	)

	It("includes expired CAs, since whether they count is for the verifier", func() {
		expired := reloadtest.NewCA(reloadtest.Options{NotAfter: time.Now().Add(-time.Hour)})
		b, err := reload.BundleFromPEM(fullchain, privkey, append(expired.PEM(), ca...))
		Expect(err).NotTo(HaveOccurred())
		want := poolOf("pki/root.crt", "pki/other.crt")
		want.AddCert(expired.Cert)
		Expect(b.ClientCAs.Equal(want)).To(BeTrue())
	})

	It("accepts an expired intermediate, since the leaf may have another path", func() {
		root := reloadtest.NewCA(reloadtest.Options{})
		k := root.Intermediate(reloadtest.Options{NotAfter: time.Now().Add(-time.Hour)}).Issue(reloadtest.Options{})
		_, err := reload.BundleFromPEM(k.CertPEM, k.KeyPEM, root.PEM())
		Expect(err).NotTo(HaveOccurred())
	})

	It("follows two CA files of one name as two CAs", func() {
		one, two := reloadtest.NewCA(reloadtest.Options{}), reloadtest.NewCA(reloadtest.Options{})
		k := one.Issue(reloadtest.Options{})
		b, err := reload.BundleFromPEM(k.CertPEM, k.KeyPEM, two.PEM())
		Expect(err).NotTo(HaveOccurred(), "a new CA of the same name may come before the new leaf")
		Expect(b.ClientCAs.Equal(two.Pool())).To(BeTrue())
	})

	It("lets server and client verify each other", func() {
		store := reload.NewStore()
		store.Store(rotations(1)[0])
		Expect(mutual(store)).To(Succeed())
	})
})

var _ = Describe("Nothing printed of", func() {
	secret := map[string][2]string{
		"ECDSA":   {"pki/leaf.crt", "pki/leaf.key"},
		"RSA":     {"accept/rsa2048.crt", "accept/rsa2048.key"},
		"Ed25519": {"accept/ed25519.crt", "accept/ed25519.key"},
	}
	for algorithm, files := range secret {
		It("a bundle shows its private key: "+algorithm, func() {
			b, err := reload.BundleFromPEM(fixture(files[0]), fixture(files[1]), nil)
			Expect(err).NotTo(HaveOccurred())
			type holder struct {
				Pointer *reload.Bundle
				Value   reload.Bundle
			}
			for _, v := range []any{b, *b, &b, []*reload.Bundle{b}, []reload.Bundle{*b}, map[string]any{"b": b, "v": *b}, holder{b, *b}, &holder{b, *b}} {
				for _, text := range printed(v) {
					Expect(revealed(text, b.Cert.PrivateKey, fixture(files[1]))).To(BeEmpty(), "%T: %s", v, text)
				}
			}
		})
	}

	It("an error shows what was in the file", func() {
		chain := edited(fullchain, after(string(encode("hunter2 "+string(privkey[28:60]), []byte("x")))))
		_, certErr := reload.BundleFromPEM(chain, privkey, nil)
		_, keyErr := reload.LoadBundle(placePair(fullchain, edited(privkey, replaceNth(1, "\nM", "\nhunter2:")), nil))
		_, pairErr := reload.BundleFromPEM(fullchain, fixture("pki/other.key"), nil)
		_, encErr := reload.BundleFromPEM(fullchain, fixture("refuse/encrypted.rsa.key"), nil)
		for _, err := range []error{certErr, keyErr, pairErr, encErr} {
			Expect(err).To(HaveOccurred())
			for _, text := range printed(err) {
				Expect(text).NotTo(ContainSubstring("hunter2"))
				Expect(revealed(text, keyIn("pki/leaf.key"), privkey)).To(BeEmpty(), text)
				Expect(revealed(text, keyIn("accept/rsa2048.key"), fixture("refuse/encrypted.rsa.key"))).To(BeEmpty(), text)
			}
		}
	})
})

var _ = Describe("A bundle in a log", func() {
	logged := func(v any) string {
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "bundle", v)
		return out.String()
	}

	It("is its fingerprint, serial number and expiry", func() {
		b, err := reload.BundleFromPEM(fullchain, privkey, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(logged(b)).To(HaveSuffix(fmt.Sprintf("bundle.fingerprint=%s bundle.serial=%x bundle.not_after=%s\n",
			b.Fingerprint, b.Cert.Leaf.SerialNumber, b.NotAfter.Format("2006-01-02T15:04:05.000Z07:00"))))
		Expect(fmt.Sprint(b)).To(ContainSubstring(b.Fingerprint))
		Expect(fmt.Sprintf("%+v", *b)).To(ContainSubstring(b.Fingerprint))
		Expect(json.Marshal(b)).To(ContainSubstring(b.Fingerprint))
	})

	It("says where there is none, or no keypair", func() {
		Expect(logged((*reload.Bundle)(nil))).To(HaveSuffix("bundle=none\n"))
		Expect(fmt.Sprint((*reload.Bundle)(nil))).NotTo(ContainSubstring("PANIC"))
		Expect(json.Marshal((*reload.Bundle)(nil))).To(BeEquivalentTo("null"))
		b, err := reload.BundleFromPEM(nil, nil, fixture("accept/ca.pem"))
		Expect(err).NotTo(HaveOccurred())
		Expect(logged(b)).To(HaveSuffix("bundle.trust_only=true\n"))
		k := reloadtest.NewCA(reloadtest.Options{}).Issue(reloadtest.Options{})
		b = &reload.Bundle{Cert: tls.Certificate{Certificate: k.Chain, PrivateKey: k.Key}, Fingerprint: k.Fingerprint()}
		Expect(logged(b)).To(HaveSuffix("bundle.fingerprint=" + k.Fingerprint() + "\n"))
	})
})

const fipsOnly = "fips140=only"

// rotations returns n bundles whose leaves one CA issued, with more and more CAs beside it.
func rotations(n int) (bundles []*reload.Bundle) {
	GinkgoHelper()
	ca := reloadtest.NewCA(reloadtest.Options{})
	trusted := ca.PEM()
	for range n {
		k := ca.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{})
		b, err := reload.BundleFromPEM(k.CertPEM, k.KeyPEM, trusted)
		Expect(err).NotTo(HaveOccurred())
		bundles = append(bundles, b)
		trusted = append(trusted, reloadtest.NewCA(reloadtest.Options{}).PEM()...)
	}
	return bundles
}

// mutual has a server and a client verify each other with what is live.
func mutual(store *reload.Store) error {
	b := store.Load()
	return overPipe(
		&tls.Config{ServerName: "localhost", RootCAs: b.RootCAs, GetClientCertificate: store.GetClientCertificate},
		&tls.Config{ClientCAs: b.ClientCAs, ClientAuth: tls.RequireAndVerifyClientCert, GetCertificate: store.GetCertificate},
	)
}

// rsaLeaf returns a certificate of an RSA key of any size, for which there is no private key.
func rsaLeaf(bits int) []byte {
	GinkgoHelper()
	modulus := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
	pub := &rsa.PublicKey{N: modulus.SetBit(modulus, 0, 1), E: 65537}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "leaf"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, certificate("pki/intermediate.crt"), pub, keyIn("pki/intermediate.key"))
	Expect(err).NotTo(HaveOccurred())
	return encode("CERTIFICATE", der)
}

// printed returns v as everything writes it that programs print with.
func printed(v any) (texts []string) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%b", "%o", "%c", "%t", "%e", "%10.3v"} {
		texts = append(texts, fmt.Sprintf(verb, v))
	}
	texts = append(texts, fmt.Sprint(v), fmt.Errorf("%v", v).Error())
	var out bytes.Buffer
	handlers := []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)}
	for _, h := range handlers {
		slog.New(h).Info("m", "v", v, slog.Group("g", "v", v))
		slog.New(h).With("v", v).Info("m")
	}
	encoded, err := json.Marshal(v)
	if err == nil {
		texts = append(texts, string(encoded))
	}
	return append(texts, out.String())
}

// revealed returns what of a private key is found in text, in any of the usual forms.
func revealed(text string, key crypto.PrivateKey, file []byte) (found []string) {
	var numbers [][]byte
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		raw, err := key.Bytes()
		Expect(err).NotTo(HaveOccurred())
		numbers = append(numbers, raw)
	case *rsa.PrivateKey:
		numbers = append(numbers, key.D.Bytes(), key.Primes[0].Bytes(), key.Primes[1].Bytes())
	case ed25519.PrivateKey:
		numbers = append(numbers, key.Seed())
	}
	var forms []string
	for _, n := range numbers {
		forms = append(forms, string(n), new(big.Int).SetBytes(n).String()[:20], base64.StdEncoding.EncodeToString(n)[:16],
			fmt.Sprintf("%x", n)[:16], fmt.Sprintf("%X", n)[:16], fmt.Sprintf("%#v", n[:6])[len("[]byte{"):30],
			strings.Trim(fmt.Sprint(n[:6]), "[]"), strings.Trim(fmt.Sprintf("%b", n[:6]), "[]"), strings.Trim(fmt.Sprintf("%o", n[:6]), "[]"))
	}
	for _, line := range strings.Split(string(file), "\n") {
		if len(line) > 20 && !strings.HasPrefix(line, "-----") && !strings.Contains(line, ": ") {
			forms = append(forms, line[4:20])
		}
	}
	for _, form := range forms {
		if strings.Contains(text, form) {
			found = append(found, form)
		}
	}
	return found
}
