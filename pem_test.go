package reload_test

// pem_test.go says what a PEM file may look like: everything real tools write is accepted, everything damaged is refused
// with its line, and no error repeats what is in the file.

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
)

var (
	fullchain = fixture("accept/fullchain.pem")
	privkey   = fixture("accept/privkey.pem")
	combined  = fixture("accept/tls-combined.pem")
)

var _ = Describe("A keypair", func() {
	two := []string{"pki/leaf.crt", "pki/intermediate.crt"}
	three := append(two, "pki/root.crt")

	DescribeTable("loads as real tools write it", Label("fips"),
		func(cert, key []byte, algorithm string, chain []string) {
			paths := placePair(cert, key, nil)
			if bytes.Equal(cert, key) {
				paths.Key = paths.Cert
			}
			fromFiles, err := reload.LoadBundle(paths)
			Expect(err).NotTo(HaveOccurred())
			fromPEM, err := reload.BundleFromPEM(cert, key, nil)
			Expect(err).NotTo(HaveOccurred())

			for _, b := range []*reload.Bundle{fromFiles, fromPEM} {
				Expect(b.Cert.Certificate).To(Equal(ders(chain...)))
				Expect(b.Cert.Leaf.Raw).To(Equal(b.Cert.Certificate[0]))
				Expect(describeKey(b.Cert.Leaf)).To(Equal(algorithm))
				Expect(handshakeBoth(b, tls.VersionTLS12)).To(Succeed())
				Expect(handshakeBoth(b, tls.VersionTLS13)).To(Succeed())
			}
			// What the standard library refuses but for a byte order mark, we refuse.
			standard, err := tls.X509KeyPair(bytes.TrimPrefix(cert, []byte("\ufeff")), bytes.TrimPrefix(key, []byte("\ufeff")))
			Expect(err).NotTo(HaveOccurred())
			Expect(standard.Certificate).To(Equal(fromPEM.Cert.Certificate))
		},
		Entry("certbot", fullchain, privkey, "ECDSA P-256", two),
		Entry("a leaf alone", fixture("pki/leaf.crt"), privkey, "ECDSA P-256", two[:1]),
		Entry("the root included", fixture("accept/fullchain3.pem"), privkey, "ECDSA P-256", three),
		Entry("a disordered tail", fixture("pki/leaf.crt", "pki/root.crt", "pki/intermediate.crt"), privkey, "ECDSA P-256",
			[]string{"pki/leaf.crt", "pki/root.crt", "pki/intermediate.crt"}),
		Entry("the leaf twice", fixture("pki/leaf.crt", "pki/leaf.crt"), privkey, "ECDSA P-256", []string{"pki/leaf.crt", "pki/leaf.crt"}),
		Entry("an unrelated authority", fixture("pki/leaf.crt", "pki/other.crt"), privkey, "ECDSA P-256", []string{"pki/leaf.crt", "pki/other.crt"}),
		Entry("cert-manager's tls-combined.pem, key first", combined, combined, "ECDSA P-256", two),
		Entry("HAProxy, key last, with DH parameters", fixture("accept/haproxy.pem"), fixture("accept/haproxy.pem"), "ECDSA P-256", two),
		Entry("openssl -text", fixture("accept/text.crt"), fixture("accept/text.key"), "ECDSA P-256", two),
		Entry("openssl pkcs12 -nodes", fixture("accept/pkcs12.pem"), fixture("accept/pkcs12.pem"), "ECDSA P-256", three),
		Entry("openssl s_client -showcerts", fixture("accept/showcerts.txt"), privkey, "ECDSA P-256", two),
		Entry("a self-signed leaf", fixture("accept/selfsigned.crt"), privkey, "ECDSA P-256", []string{"accept/selfsigned.crt"}),
		Entry("SHA-1 signatures", fixture("accept/sha1.pem"), privkey, "ECDSA P-256", []string{"accept/sha1.pem"}),
		Entry("a leaf with the name of its authority", fixture("accept/samename.crt"), privkey, "ECDSA P-256", []string{"accept/samename.crt"}),

		Entry("RSA 2048, PKCS #8", fixture("accept/rsa2048.crt"), fixture("accept/rsa2048.key"), "RSA 2048", []string{"accept/rsa2048.crt"}),
		Entry("RSA 2048, PKCS #1", fixture("accept/rsa2048.crt"), fixture("accept/rsa2048.pkcs1.key"), "RSA 2048", []string{"accept/rsa2048.crt"}),
		Entry("RSA 3072", fixture("accept/rsa3072.crt"), fixture("accept/rsa3072.key"), "RSA 3072", []string{"accept/rsa3072.crt"}),
		Entry("RSA 4096", fixture("accept/rsa4096.crt"), fixture("accept/rsa4096.key"), "RSA 4096", []string{"accept/rsa4096.crt"}),
		Entry("P-256, EC PARAMETERS before the key", fixture("accept/ecparam.crt"), fixture("accept/ecparam.key"), "ECDSA P-256", []string{"accept/ecparam.crt"}),
		Entry("P-384, PKCS #8", fixture("accept/p384.crt"), fixture("accept/p384.key"), "ECDSA P-384", []string{"accept/p384.crt"}),
		Entry("P-384, SEC 1", fixture("accept/p384.crt"), fixture("accept/p384.sec1.key"), "ECDSA P-384", []string{"accept/p384.crt"}),
		Entry("P-521, PKCS #8", fixture("accept/p521.crt"), fixture("accept/p521.key"), "ECDSA P-521", []string{"accept/p521.crt"}),
		Entry("P-521, SEC 1", fixture("accept/p521.crt"), fixture("accept/p521.sec1.key"), "ECDSA P-521", []string{"accept/p521.crt"}),
		Entry("Ed25519", fixture("accept/ed25519.crt"), fixture("accept/ed25519.key"), "Ed25519", []string{"accept/ed25519.crt"}),
		Entry("PKCS #8 in a block that says PKCS #1", fixture("accept/rsa2048.crt"),
			edited(fixture("accept/rsa2048.key"), replace(" PRIVATE KEY", " RSA PRIVATE KEY")), "RSA 2048", []string{"accept/rsa2048.crt"}),

		Entry("Windows line ends and byte order mark", edited(fullchain, crlf, withMark), edited(privkey, crlf, withMark), "ECDSA P-256", two),
		Entry("mixed line ends", edited(fullchain, replaceNth(3, "\n", "\r\n")), edited(privkey, replaceNth(1, "\n", "\r\n")), "ECDSA P-256", two),
		Entry("base64 in one line", oneLine(fullchain), oneLine(privkey), "ECDSA P-256", two),
		Entry("no final newline", unfinished(fullchain), unfinished(privkey), "ECDSA P-256", two),
		Entry("trailing blank lines", edited(fullchain, after("\n\r\n \n")), edited(privkey, after("\n\n\n")), "ECDSA P-256", two),
		Entry("spaces and tabs at line ends", edited(fullchain, replace("\n", " \t\n")), edited(privkey, replace("\n", "\t \n")), "ECDSA P-256", two),
		Entry("comments", edited(fullchain, before("# issued for hunter2\n--- BEGIN ---\n\n"), replaceNth(1, "-----END CERTIFICATE-----\n", "-----END CERTIFICATE-----\nsubject=x\n---\n")),
			edited(privkey, before("; the key\n")), "ECDSA P-256", two),
		Entry("other things beside the certificates", edited(fullchain, before(string(fixture("accept/ecparam.key"))+string(encode("X509 CRL", []byte("x")))),
			after(string(encode("CERTIFICATE REQUEST", []byte("x")))+string(encode("PUBLIC KEY", []byte("x"))))), privkey, "ECDSA P-256", two),
	)

	DescribeTable("is refused, by file and line, where it is damaged",
		func(cert, key []byte, role, cause string, sentinel error) {
			paths := placePair(cert, key, nil)
			where := map[string]string{"certificate": paths.Cert, "key": paths.Key, "keypair": paths.Cert + ", " + paths.Key}[role]
			_, err := reload.LoadBundle(paths)
			Expect(err).To(MatchError("reload: " + role + " " + where + ": " + cause))
			Expect(overlap(cause, cert, key)).To(BeEmpty())

			_, err = reload.BundleFromPEM(cert, key, nil)
			Expect(err).To(MatchError("reload: " + role + ": " + cause))
			for _, s := range []error{reload.ErrMalformedPEM, reload.ErrKeyMismatch, reload.ErrEncryptedKey} {
				Expect(errors.Is(err, s)).To(Equal(s == sentinel), s.Error())
			}
		},
		damagedChains(), damagedKeys(), useless(), unfit(),
	)
})

