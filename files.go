package reload

// files.go reads all files of a bundle as one consistent snapshot: every byte of it was on disk at one moment, as far as
// a reader can know. All files are opened before any is read, none may change while it is read, and the paths must lead
// to the same files afterwards.

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

const (
	// maxFile bounds one file. A file of all public roots is a fifth of it.
	maxFile = 1 << 20
	// readTries bounds how often a set that changed under the reader is read again at once.
	readTries = 3
)

// errUnstable says that a file changed while it was read: look again.
var errUnstable = errors.New("changed while it was read")

// file is one file of a bundle as it was found.
type file struct {
	slot     int // in content
	role     string
	path     string
	optional bool // may be missing
	walk     walk
	open     *os.File
	stamp    stamp // as the walk found it
	data     []byte
}

// fileSet is one snapshot.
type fileSet struct {
	pair    bool // there is a keypair
	files   []*file
	seen    pass // what resolve found
	content content
	sealed  bool      // nobody had any of the files open for writing while all were read
	atomic  bool      // published by moving one link: complete as it is
	tied    bool      // that link and the newest file have one change time: which came first is not known
	lacking bool      // an optional file is in the new directory, and its path does not show it yet
	newest  time.Time // last change of any file or of its directory; zero where that is not known
}

// content identifies what is in the files of a bundle: a SHA-256 for each role, zero where there is no file. It is what
// stays in memory of a file, not its bytes.
type content [3][sha256.Size]byte

// shares reports whether some file has the same content in both: a writer that goes file by file may not have come to it
// yet. A nil content shares nothing.
func (c *content) shares(o *content) bool {
	if c == nil {
		return false
	}
	for i := range c {
		if c[i] == o[i] && c[i] != [sha256.Size]byte{} {
			return true
		}
	}
	return false
}

// newSet names the files of p, each path once.
func newSet(p Paths) *fileSet {
	s := &fileSet{pair: p.Cert != ""}
	if s.pair {
		s.files = append(s.files, &file{slot: 0, role: roleCert, path: p.Cert})
		if p.Key != p.Cert {
			s.files = append(s.files, &file{slot: 1, role: roleKey, path: p.Key})
		}
	}
	if p.CA != "" {
		s.files = append(s.files, &file{slot: 2, role: roleCA, path: p.CA, optional: s.pair && !p.CAOnly})
	}
	return s
}

// absolutePaths makes every path of p absolute.
func absolutePaths(p Paths) (Paths, error) {
	for _, path := range []*string{&p.Cert, &p.Key, &p.CA} {
		abs, err := absolute(*path)
		if err != nil {
			return p, err
		}
		*path = abs
	}
	return p, nil
}

// readSet reads the files at p, again at once if they change meanwhile.
func readSet(p Paths) (*fileSet, error) {
	p, err := absolutePaths(p)
	if err != nil {
		return nil, err
	}
	var s *fileSet
	for range readTries {
		s = newSet(p)
		s.resolve()
		if err = s.read(false); !errors.Is(err, errUnstable) {
			break
		}
	}
	return s, err
}

// resolve walks every path.
func (s *fileSet) resolve() {
	seen := pass{}
	for _, f := range s.files {
		if f.walk = seen.walk(f.path); f.walk.err == nil {
			f.stamp = stampOf(f.walk.info)
		}
	}
	s.seen = seen
}

// read opens, reads and verifies the files that resolve found. Nothing stays open.
func (s *fileSet) read(seal bool) error {
	defer s.close()
	err := s.openAll()
	if err == nil {
		err = s.readAll(seal)
	}
	for _, f := range s.files {
		fault := f.still()
		if errors.Is(fault, errUnstable) || fault != nil && err == nil { // err may be of the moment: a file that came meanwhile
			return &fileError{f.role, f.path, fault}
		}
	}
	if err == nil {
		s.layout()
	}
	return err
}

// readAll reads what is open. With seal it keeps writers out meanwhile, where the system can, and notes whether it did: no
// time tells of a write half way, which sets the change time before it copies anything. That is for a set that may be
// complete: elsewhere it would meet the writer that comes to the next file, and turn it away if that opens with O_NONBLOCK.
func (s *fileSet) readAll(seal bool) error {
	sealed := seal
	for _, f := range s.files {
		sealed = sealed && (f.open == nil || lease(f.open))
	}
	for _, f := range s.files {
		if err := f.read(); err != nil {
			return &fileError{f.role, f.path, err} // closing the files gives the leases back
		}
		if !f.missing() {
			s.content[f.slot] = sha256.Sum256(f.data)
		}
	}
	for _, f := range s.files {
		sealed = sealed && (f.open == nil || giveBack(f.open))
	}
	s.sealed = sealed
	return nil
}

