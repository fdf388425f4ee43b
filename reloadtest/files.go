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

// step is one thing a writer does that a reader can see.
type step struct {
	name string
	do   func() error
}

// run does the steps in order and calls between, unless nil, after each but the last. The first error ends it, with
// the files as they are then: nothing is rolled back, as nothing is when a writer is killed.
func run(writer string, steps []step, between func(step string) error) error {
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

// on returns the steps with the file's name after the verb, as hooks hear them.
func on(path string, steps ...step) []step {
	for i := range steps {
		steps[i].name += " " + filepath.Base(path)
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

// truncate makes path if it is missing and empties it if not, as a shell's > does.
func truncate(path string) step {
	return step{"truncate", func() error { return os.WriteFile(path, nil, modeOf(path)) }}
}

// write puts data at the start of path, which exists.
func write(path string, data []byte) step {
	return step{"write", func() error { return put(path, os.O_WRONLY, data) }}
}

// create makes path, which must not exist, empty and for its owner alone.
func create(path string) step {
	return step{"create", func() error {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		return file.Close()
	}}
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
	_, err = file.Write(data)
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
