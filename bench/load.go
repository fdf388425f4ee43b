package main

// load.go measures what loading a keypair costs, beside the standard library.

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

func load(e effort, _ []peer) (*table, error) {
	t := &table{
		title:   "Loading a keypair",
		columns: []string{"", "LoadBundle, µs", "tls.LoadX509KeyPair, µs", "ratio", "and one signature, µs", "ratio"},
		notes: []string{fmt.Sprintf("The median of %d rounds of ten, in turn. Leaf and intermediate; with a CA file the standard library fills two pools, "+
			"one of them with the system's. One signature: it also checks that the intermediate signed the leaf, as LoadBundle "+
			"does.", e.loads)},
	}
	g, err := newGround()
	if err != nil {
		return nil, err
	}
	defer g.clear()
	for _, key := range []struct {
		name string
		kind reloadtest.KeyType
	}{{"ECDSA P-256", reloadtest.ECDSAP256}, {"RSA 2048", reloadtest.RSA2048}} {
		dir := filepath.Join(g.dir, key.name)
		issuer := g.root.Intermediate(reloadtest.Options{Key: key.kind})
		_, err := reloadtest.NewPlain(dir, issuer.Issue(reloadtest.Options{Key: key.kind}).Files(g.root))
		if err != nil {
			return nil, err
		}
		files := reload.FromDir(dir)
		live, err := reload.LoadBundle(files) // as where the CA file is unchanged
		if err != nil {
			return nil, err
		}
		alone := files
		alone.CA = ""
		if err := errors.Join(loads(e, t, key.name, alone), loads(e, t, key.name+" and a CA file", files)); err != nil {
			return nil, err
		}
		runtime.KeepAlive(live)
	}
	return t, nil
}

// loads adds a row for some files.
func loads(e effort, t *table, name string, files reload.Paths) error {
	took, err := inTurns(e.loads,
		times(10, func() error { _, err := reload.LoadBundle(files); return err }),
		times(10, func() error { return standard(files, false) }),
		times(10, func() error { return standard(files, true) }))
	if err != nil {
		return err
	}
	us := func(i int) string { return microseconds(took[i] / 10) }
	over := func(i int) string { return ratio(float64(took[0]), float64(took[i])) }
	t.add(name, us(0), us(1), over(1), us(2), over(2))
	return nil
}

// standard loads a pair as the standard library does, and perhaps checks the leaf's signature too.
func standard(files reload.Paths, signature bool) error {
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return err
	}
	if signature {
		issuer, err := x509.ParseCertificate(pair.Certificate[1])
		if err != nil {
			return err
		}
		if err := pair.Leaf.CheckSignatureFrom(issuer); err != nil {
			return err
		}
	}
	if files.CA == "" {
		return nil
	}
	pem, err := os.ReadFile(files.CA)
	if err != nil {
		return err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return err
	}
	if !roots.AppendCertsFromPEM(pem) || !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return errors.New("no certificate in the CA file")
	}
	return nil
}
