// plain.go writes regular files in one directory, in place or by rename.

package reloadtest

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
)

// Plain is a directory of regular files, each replaced on its own, as scripts and most programs do.
// Set the fields before the first call; its methods are not for concurrent use.
type Plain struct {
	Dir string

	// Order names the files that are written first, in this order; those it does not name follow sorted.
	// Nil: tls.key, tls.crt, ca.crt, so that the certificate comes after its key.
	Order []string

	// Step is called between the steps with the name of the one just done: a verb, a space and the file's name. The
	// verbs are truncate and write (Write), temp and rename (Rename). An error ends the call there and leaves the files
	// as they are, like a program that is killed. Nil: no hook.
	Step func(step string) error
}

// NewPlain makes dir and its parents where missing and writes f into it.
func NewPlain(dir string, f Files) (*Plain, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("reloadtest: plain: %w", err)
	}
	p := &Plain{Dir: dir}
	if err := p.Write(f); err != nil {
		return nil, err
	}
	return p, nil
}

// Write replaces the files of f in place: each is truncated and then written, so a reader may find it empty, and the
// files of two generations side by side. New keys are for their owner alone (0600), other new files for all (0644);
// files that exist keep their mode, and those not in f stay as they are.
func (p *Plain) Write(f Files) error { return p.each(f, inPlace) }

// Rename replaces the files of f one by one: each is written to a temporary file beside it, named .NAME.RANDOM, which is
// then renamed over it. A reader never finds a file missing or cut, but the files of two generations side by side.
func (p *Plain) Rename(f Files) error { return p.each(f, renamed) }

func (p *Plain) each(f Files, replace replace) error {
	order := p.Order
	if order == nil {
		order = keyFirst
	}
	var steps []step
	for _, name := range f.ordered(order...) {
		path := filepath.Join(p.Dir, name)
		steps = append(steps, on(path, replace(path, f[name])...)...)
	}
	return run("plain", steps, p.Step)
}

// replace makes the steps that give one file new content.
type replace func(path string, data []byte) []step

func inPlace(path string, data []byte) []step {
	return overwrite(path, piece{"write", data})
}

func renamed(path string, data []byte) []step {
	temp := tempBeside(path)
	return []step{
		{"temp", func() error { return putAs(path, temp, data) }},
		rename(temp, path),
	}
}

// tempBeside returns a name for a temporary file in the directory of path, of the form .NAME.RANDOM.
func tempBeside(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+random())
}

// random returns what makes the name of a temporary file unique.
func random() string { return rand.Text()[:6] }
