package reloadtest_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("CA", Label("ca"), func() {
	DescribeTable("issues leaves that both sides of a handshake accept",
		func(key reloadtest.KeyType) {
			root := reloadtest.NewCA(reloadtest.Options{Key: key})
			ca := root.Intermediate(reloadtest.Options{}).Intermediate(reloadtest.Options{})
			leaf := ca.Issue(reloadtest.Options{Key: key})

			Expect(leaf.Chain).To(HaveLen(3))
			Expect(handshake(leaf, leaf, root)).To(Succeed())
			Expect(handshake(leaf, leaf, reloadtest.NewCA(reloadtest.Options{}))).NotTo(Succeed())
		},
		Entry("ECDSA P-256", reloadtest.ECDSAP256),
		Entry("ECDSA P-384", reloadtest.ECDSAP384),
		Entry("ECDSA P-521", reloadtest.ECDSAP521),
		Entry("Ed25519", reloadtest.Ed25519),
		Entry("RSA 2048", reloadtest.RSA2048),
		Entry("RSA 3072", Label("slow"), reloadtest.RSA3072),
		Entry("RSA 4096", Label("slow"), reloadtest.RSA4096),
	)

	DescribeTable("names the leaf as asked",
		func(o reloadtest.Options, dns []string, ips ...string) {
			leaf := reloadtest.NewCA(reloadtest.Options{}).Issue(o).Leaf
			Expect(leaf.DNSNames).To(Equal(dns))
			Expect(leaf.IPAddresses).To(HaveLen(len(ips)))
			for i, ip := range ips {
				Expect(leaf.IPAddresses[i].String()).To(Equal(ip))
			}
		},
		Entry("by default", reloadtest.Options{}, []string{"localhost"}, "127.0.0.1", "::1"),
		Entry("by name", reloadtest.Options{DNS: []string{"a", "b"}}, []string{"a", "b"}),
		Entry("by address", reloadtest.Options{IPs: []net.IP{net.IPv4(10, 0, 0, 1)}}, nil, "10.0.0.1"),
		Entry("not at all", reloadtest.Options{DNS: []string{}}, nil),
	)

	DescribeTable("makes the validity fit what is given of it",
		func(notBefore, notAfter, wantBefore, wantAfter time.Duration) {
			now, o := time.Now(), reloadtest.Options{}
			if notBefore != 0 {
				o.NotBefore = now.Add(notBefore)
			}
			if notAfter != 0 {
				o.NotAfter = now.Add(notAfter)
			}
			leaf := reloadtest.NewCA(reloadtest.Options{}).Issue(o).Leaf
			Expect(leaf.NotBefore).To(BeTemporally("~", now.Add(wantBefore), time.Minute))
			Expect(leaf.NotAfter).To(BeTemporally("~", now.Add(wantAfter), time.Minute))
		},
		Entry("nothing", time.Duration(0), time.Duration(0), -time.Hour, 24*time.Hour),
		Entry("a start to come", 72*time.Hour, time.Duration(0), 72*time.Hour, 96*time.Hour),
		Entry("an end gone by", time.Duration(0), -72*time.Hour, -73*time.Hour, -72*time.Hour),
		Entry("both", -2*time.Hour, 2*time.Hour, -2*time.Hour, 2*time.Hour),
	)

	It("gives no two certificates a key or a serial number in common unless asked to", func() {
		ca := reloadtest.NewCA(reloadtest.Options{})
		a, b := ca.Issue(reloadtest.Options{}), ca.Issue(reloadtest.Options{})
		renewed := ca.Issue(reloadtest.Options{Signer: a.Key})

		Expect(a.Leaf.SerialNumber.Cmp(b.Leaf.SerialNumber)).NotTo(BeZero())
		Expect(samePublic(a.Key, b.Key)).To(BeFalse())
		Expect(samePublic(a.Key, ca.Key)).To(BeFalse())
		Expect(samePublic(a.Key, renewed.Key)).To(BeTrue())
		Expect(renewed.Fingerprint()).NotTo(Equal(a.Fingerprint()))
	})

	It("links each certificate to its issuer by key identifier", func() {
		root := reloadtest.NewCA(reloadtest.Options{})
		ca := root.Intermediate(reloadtest.Options{})
		leaf := ca.Issue(reloadtest.Options{}).Leaf
		Expect(leaf.SubjectKeyId).To(HaveLen(20))
		Expect(leaf.AuthorityKeyId).To(Equal(ca.Cert.SubjectKeyId))
		Expect(ca.Cert.AuthorityKeyId).To(Equal(root.Cert.SubjectKeyId))
	})

	It("keeps subject and key in a renewal, so that old leaves verify against the new certificate", func() {
		root := reloadtest.NewCA(reloadtest.Options{Name: "old"})
		ca := root.Intermediate(reloadtest.Options{})
		leaf := ca.Issue(reloadtest.Options{})
		newRoot, newCA := root.Renew(reloadtest.Options{Name: "ignored"}), ca.Renew(reloadtest.Options{})

		Expect(newRoot.Cert.Equal(root.Cert)).To(BeFalse())
		Expect(newRoot.Cert.RawSubject).To(Equal(root.Cert.RawSubject))
		Expect(samePublic(newRoot.Key, root.Key)).To(BeTrue())
		Expect(newRoot.Cert.CheckSignatureFrom(newRoot.Cert)).To(Succeed())
		Expect(newCA.Cert.Equal(ca.Cert)).To(BeFalse())
		Expect(newCA.Cert.CheckSignatureFrom(root.Cert)).To(Succeed())

		Expect(handshake(leaf, newCA.Issue(reloadtest.Options{}), newRoot)).To(Succeed())
	})

	It("renders the keypair as the files of a TLS Secret", func() {
		root := reloadtest.NewCA(reloadtest.Options{})
		k := root.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{})

		f := k.Files(root, root)
		Expect(f).To(HaveLen(3))
		Expect(f).To(HaveKeyWithValue("ca.crt", bytes.Repeat(root.PEM(), 2)))
		pair, err := tls.X509KeyPair(f["tls.crt"], f["tls.key"])
		Expect(err).NotTo(HaveOccurred())
		Expect(pair.Certificate).To(Equal(k.Chain))
		key, _ := pem.Decode(f["tls.key"])
		Expect(key.Type).To(Equal("PRIVATE KEY"))

		Expect(k.Files()).To(HaveLen(2))
	})

	It("panics on options that make no certificate", func() {
		ca := reloadtest.NewCA(reloadtest.Options{})
		Expect(func() { ca.Issue(reloadtest.Options{Key: -1}) }).To(Panic())
		Expect(func() {
			ca.Issue(reloadtest.Options{NotBefore: time.Now(), NotAfter: time.Now().Add(-time.Hour)})
		}).To(Panic())
	})
})