const malformed = "malformed PEM: "

// damagedChains are certificate files that a torn write or a wrong tool can leave behind.
func damagedChains() []TableEntry {
	line2 := lineOf(fullchain, 2, "BEGIN") // of the intermediate
	end2 := lineOf(fullchain, 2, "END")
	leaf := len(fixture("pki/leaf.crt"))
	entry := func(what string, cert []byte, line int, cause string, args ...any) TableEntry {
		text := fmt.Sprintf(cause, args...)
		if line > 0 {
			text = fmt.Sprintf("line %d: %s", line, text)
		}
		return Entry("certificate: "+what, cert, privkey, "certificate", malformed+text, reload.ErrMalformedPEM)
	}
	return []TableEntry{
		entry("empty", nil, 0, "empty"),
		entry("blank", []byte(" \n\t\r\n"), 0, "empty"),
		entry("no PEM", []byte("hunter2 hunter2\n"), 0, "no certificate"),
		entry("DER", ders("pki/leaf.crt")[0], 1, "DER, not PEM"),
		entry("UTF-16, little end first", edited(fullchain, utf16("\xff\xfe", false)), 1, "byte order mark of UTF-16 text, want ASCII"),
		entry("UTF-16, big end first", edited(fullchain, utf16("\xfe\xff", true)), 1, "byte order mark of UTF-16 text, want ASCII"),
		entry("UTF-16 without a mark", edited(fullchain, utf16("", false)), 1, "NUL byte"),
		entry("NULs at the end", edited(fullchain, after("\x00\x00\x00")), end2+1, "NUL byte"),
		entry("a hole in the intermediate", edited(fullchain, func(b []byte) []byte { clear(b[leaf+100 : leaf+110]); return b }), line2+2, "NUL byte"),
		entry("two files joined without a newline", edited(fullchain, replaceNth(1, "-----END CERTIFICATE-----\n", "-----END CERTIFICATE-----")), line2-1, "damaged BEGIN or END line"),
		entry("a mark in the middle, of joined files", edited(fullchain, replaceNth(2, "-----BEGIN", "\ufeff-----BEGIN")), line2, "damaged BEGIN or END line"),
		entry("indented", edited(fullchain, before("  "), replace("\n", "\n  ")), 1, "damaged BEGIN or END line"),
		entry("quoted", edited(fullchain, before("> "), replace("\n", "\n> ")), 1, "damaged BEGIN or END line"),
		entry("only carriage returns", edited(fullchain, replace("\n", "\r")), 1, "damaged BEGIN or END line"),
		entry("escaped newlines in one line", edited(fullchain, replace("\n", `\n`)), 1, "damaged BEGIN or END line"),
		entry("the second BEGIN gone", edited(fullchain, replaceNth(2, "-----BEGIN CERTIFICATE-----\n", "")), end2-1, "END without BEGIN"),
		entry("the first END gone", edited(fullchain, replaceNth(1, "-----END CERTIFICATE-----\n", "")), line2-1, "BEGIN inside the block that starts at line 1"),
		entry("the second END gone", edited(fullchain, replaceNth(2, "-----END CERTIFICATE-----\n", "")), line2, "file ends inside the block that starts here"),
		entry("an END of another type", edited(fullchain, replaceNth(2, "-----END CERTIFICATE", "-----END hunter2")), end2, "END does not match the BEGIN at line %d", line2),
		entry("a BEGIN of another type", edited(fullchain, replaceNth(2, "-----BEGIN CERTIFICATE", "-----BEGIN hunter2")), end2, "END does not match the BEGIN at line %d", line2),
		entry("a BEGIN in lower case", edited(fullchain, replaceNth(2, "-----BEGIN CERTIFICATE", "-----begin certificate")), line2, "damaged BEGIN or END line"),
		entry("a BEGIN without a type", edited(fullchain, replaceNth(2, "-----BEGIN CERTIFICATE", "-----BEGIN ")), line2, "damaged BEGIN or END line"),
		entry("a BEGIN line cut", edited(fullchain, replaceNth(2, "-----BEGIN CERTIFICATE-----\n", "-----BEGIN CERTIF\n")), line2, "damaged BEGIN or END line"),
		entry("an END line cut", fullchain[:len(fullchain)-4], end2, "damaged BEGIN or END line"),
		entry("cut inside the intermediate", fullchain[:leaf+200], line2, "file ends inside the block that starts here"),
		entry("cut after the first dash of a BEGIN", fullchain[:leaf+1], line2, "file ends inside a BEGIN line"),
		entry("damaged base64 in the leaf", edited(fullchain, replaceNth(1, "MII", "!hunter2!")), 1, "damaged block"),
		entry("damaged base64 in the intermediate", edited(fullchain, replaceNth(2, "MII", "!hunter2!")), line2, "damaged block"),
		entry("a line of the intermediate gone", edited(fullchain, func(b []byte) []byte { return append(b[:leaf+28], b[leaf+28+65:]...) }), line2,
			"certificate 2 does not parse (x509: malformed certificate)"),
		entry("an empty block", edited(fullchain, after("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")), end2+1,
			"certificate 3 does not parse (x509: malformed certificate)"),
		entry("bytes after the certificate in its block", encode("CERTIFICATE", append(ders("pki/leaf.crt")[0], "hunter2"...)), 1,
			"certificate 1 does not parse (x509: trailing data)"),
		entry("a certificate that crypto/x509 does not parse", fixture("pki/leaf.crt", "refuse/secp256k1.crt"), line2,
			"certificate 2 does not parse (x509: unsupported elliptic curve)"),
		entry("headers in a CERTIFICATE block", edited(fullchain, replaceNth(2, "-----BEGIN CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\nSecret: hunter2\n\n")), line2,
			"CERTIFICATE block with headers"),
		entry("a TRUSTED CERTIFICATE", fixture("refuse/trusted.crt"), 1, "TRUSTED CERTIFICATE block, want CERTIFICATE"),
		entry("an X509 CERTIFICATE", edited(fullchain, replace(" CERTIFICATE", " X509 CERTIFICATE")), 1, "X509 CERTIFICATE block, want CERTIFICATE"),
		entry("PKCS7", fixture("refuse/pkcs7.pem"), 1, "block of an unknown type"),
		entry("a block of a type that is a secret", edited(fullchain, after(string(encode("hunter2 SECRET", []byte("x"))))), end2+1, "block of an unknown type"),
		entry("a private key", privkey, 0, "a private key but no certificate: are the files swapped?"),
		entry("only other things", encode("PUBLIC KEY", []byte("x")), 0, "no certificate"),
		entry("a leaf with the signature of another, and its issuer", append(encode("CERTIFICATE", spliced("pki/renewed.crt", "pki/leaf.crt")), fixture("pki/intermediate.crt")...), 1,
			"certificate 1 is not signed by its issuer in the same file"),
		entry("an intermediate that another one of its name signed", append(fixture("pki/leaf.crt"), encode("CERTIFICATE", spliced("pki/root.crt", "pki/other.crt"))...), line2,
			"certificate 2 is not signed by its issuer in the same file"),
	}
}

