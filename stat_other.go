//go:build !linux

package reload

// stat_other.go is the portable way to open and identify files.

import (
	"io/fs"
	"os"
	"path/filepath"
)

// stamp tells one state of a file from another. Without change times it is weaker than on Linux: settling makes up for it.
type stamp struct {
	dev, ino, nlink uint64
	size            int64
	mtime, ctime    int64 // nanoseconds since 1970; ctime is unknown, zero
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
	s.dev, s.ino, s.nlink = inode(info)
	return s
}

// openDirs opens files through their directory. On Windows that shares deletion, so that an open file does not stand in
// its writer's way.
type openDirs struct{}

func (*openDirs) open(physical string) (*os.File, error) {
	root, err := os.OpenRoot(filepath.Dir(physical))
	if err != nil {
		return openPlain(physical) // a directory that can be searched but not read
	}
	defer root.Close()
	return root.OpenFile(filepath.Base(physical), os.O_RDONLY|nonblock, 0)
}

func openPlain(physical string) (*os.File, error) {
	return os.OpenFile(physical, os.O_RDONLY|nonblock, 0)
}

// peek reads what a path leads to, if that is still the file of the stamp.
func peek(path string, want stamp) (data []byte, ok bool) {
	f, err := openPlain(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || stampOf(info) != want {
		return nil, false
	}
	found := file{open: f, stamp: want}
	err = found.read()
	return found.data, err == nil
}

func (*openDirs) close() {}

// isMount is not knowable here.
func isMount(string) bool { return false }

// remoteFS is not asked for: notifications are not relied on here in any case.
func remoteFS(string) string { return "" }

// lease and giveBack keep writers out, which is not to be had here.
func lease(*os.File) bool    { return false }
func giveBack(*os.File) bool { return false }
