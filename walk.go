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

// pass is one look at the file system by several walks: each name is looked up once.
type pass map[string]entry

// entry is what a name was found to be.
type entry struct {
	info   fs.FileInfo
	target string // of a symbolic link
	err    error
}

// at looks up the name at a physical path.
func (seen pass) at(full string) entry {
	e, known := seen[full]
	if !known {
		if e.info, e.err = os.Lstat(full); e.err == nil && e.info.Mode()&fs.ModeSymlink != 0 {
			e.target, e.err = os.Readlink(full)
		}
		seen[full] = e
	}
	return e
}

// walk resolves the absolute path of a file.
func (seen pass) walk(p string) walk {
	var w walk
	if err := w.resolve(p, seen); err != nil {
		w.file, w.info, w.err = "", nil, &fs.PathError{Op: "open", Path: p, Err: err}
		w.dangling = w.dangling && isNotExist(err)
	}
	return w
}

// resolve follows p to its end and leaves its marks in w.
func (w *walk) resolve(p string, seen pass) error {
	dir, rest := splitRoot(p)
	if strings.ContainsRune(p, 0) {
		return syscall.EINVAL
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case ".":
			continue
		case "..":
			dir = filepath.Dir(dir) // dir holds no link, so its parent is the lexical one
			continue
		}
		full := filepath.Join(dir, name)
		w.lookups = append(w.lookups, lookup{dir, name})
		e := seen.at(full)
		if e.err != nil {
			return cause(e.err)
		}
		info, target := e.info, e.target
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return syscall.ELOOP
			}
			w.pass(&linkSeen{full, stampOf(info)}, len(rest) == 0)
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
		e := seen.at(dir)
		w.info = e.info
		return cause(e.err)
	}
	return nil
}

// pass notes a link on the way, the last name of what was left or not.
func (w *walk) pass(link *linkSeen, last bool) {
	w.linked = max(w.linked, link.ctime)
	if w.dirLink = link; last {
		w.dirLink, w.dangling = nil, true
	}
}

// splitRoot splits an absolute path into its root and the names below it.
func splitRoot(p string) (root string, names []string) {
	vol := filepath.VolumeName(p)
	return vol + string(filepath.Separator), components(p)
}

// components returns the names in a path. Empty ones are left out, but a slash at the end becomes a ".": like that, it asks
// for a directory before it.
func components(p string) []string {
	p = p[len(filepath.VolumeName(p)):]
	names := strings.FieldsFunc(p, func(r rune) bool { return r < 0x80 && os.IsPathSeparator(uint8(r)) })
	if len(names) > 0 && os.IsPathSeparator(p[len(p)-1]) {
		names = append(names, ".")
	}
	return names
}

// same reports whether both walks found the same file as it is, or looked up the same names and found none.
func (w *walk) same(o *walk) bool {
	if w.err != nil || o.err != nil {
		return w.err != nil && o.err != nil && slices.Equal(w.lookups, o.lookups)
	}
	return w.file == o.file && stampOf(w.info) == stampOf(o.info)
}
