// rotator.go gives all writers one shape, so that a test can loop over them.

package reloadtest

import (
	"fmt"
	"os"
	"path/filepath"
)

// Rotator is one program, or way of using one, that replaces a keypair on disk: where it keeps the files and in which
// steps it replaces them. The functions that return one say what the program does; [Rotators] lists them all. The zero
// Rotator is none of them, and its Write panics.
type Rotator struct {
	Name string // of the program, for titles

	// Cert, Key and CA are the paths to configure a server with, relative to the directory given to Write. Cert holds
	// the chain. CA is empty for a program that writes no CA file.
	Cert, Key, CA string

	// Atomic says that the files change together: what a reader finds at the paths at any one moment is of one
	// generation and complete, or missing.
	Atomic bool

	steps func(dir string, f Files) ([]step, error)
}

// Rotators returns every rotator that works on this platform. Those that make links need the right to on Windows.
func Rotators() []Rotator {
	rotators := []Rotator{
		SecretVolume(), SecretVolumeFSGroup(), SecretVolumeWindows(),
		Certbot(),
		Lego(), AcmeSh(), StepCA(), SpiffeHelper(), VaultAgent(), Ansible(),
		Copy(), Pieces(), RsyncInPlace(), VimInPlace(), VimCopy(),
		Move(), SedInPlace(), Rsync(), VimRename(),
		MoveAcross(), Install(), Untar(),
		FlipBusyBox(), SwapDirs(),
	}
	if !needsUnswap {
		rotators = append(rotators, Flip(), FlipLn(), FlipFirst())
	}
	return append(rotators, platformRotators()...)
}

// Paths returns Cert, Key and CA below dir; CA is empty if there is none.
func (r Rotator) Paths(dir string) (cert, key, ca string) {
	if r.CA != "" {
		ca = filepath.Join(dir, r.CA)
	}
	return filepath.Join(dir, r.Cert), filepath.Join(dir, r.Key), ca
}

// Write replaces the keypair below dir with f, which holds tls.crt, tls.key and perhaps ca.crt, as [Keypair.Files] makes
// it. The first call lays everything out, directories included, and each later one is a rotation. A ca.crt is left out
// by rotators without a CA; without one, an old CA file stays where each file is replaced on its own, and is missing
// where the whole directory is.
//
// Between, unless nil, is called after each step but the last with its name, a verb and mostly a file name. It may
// pause, look at the server, or return an error: that ends the rotation where it is, like a program that is killed, and
// Write returns it wrapped. The next Write goes on from what it finds, as far as the program would.
//
// Calls for different directories may run concurrently.
func (r Rotator) Write(dir string, f Files, between func(step string) error) error {
	steps, err := r.plan(dir, f)
	if err != nil {
		return fmt.Errorf("reloadtest: %s: %w", r.Name, err)
	}
	return run(r.Name, steps, between)
}

func (r Rotator) plan(dir string, f Files) ([]step, error) {
	for _, name := range []string{certFile, keyFile} {
		if _, ok := f[name]; !ok {
			return nil, fmt.Errorf("no %s to write", name)
		}
	}
	for name := range f {
		if name != certFile && name != keyFile && name != caFile {
			return nil, fmt.Errorf("no place for %s", name)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return r.steps(dir, f)
}

// The orders in which rotators replace files; nil is by name.
var (
	keyFirst  = []string{keyFile, certFile, caFile}
	certFirst = []string{certFile, keyFile, caFile}
)

// fileByFile completes r, which replaces each of its files on its own. Without paths, the files are those of a Secret.
func fileByFile(r Rotator, order []string, replace replace) Rotator {
	if r.Cert == "" {
		r.Cert, r.Key, r.CA = certFile, keyFile, caFile
	}
	r.steps = func(dir string, f Files) (steps []step, err error) {
		places := map[string]string{certFile: r.Cert, keyFile: r.Key, caFile: r.CA}
		for _, name := range f.ordered(order...) {
			if places[name] == "" {
				continue // a ca.crt, for a rotator without
			}
			path := filepath.Join(dir, places[name])
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return nil, err
			}
			steps = append(steps, on(path, replace(path, f[name])...)...)
		}
		return steps, nil
	}
	return r
}
