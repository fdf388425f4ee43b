//go:build linux

package chaos_test

// layout_test.go has the writers of reloadtest by the layouts that they leave behind: those of one layout take turns.

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// Some writers leave parts of a file behind between two steps that are valid and not the whole. How long they may be
// stopped there is documented: five settles, where another file is as it was. It is measured, and a rotation in which they
// were stopped for longer than partialPause proves nothing.
var partialWriters = []string{"in pieces", "acme.sh", "rsync --inplace", "mmap"}

const (
	partialStep  = 40 * time.Millisecond  // a pause of theirs
	partialPause = 400 * time.Millisecond // with the default Settle; between any two writes
	longRest     = 4 * time.Second        // of one who leaves no part behind
)

// layout is where files are, and who may write them.
type layout struct {
	name    string
	writers []reloadtest.Rotator
}

// layouts returns all.
func layouts() []layout {
	byPlace := map[string]*layout{}
	for _, r := range reloadtest.Rotators() {
		at := r.Cert + " " + r.Key + " " + r.CA
		if !plain(r) {
			at = r.Name
		}
		if byPlace[at] == nil {
			byPlace[at] = &layout{name: r.Name}
		}
		byPlace[at].writers = append(byPlace[at].writers, r)
	}
	var all []layout
	for _, at := range slices.Sorted(maps.Keys(byPlace)) {
		all = append(all, *byPlace[at])
	}
	return all
}

// plain reports whether r writes files beside each other and nothing else, and so gets along with others that do.
func plain(r reloadtest.Rotator) bool { return r.Cert == "tls.crt" && !r.Atomic }

// anyLayout returns one, by the odds of its writers.
func anyLayout() layout {
	all := layouts()
	odds := reloadtest.Rotators()
	for _, r := range odds {
		if slices.Contains(partialWriters, r.Name) { // they find out most
			odds = append(odds, r, r, r)
		}
	}
	r := odds[rand.IntN(len(odds))]
	return all[slices.IndexFunc(all, func(l layout) bool {
		return slices.ContainsFunc(l.writers, func(w reloadtest.Rotator) bool { return w.Name == r.Name })
	})]
}

// any returns one of the writers; every other time, if there is one, one who leaves parts of a file behind.
func (l layout) any() reloadtest.Rotator {
	for range 3 {
		if r := l.writers[rand.IntN(len(l.writers))]; slices.Contains(partialWriters, r.Name) {
			return r
		}
	}
	return l.writers[rand.IntN(len(l.writers))]
}

// paths are those below dir. Where the writer has no CA file, another hand writes one.
func (l layout) paths(dir string) reload.Paths {
	cert, key, ca := l.writers[0].Paths(dir)
	if ca == "" {
		ca = filepath.Join(dir, "trust", "ca.crt")
	}
	return reload.Paths{Cert: cert, Key: key, CA: ca}
}

// write has r write the state of sd. In a directory that something has happened to it may find what it cannot cope with:
// that is for the caller.
func (l layout) write(sd *side, r reloadtest.Rotator, between func(string) error) error {
	files := sd.state.pair.Files(sd.state.cas...)
	if r.CA == "" {
		trust := reloadtest.Plain{Dir: filepath.Join(sd.dir, "trust")}
		if err := os.MkdirAll(trust.Dir, 0o755); err != nil {
			return err
		}
		if err := trust.Rename(reloadtest.Files{"ca.crt": files["ca.crt"]}); err != nil {
			return err
		}
	}
	return r.Write(sd.dir, files, between)
}

// steadily writes the state of sd in a way that leaves no part of a file behind.
func (sd *side) steadily() error {
	writer := sd.layout.writers[0]
	if !slices.Contains(partialWriters, writer.Name) {
		return sd.layout.write(sd, writer, nil)
	}
	for path, data := range map[string][]byte{sd.paths.Key: sd.state.pair.KeyPEM, sd.paths.Cert: sd.state.pair.CertPEM, sd.paths.CA: sd.state.pair.Files(sd.state.cas...)["ca.crt"]} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), restore(path, data)); err != nil {
			return err
		}
	}
	return nil
}

// stopwatch measures how long a writer is stopped between two writes.
type stopwatch struct {
	last, before time.Time // last begins as the time of the start
	longest      time.Duration
}

// step is called after each step. A write is somewhere between two calls, so two writes are no further apart than a call
// and the last but one before it.
func (s *stopwatch) step() {
	now := time.Now()
	if !s.before.IsZero() {
		s.longest = max(s.longest, now.Sub(s.before))
	}
	s.before, s.last = s.last, now
}