func TestBubble(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for n := range 3 { // volumes need no time to pass between generations
			if err := reloadtest.SecretVolume().Write(dir, generation(n), nil); err != nil {
				t.Error(err)
			}
		}
		leaf := reloadtest.NewCA(reloadtest.Options{}).Issue(reloadtest.Options{}).Leaf
		if got, want := leaf.NotAfter, time.Now().Add(24*time.Hour); !got.Equal(want) {
			t.Errorf("NotAfter is %v, want %v on the bubble's clock", got, want)
		}
	})
}

// TestFIPS runs the CA specs again in a process that allows nothing but FIPS 140-3 cryptography.
func TestFIPS(t *testing.T) {
	const setting = "GODEBUG=fips140=only"
	if os.Getenv("GODEBUG") == "fips140=only" {
		t.Skip("already in it")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=TestReloadtest",
		"-ginkgo.label-filter=ca && !slow", "-ginkgo.fail-on-empty")
	cmd.Env = append(os.Environ(), setting)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", setting, err, out)
	}
}

// handshake connects a client to a server that verify each other against root.
func handshake(server, client *reloadtest.Keypair, root *reloadtest.CA) error {
	clientConn, serverConn := net.Pipe()
	defer clientConn.Close()
	s := tls.Server(serverConn, &tls.Config{
		Certificates: []tls.Certificate{server.TLS()},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: root.Pool(),
	})
	c := tls.Client(clientConn, &tls.Config{
		Certificates: []tls.Certificate{client.TLS()},
		RootCAs:      root.Pool(), ServerName: "localhost",
	})
	served := make(chan error, 1)
	go func() {
		defer serverConn.Close()
		err := s.HandshakeContext(context.Background())
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		served <- err
	}()
	_, err := c.Read(make([]byte, 1))
	clientConn.Close()
	if serverErr := <-served; err == nil {
		err = serverErr
	}
	return err
}

func samePublic(a, b crypto.Signer) bool {
	der := func(k crypto.Signer) []byte {
		GinkgoHelper()
		out, err := x509.MarshalPKIXPublicKey(k.Public())
		Expect(err).NotTo(HaveOccurred())
		return out
	}
	return bytes.Equal(der(a), der(b))
}
