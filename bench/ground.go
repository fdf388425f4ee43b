package main

// ground.go makes the files that the measurements work on.

import (
	"crypto/tls"
	"os"
	"path/filepath"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// ground is a temporary directory, and a CA with an intermediate that issues everything in it.
type ground struct {
	dir    string
	root   *reloadtest.CA
	issuer *reloadtest.CA // the intermediate
}

func newGround() (*ground, error) {
	dir, err := os.MkdirTemp("", "reload-bench-")
	if err != nil {
		return nil, err
	}
	root := reloadtest.NewCA(reloadtest.Options{})
	return &ground{dir, root, root.Intermediate(reloadtest.Options{})}, nil
}

func (g *ground) clear() { os.RemoveAll(g.dir) }

// issue returns a keypair, and its files with the CA's.
func (g *ground) issue(o reloadtest.Options) (*reloadtest.Keypair, reloadtest.Files) {
	pair := g.issuer.Issue(o)
	return pair, pair.Files(g.root)
}

// site is one place where a writer keeps a keypair.
type site struct {
	*ground
	dir    string
	writer reloadtest.Rotator
	files  reload.Paths
	bare   bool                // whether rotations leave the CA file alone
	pair   *reloadtest.Keypair // the last one written
}

// at returns the site under a name, whatever is there.
func (g *ground) at(name string, writer reloadtest.Rotator) *site {
	s := &site{ground: g, dir: filepath.Join(g.dir, name), writer: writer}
	s.files.Cert, s.files.Key, s.files.CA = writer.Paths(s.dir)
	return s
}

// site lays a first keypair out under a name.
func (g *ground) site(name string, writer reloadtest.Rotator) (*site, error) {
	s := g.at(name, writer)
	if s.files.CA == "" { // the writer has none, but who verifies clients needs one
		s.files.CA = filepath.Join(s.dir, reload.SecretCAFile)
	}
	err := s.rotate(reloadtest.Options{}, nil)
	if err == nil && writer.CA == "" {
		err = os.WriteFile(s.files.CA, g.root.PEM(), 0o644)
	}
	return s, err
}

// rotate writes a new keypair.
func (s *site) rotate(o reloadtest.Options, between func(string) error) error {
	pair, files := s.issue(o)
	if s.pair = pair; s.bare {
		delete(files, reload.SecretCAFile)
	}
	return s.writer.Write(s.dir, files, between)
}

// served reports whether a certificate is what was written last, complete.
func (s *site) served(cert *tls.Certificate, err error) bool {
	return err == nil && len(cert.Certificate) == len(s.pair.Chain) && string(cert.Certificate[0]) == string(s.pair.Leaf.Raw)
}

// visitor returns the config of a client that the server knows.
func (g *ground) visitor() *tls.Config {
	pair, _ := g.issue(reloadtest.Options{})
	return &tls.Config{RootCAs: g.root.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{pair.TLS()}}
}