func damagedKeys() []TableEntry {
	entry := func(what string, key []byte, cause string, sentinel error) TableEntry {
		return Entry("key: "+what, fullchain, key, "key", cause, sentinel)
	}
	torn := func(what string, key []byte, cause string) TableEntry {
		return entry(what, key, malformed+cause, reload.ErrMalformedPEM)
	}
	return []TableEntry{
		torn("empty", nil, "empty"),
		torn("no PEM", []byte("hunter2\n"), "no private key"),
		torn("DER", []byte("\x30\x82\x01\x00hunter2"), "line 1: DER, not PEM"),
		torn("UTF-16", edited(privkey, utf16("\xff\xfe", false)), "line 1: byte order mark of UTF-16 text, want ASCII"),
		torn("cut", privkey[:len(privkey)/2], "line 1: file ends inside the block that starts here"),
		torn("damaged base64", edited(privkey, replaceNth(1, "\nM", "\n(hunter2)")), "line 1: damaged block"),
		torn("two keys", edited(privkey, after(string(privkey))), "line 6: second private key, the first is at line 1"),
		torn("two keys, the first of them encrypted", append(fixture("refuse/encrypted.pkcs8.key"), privkey...), "line 8: second private key, the first is at line 1"),
		torn("a certificate", fullchain, "a certificate but no private key: are the files swapped?"),
		torn("a public key", encode("PUBLIC KEY", []byte("x")), "no private key"),
		torn("a type that is the key itself", encode(strings.Split(string(privkey), "\n")[1], []byte("x")), "line 1: block of an unknown type"),
		torn("a type that is a secret", encode("hunter2 PRIVATE KEY", []byte("x")), "line 1: block of an unknown type"),
		entry("damaged DER", encode("PRIVATE KEY", []byte("hunter2hunter2")), "line 1: damaged, or no RSA, ECDSA (P-256, P-384, P-521 as named curve) or Ed25519 key", nil),
		entry("encrypted, PKCS #8", fixture("refuse/encrypted.pkcs8.key"), "private key is encrypted (line 1): store it decrypted", reload.ErrEncryptedKey),
		entry("encrypted, EC with headers", fixture("refuse/encrypted.ec.key"), "private key is encrypted (line 1): store it decrypted", reload.ErrEncryptedKey),
		entry("encrypted, RSA with headers", edited(fixture("refuse/encrypted.rsa.key"), before("# passphrase: hunter2\n"), crlf), "private key is encrypted (line 2): store it decrypted", reload.ErrEncryptedKey),
		entry("OpenSSH", fixture("refuse/openssh.key"), "line 1: OPENSSH PRIVATE KEY is of no use in TLS", nil),
		entry("DSA", fixture("refuse/dsa.key"), "line 1: DSA PRIVATE KEY is of no use in TLS", nil),
		Entry("key: that of another leaf", fullchain, fixture("pki/other.key"), "keypair", "private key does not match the leaf", reload.ErrKeyMismatch),
		Entry("key: of another algorithm", fullchain, fixture("accept/ed25519.key"), "keypair", "private key does not match the leaf", reload.ErrKeyMismatch),
		Entry("key: that of the intermediate", fullchain, fixture("pki/intermediate.key"), "keypair",
			fmt.Sprintf("private key does not match the leaf: it matches certificate 2 of the file (line %d): the leaf comes first", lineOf(fullchain, 2, "BEGIN")), reload.ErrKeyMismatch),
		Entry("key: fits, but the chain is in the wrong order", fixture("pki/intermediate.crt", "pki/leaf.crt"), privkey, "keypair",
			fmt.Sprintf("private key does not match the leaf: it matches certificate 2 of the file (line %d): the leaf comes first", 1+lineOf(fixture("pki/intermediate.crt"), 1, "END")), reload.ErrKeyMismatch),
	}
}

