// files.go holds what all writers share: file sets, the steps of a rotation, and the small operations they are made of.

package reloadtest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
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
	for _, name := range append(slices.Clone(first), slices.Sorted(maps.Keys(f))...) {
		if _, ok := f[name]; ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// step is one thing a writer does that a reader can see. A step without a name is cleanup that the system does when a
// process ends: hooks do not hear of it, and it is done even if the rotation ends before its turn.
type step struct {
	name string
	do   func() error
}

// run does the steps in order and calls between, unless nil, after each but the last. The first error ends it, with
// the files as they are then: nothing is rolled back, as nothing is when a writer is killed.
func run(writer string, steps []step, between func(step string) error) error {
	last, failed := 0, error(nil)
	for i, s := range steps {
		if s.name != "" {
			last = i
		}
	}
	for i, s := range steps {
		if s.name == "" {
			s.do()
			continue
		}
		if failed != nil {
			continue
		}
		err := s.do()
		if err == nil && between != nil && i < last {
			err = between(s.name)
		}
		if err != nil {
			failed = fmt.Errorf("reloadtest: %s: %s: %w", writer, s.name, err)
		}
	}
	return failed
}

// on returns the steps with the file's name after the verb, as hooks hear them.
func on(path string, steps ...step) []step {
	for i := range steps {
		if steps[i].name != "" {
			steps[i].name += " " + filepath.Base(path)
		}
	}
	return steps
}

// modeOf is the mode a careful writer gives a new file: a private key is for its owner alone.
func modeOf(path string) fs.FileMode {
	if strings.Contains(filepath.Base(path), "key") {
		return 0o600
	}
	return 0o644
}

// The constructors below make the steps that more than one writer has.

// piece is a part of a file's content and the verb of the step that writes it.
type piece struct {
	verb string
	data []byte
}

// overwrite empties path, or makes it, and writes the pieces, as a shell's > does.
func overwrite(path string, pieces ...piece) []step {
	return output(path, "truncate", os.O_CREATE|os.O_TRUNC, modeOf(path), pieces)
}

// create makes path, which must not exist, for its owner alone and writes data to it.
func create(path string, data []byte) []step {
	return output(path, "create", os.O_CREATE|os.O_EXCL, 0o600, []piece{{"write", data}})
}

// output opens path and writes the pieces, each in a step of its own, and holds it open until the last, as programs do.
func output(path, verb string, flags int, mode fs.FileMode, pieces []piece) []step {
	var file *os.File
	steps := []step{{verb, func() (err error) {
		file, err = os.OpenFile(path, os.O_WRONLY|flags, mode)
		return err
	}}}
	for i, piece := range pieces {
		steps = append(steps, step{piece.verb, func() error {
			_, err := file.Write(piece.data)
			if i == len(pieces)-1 {
				err = errors.Join(err, file.Close())
			}
			return err
		}})
	}
	return append(steps, step{"", func() error { return file.Close() }}) // harmless if it is closed, or never was open
}

// write puts data at the start of path, which exists.
func write(path string, data []byte) step {
	return step{"write", func() error { return put(path, os.O_WRONLY, data) }}
}

// chmod opens path to whom it is for, whatever the umask.
func chmod(path string) step {
	return step{"chmod", func() error { return os.Chmod(path, modeOf(path)) }}
}

// setTime gives path a modification time. To a watch that is a change of attributes where the access time is set along
// with it, and a write where it is not.
func setTime(path string, accessed, modified time.Time) step {
	return step{"time", func() error { return os.Chtimes(path, accessed, modified) }}
}

// unlink removes path if it is there.
func unlink(path string) step {
	return step{"unlink", func() error { return unlinkAny(path) }}
}

// symlink makes path a link to target, in the place of one that an unfinished rotation left behind.
func symlink(target, path string) step {
	return step{"link", func() error {
		if err := unlinkAny(path); err != nil {
			return err
		}
		return os.Symlink(target, path)
	}}
}

// rename moves from over path.
func rename(from, path string) step {
	return step{"rename", func() error { return os.Rename(from, path) }}
}

func unlinkAny(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// put opens path with flags and writes data in one system call.
func put(path string, flags int, data []byte) error {
	file, err := os.OpenFile(path, flags, modeOf(path))
	if err != nil {
		return err
	}
	if len(data) > 0 {
		_, err = file.Write(data)
	}
	return errors.Join(err, file.Close())
}

// chown gives path, or the link that path is, the group and owner it has anyway, for the change event that this makes.
func chown(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return os.Lchown(path, os.Getuid(), os.Getgid())
}

// earlier returns a time before path was last modified, which a source may have that was made before path was.
func earlier(path string) time.Time {
	if info, err := os.Stat(path); err == nil {
		return info.ModTime().Add(-time.Minute)
	}
	return time.Now().Add(-24 * time.Hour)
}

// exists reports whether there is anything at path, a dangling link included.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
