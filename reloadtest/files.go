// files.go holds what all writers share: file sets, the steps of a rotation, and the small operations they are made of.

package reloadtest

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The names of a Kubernetes TLS Secret.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
	caFile   = "ca.crt"
)

// Files maps a file name to its content.
type Files map[string][]byte

// ordered returns the names of f: those in first that f has, then the rest sorted.
func (f Files) ordered(first ...string) []string {
	var names []string
	for _, name := range first {
		if _, ok := f[name]; ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// step is one thing a writer does that a reader can see.
type step struct {
	name string
	do   func() error
}

// run does the steps in order and calls between, unless nil, after each but the last. The first error ends it, with
// the files as they are then: nothing is rolled back, as nothing is when a writer is killed.
func run(writer string, between func(step string) error, steps []step) error {
	for i, s := range steps {
		err := s.do()
		if err == nil && between != nil && i < len(steps)-1 {
			err = between(s.name)
		}
		if err != nil {
			return fmt.Errorf("reloadtest: %s: %s: %w", writer, s.name, err)
		}
	}
	return nil
}

// modeOf is the mode a careful writer gives a new file: a private key is for its owner alone.
func modeOf(name string) fs.FileMode {
	if strings.Contains(name, "key") {
		return 0o600
	}
	return 0o644
}

// truncate opens path the way a shell's > does: made if missing, emptied if not.
func truncate(path string) error {
	return os.WriteFile(path, nil, modeOf(filepath.Base(path)))
}

// fill writes data from the start of a file that exists.
func fill(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// writeTemp makes a file of a random name in dir, writes data to it and gives it its mode, in this order.
func writeTemp(dir, pattern string, data []byte, mode fs.FileMode) (path string, err error) {
	file, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", err
	}
	if err := fill(file.Name(), data); err != nil {
		return "", err
	}
	return file.Name(), os.Chmod(file.Name(), mode)
}