// openAll opens every file by its physical path, before any is read: what is open can still be read after its writer
// removed it.
func (s *fileSet) openAll() error {
	var dirs openDirs
	defer dirs.close()
	for _, f := range s.files {
		if f.walk.err != nil {
			if f.optional && isNotExist(f.walk.err) && !f.walk.dangling {
				continue
			}
			return &fileError{f.role, f.path, f.walk.err}
		}
		if err := acceptable(f.walk.info); err != nil { // opening a device can have effects
			return &fileError{f.role, f.path, err}
		}
		opened, err := dirs.open(f.walk.file)
		if err != nil {
			if isNotExist(err) {
				err = errUnstable // it was there a moment ago
			} else {
				err = &fs.PathError{Op: "open", Path: f.path, Err: cause(err)}
			}
			return &fileError{f.role, f.path, err}
		}
		f.open = opened
		info, err := opened.Stat()
		if err != nil {
			return &fileError{f.role, f.path, &fs.PathError{Op: "stat", Path: f.path, Err: cause(err)}}
		}
		if err := acceptable(info); err != nil {
			return &fileError{f.role, f.path, err}
		}
		if stampOf(info) != f.stamp {
			return &fileError{f.role, f.path, errUnstable}
		}
	}
	return nil
}

// acceptable refuses what cannot be a PEM file before a byte of it is read.
func acceptable(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return errors.New("is a directory, want a regular file")
	case !mode.IsRegular():
		return fmt.Errorf("is not a regular file (%s)", mode.Type())
	case info.Size() > maxFile:
		return fmt.Errorf("%d bytes, more than %d", info.Size(), maxFile)
	}
	return nil
}

// missing reports whether there is no file, which only an optional one survives.
func (f *file) missing() bool { return f.walk.err != nil }

// mounted reports whether the file itself is a mount, rather than its directory.
func (f *file) mounted() bool { return f.walk.err == nil && isMount(f.walk.file) }

// read reads one open file, in one buffer of a byte more than it should hold: growing reads can mix two states.
func (f *file) read() error {
	if f.open == nil {
		return nil
	}
	buf := make([]byte, f.stamp.size+1)
	n, err := io.ReadFull(f.open, buf)
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return &fs.PathError{Op: "read", Path: f.path, Err: cause(err)}
	case err == nil || int64(n) != f.stamp.size:
		return errUnstable
	}
	f.data = buf[:n]
	return nil
}

// still returns nil if the path leads to what the walk found, errUnstable if that has changed since, or else why the system
// does not go where the walk went by hand: a path that is too long for it, or a link that it does not follow.
func (f *file) still() error {
	var refused error
	if f.walk.err == nil {
		info, err := os.Stat(f.path)
		switch {
		case err != nil:
			refused = err
		case stampOf(info) != f.stamp:
			return errUnstable
		default:
			return nil
		}
	}
	if again := (pass{}).walk(f.path); !again.same(&f.walk) {
		return errUnstable
	}
	return refused
}

// moved reports whether any path leads elsewhere than before.
func (s *fileSet) moved() bool {
	return slices.ContainsFunc(s.files, func(f *file) bool { return errors.Is(f.still(), errUnstable) })
}

// close closes what openAll opened.
func (s *fileSet) close() {
	for _, f := range s.files {
		if f.open != nil {
			f.open.Close()
			f.open = nil
		}
	}
}

// pairAlone reports whether there is a keypair and no CA file.
func (s *fileSet) pairAlone() bool {
	ca := s.byRole(roleCA)
	return s.pair && (ca == nil || ca.missing())
}

// rewritten reports whether every file has changed since was, or is another one.
func (s *fileSet) rewritten(was sightings) bool {
	for i, f := range s.files {
		if len(was) == 0 || !f.missing() && f.stamp == was[i].stamp {
			return false
		}
	}
	return true
}

// byRole returns the file of a role, nil if the set has none. The file of the certificate is that of the key where one
// path names both.
func (s *fileSet) byRole(role string) *file {
	for _, f := range s.files {
		if f.role == role {
			return f
		}
	}
	if role == roleKey {
		return s.byRole(roleCert)
	}
	return nil
}

// sources hands the content to the validator.
func (s *fileSet) sources() sources {
	src := sources{pair: s.pair}
	if s.pair {
		src.cert, src.key = s.byRole(roleCert).source(), s.byRole(roleKey).source()
	}
	if ca := s.byRole(roleCA); ca != nil {
		src.ca = ca.source()
	}
	return src
}

func (f *file) source() source { return source{f.path, f.data} }

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// cause strips what a system call's error says of the path: ours names the path as it was given.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