// useless are whole keypairs of algorithms that crypto/tls cannot use.
func useless() []TableEntry {
	entry := func(name, role, cause string, sentinel error) TableEntry {
		return Entry("algorithm: "+name, fixture("refuse/"+name+".crt"), fixture("refuse/"+name+".key"), role, cause, sentinel)
	}
	return []TableEntry{
		entry("ed448", "certificate", "want an RSA, ECDSA or Ed25519 key", nil),
		entry("x25519", "certificate", "want an RSA, ECDSA or Ed25519 key", nil),
		entry("rsapss", "certificate", "want an RSA, ECDSA or Ed25519 key", nil),
		entry("dsa", "certificate", "want an RSA, ECDSA or Ed25519 key", nil),
		entry("secp224r1", "certificate", "ECDSA key on P-224, want P-256, P-384 or P-521", nil),
		entry("secp256k1", "certificate", malformed+"line 1: certificate 1 does not parse (x509: unsupported elliptic curve)", reload.ErrMalformedPEM),
		entry("explicit", "certificate", malformed+"line 1: certificate 1 does not parse (x509: invalid ECDSA parameters)", reload.ErrMalformedPEM),
		entry("rsa512", "certificate", "RSA key of 512 bits, want 1024 to 8192", nil),
		entry("rsa768", "certificate", "RSA key of 768 bits, want 1024 to 8192", nil),
	}
}

