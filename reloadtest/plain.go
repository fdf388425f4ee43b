// plain.go writes regular files in one directory, in place or by rename.

package reloadtest

import (
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

	// Pause is called between the steps with the name of the step just done: a verb, a space and the file's name. The
	// verbs are truncate and write (Write), temp and rename (Rename). Nil: no pauses.
	Pause func(step string)
}

// NewPlain makes dir and its parents where missing and writes f into it.
func NewPlain(dir string, f Files) (*Plain, error) {
	p := &Plain{Dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return p, p.Write(f)
}

// Write replaces the files of f in place: each is truncated and then written, so a reader may find it empty, and the
// files of two generations side by side. New keys are for their owner alone (0600), other new files for all (0644);
// files that exist keep their mode, and those not in f stay as they are.
func (p *Plain) Write(f Files) error {
	var steps []step
	for _, name := range p.names(f) {
		path := filepath.Join(p.Dir, name)
		steps = append(steps,
			step{"truncate " + name, func() error { return truncate(path) }},
			step{"write " + name, func() error { return fill(path, f[name]) }})
	}
	return run("plain", p.between, steps)
}

// Rename replaces the files of f one by one: each is written to a temporary file beside it, named .NAME.RANDOM, which is
// then renamed over it. A reader never finds a file missing or cut, but the files of two generations side by side.
func (p *Plain) Rename(f Files) error {
	var steps []step
	for _, name := range p.names(f) {
		var temp string
		steps = append(steps,
			step{"temp " + name, func() (err error) {
				temp, err = writeTemp(p.Dir, "."+name+".*", f[name], modeOf(name))
				return err
			}},
			step{"rename " + name, func() error { return os.Rename(temp, filepath.Join(p.Dir, name)) }})
	}
	return run("plain", p.between, steps)
}

func (p *Plain) names(f Files) []string {
	if p.Order == nil {
		return f.ordered(keyFile, certFile, caFile)
	}
	return f.ordered(p.Order...)
}

func (p *Plain) between(step string) error {
	if p.Pause != nil {
		p.Pause(step)
	}
	return nil
}
