package reload

// walk.go resolves a path by hand, one component at a time, to learn in which directories its names are looked up. A
// changed outcome needs a changed entry in one of these directories, or a mount; so these are the directories to watch.

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// maxLinks bounds the symbolic links of one path, as the kernel does (path_resolution(7)).
const maxLinks = 40

// lookup is one step of a resolution: name was looked up in the physical directory dir.
type lookup struct{ dir, name string }

// walk is the outcome of resolving one path.
type walk struct {
	lookups []lookup
	file    string // physical path of what was found, without symbolic links; empty with err
	info    fs.FileInfo
	err     error // an *fs.PathError about the path as it was given
	// dirLink is the last symbolic link passed, where that leads to a directory and no link follows it.
	dirLink *linkSeen
	linked  int64 // change time of the newest link passed
	// dangling says that a link in place of the file itself leads nowhere.
	dangling bool
}

// linkSeen is a symbolic link on the way.
type linkSeen struct {
	path string
	stamp
}

// absolute makes p absolute without cleaning it: x/../y is not y where x is a link.
func absolute(p string) (string, error) {
	if p == "" || filepath.IsAbs(p) {
		return p, nil
	}
	if runtime.GOOS == "windows" { // paths relative to a drive; and the system itself cleans them
		return filepath.Abs(p)
	}
	wd, err := os.Getwd()
	return wd + string(filepath.Separator) + p, err
}

// walkPath resolves the absolute path p.
func walkPath(p string) walk {
	var w walk
	if err := w.resolve(p); err != nil {
		w.file, w.info, w.err = "", nil, &fs.PathError{Op: "open", Path: p, Err: err}
		w.dangling = w.dangling && isNotExist(err)
	}
	return w
}

// resolve follows p to its end and leaves its marks in w.
func (w *walk) resolve(p string) error {
	dir, rest := splitRoot(p)
	if strings.ContainsRune(p, 0) {
		return syscall.EINVAL
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			dir = filepath.Dir(dir) // dir holds no link, so its parent is the lexical one
			continue
		}
		full := filepath.Join(dir, name)
		w.lookups = append(w.lookups, lookup{dir, name})
		info, err := os.Lstat(full)
		if err != nil {
			return cause(err)
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(full)
			if err != nil {
				return cause(err)
			}
			if links++; links > maxLinks {
				return syscall.ELOOP
			}
			link := &linkSeen{full, stampOf(info)}
			w.linked = max(w.linked, link.ctime)
			w.dirLink = nil
			if len(rest) > 0 {
				w.dirLink = link
			}
			w.dangling = w.dangling || len(rest) == 0
			if filepath.IsAbs(target) {
				dir, _ = splitRoot(target)
			}
			rest = append(components(target), rest...)
		case len(rest) == 0:
			w.file, w.info = full, info
		case !info.IsDir():
			return syscall.ENOTDIR
		default:
			dir = full
		}
	}
	if w.file == "" {
		w.file = dir // the path ends in a directory: "/", "..", or a link to one of these
		info, err := os.Lstat(dir)
		if err != nil {
			return cause(err)
		}
		w.info = info
	}
	return nil
}

// splitRoot splits an absolute path into its root and the names below it.
func splitRoot(p string) (root string, names []string) {
	vol := filepath.VolumeName(p)
	return vol + string(filepath.Separator), components(p)
}

// components returns the names in a path, without empty ones and ".".
func components(p string) []string {
	names := strings.FieldsFunc(p[len(filepath.VolumeName(p)):], func(r rune) bool { return r < 0x80 && os.IsPathSeparator(uint8(r)) })
	kept := names[:0]
	for _, n := range names {
		if n != "." {
			kept = append(kept, n)
		}
	}
	return kept
}

// same reports whether both walks looked up the same names and ended alike: at the same file, unchanged, or at none.
func (w *walk) same(o *walk) bool {
	if (w.err == nil) != (o.err == nil) || !slices.Equal(w.lookups, o.lookups) {
		return false
	}
	return w.err != nil || w.file == o.file && stampOf(w.info) == stampOf(o.info)
}