// unfit are keys of algorithms that crypto/tls cannot use, beside a good chain.
func unfit() []TableEntry {
	const no = "line 1: damaged, or no RSA, ECDSA (P-256, P-384, P-521 as named curve) or Ed25519 key"
	entry := func(name, cause string) TableEntry {
		return Entry("key alone: "+name, fullchain, fixture("refuse/"+name+".key"), "key", cause, nil)
	}
	return []TableEntry{
		entry("ed448", no),
		entry("x25519", "line 1: key cannot sign"),
		entry("rsapss", no),
		entry("dsa.pkcs8", no),
		entry("secp256k1", no),
		entry("explicit", no),
		Entry("key alone: secp224r1", fullchain, fixture("refuse/secp224r1.key"), "keypair", "private key does not match the leaf", reload.ErrKeyMismatch),
		Entry("key alone: rsa512", fullchain, fixture("refuse/rsa512.key"), "keypair", "private key does not match the leaf", reload.ErrKeyMismatch),
	}
}

// spliced returns the body of one certificate with the signature of another one.
func spliced(body, signature string) []byte {
	type signed struct {
		Body      asn1.RawValue
		Algorithm asn1.RawValue
		Signature asn1.BitString
	}
	var a, b signed
	_, errA := asn1.Unmarshal(ders(body)[0], &a)
	_, errB := asn1.Unmarshal(ders(signature)[0], &b)
	a.Signature = b.Signature
	der, err := asn1.Marshal(a)
	if err := errors.Join(errA, errB, err); err != nil {
		panic(err)
	}
	return der
}

// overlap returns what a message repeats of the files it is about: any seven bytes in a row, but for the block types it may
// name.
func overlap(message string, files ...[]byte) (found []string) {
	const mayName = " TRUSTED CERTIFICATE X509 CERTIFICATE OPENSSH PRIVATE KEY DSA PRIVATE KEY "
	for _, file := range files {
		for i := 0; i+7 <= len(message); i++ {
			part := message[i : i+7]
			if bytes.Contains(file, []byte(part)) && !strings.Contains(mayName, part) {
				found = append(found, part)
			}
		}
	}
	return found
}

// describeKey names algorithm and size of a certificate's key.
func describeKey(c *x509.Certificate) string {
	switch pub := c.PublicKey.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", pub.N.BitLen())
	case *ecdsa.PublicKey:
		return "ECDSA " + pub.Params().Name
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return "?"
}
