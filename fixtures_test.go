package reload_test

// fixtures_test.go reads the files under testdata, edits them, and proves keypairs by handshakes.

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
)

// fixture returns files under testdata, one after the other. It is called while the tree of specs is built, so it panics.
func fixture(names ...string) []byte {
	var all []byte
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			panic(err)
		}
		all = append(all, data...)
	}
	return all
}

// ders returns the certificates of plain fixtures.
func ders(names ...string) (chain [][]byte) {
	rest := fixture(names...)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return chain
		}
		chain = append(chain, block.Bytes)
	}
}

// certificate parses a plain fixture of one certificate.
func certificate(name string) *x509.Certificate {
	c, err := x509.ParseCertificate(ders(name)[0])
	if err != nil {
		panic(err)
	}
	return c
}

// poolOf returns a pool of exactly these fixtures.
func poolOf(names ...string) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, name := range names {
		pool.AddCert(certificate(name))
	}
	return pool
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// An edit turns a good file into another one.
type edit func([]byte) []byte

func replace(old, new string) edit {
	return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(new)) }
}

func replaceNth(n int, old, new string) edit {
	return func(b []byte) []byte {
		parts := strings.SplitAfterN(string(b), old, n+1)
		if len(parts) <= n {
			panic(fmt.Sprintf("fewer than %d times %q", n, old))
		}
		parts[n-1] = strings.TrimSuffix(parts[n-1], old) + new
		return []byte(strings.Join(parts, ""))
	}
}

func before(text string) edit { return func(b []byte) []byte { return append([]byte(text), b...) } }
func after(text string) edit  { return func(b []byte) []byte { return append(b, text...) } }

var (
	crlf       = replace("\n", "\r\n")
	withMark   = before("\ufeff")
	unfinished = edit(func(b []byte) []byte { return bytes.TrimRight(b, "\n") })
)

// oneLine writes the base64 of each block in one line.
func oneLine(b []byte) (out []byte) {
	for {
		block, rest := pem.Decode(b)
		if block == nil {
			return out
		}
		out = fmt.Appendf(out, "-----BEGIN %s-----\n%s\n-----END %[1]s-----\n", block.Type, base64.StdEncoding.EncodeToString(block.Bytes))
		b = rest
	}
}

// utf16 writes ASCII as UTF-16.
func utf16(mark string, bigEndian bool) edit {
	return func(b []byte) []byte {
		out := []byte(mark)
		for _, c := range b {
			if bigEndian {
				out = append(out, 0, c)
			} else {
				out = append(out, c, 0)
			}
		}
		return out
	}
}

// edited applies edits in order to a copy.
func edited(b []byte, edits ...edit) []byte {
	b = bytes.Clone(b)
	for _, e := range edits {
		b = e(b)
	}
	return b
}

// lineOf returns the line, from 1, that holds the nth occurrence of text.
func lineOf(b []byte, n int, text string) int {
	for i, line := range strings.Split(string(b), "\n") {
		if strings.Contains(line, text) {
			if n--; n == 0 {
				return i + 1
			}
		}
	}
	panic("no such line")
}

// place writes a file that only its owner can read and returns its path.
func place(dir, name string, data []byte) string {
	GinkgoHelper()
	path := filepath.Join(dir, name)
	Expect(os.WriteFile(path, data, 0o600)).To(Succeed())
	return path
}

// placePair writes a keypair, and a CA file unless ca is nil.
func placePair(cert, key, ca []byte) reload.Paths {
	GinkgoHelper()
	p := reload.FromDir(GinkgoT().TempDir())
	dir := filepath.Dir(p.Cert)
	place(dir, reload.SecretCertFile, cert)
	place(dir, reload.SecretKeyFile, key)
	if ca == nil {
		p.CA = ""
	} else {
		place(dir, reload.SecretCAFile, ca)
	}
	return p
}

// handshakeBoth has a server and a client authenticate with the keypair of b, and checks that each sees its whole chain.
// A handshake proves possession of the key; trust is another matter.
func handshakeBoth(b *reload.Bundle, version uint16) error {
	saw := func(cs tls.ConnectionState) error {
		if len(cs.PeerCertificates) != len(b.Cert.Certificate) {
			return fmt.Errorf("saw %d certificates, want %d", len(cs.PeerCertificates), len(b.Cert.Certificate))
		}
		for i, c := range cs.PeerCertificates {
			if !bytes.Equal(c.Raw, b.Cert.Certificate[i]) {
				return fmt.Errorf("certificate %d is another one", i+1)
			}
		}
		return nil
	}
	store := reload.NewStore()
	store.Store(b)
	config := &tls.Config{
		MinVersion: version, MaxVersion: version,
		GetCertificate:       store.GetCertificate,
		GetClientCertificate: store.GetClientCertificate,
		ClientAuth:           tls.RequireAnyClientCert,
		InsecureSkipVerify:   true,
		VerifyConnection:     saw,
	}
	return overPipe(config, config)
}

// overPipe connects a client to a server and sends a byte each way.
func overPipe(client, server *tls.Config) error {
	clientConn, serverConn := net.Pipe()
	served := make(chan error, 1)
	go func() {
		defer serverConn.Close()
		s := tls.Server(serverConn, server)
		_, err := s.Read(make([]byte, 1))
		if err == nil {
			_, err = s.Write([]byte("y"))
		}
		served <- err
	}()
	c := tls.Client(clientConn, client)
	// net.Pipe has no buffer: what the server sends after its handshake is read here while the byte goes out.
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write([]byte("x"))
		wrote <- err
	}()
	_, err := c.Read(make([]byte, 1))
	clientConn.Close()
	return errors.Join(err, <-wrote, <-served)
}
