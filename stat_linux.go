package reload

// stat_linux.go is what only Linux can tell of a file.

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// stamp tells one state of a file from another. Inode numbers are reused at once, so they alone prove nothing.
type stamp struct {
	dev, ino, nlink uint64
	size            int64
	mtime, ctime    int64 // nanoseconds since 1970
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.dev, s.ino, s.nlink = uint64(st.Dev), st.Ino, uint64(st.Nlink)
		s.ctime = syscall.TimespecToNsec(st.Ctim)
	}
	return s
}

// openDirs opens files in directories that it opens once each, so that files of one directory come from the same one.
// O_PATH needs search permission only: a directory of mode 0711 is enough (open(2)).
type openDirs map[string]int

func (d *openDirs) open(physical string) (*os.File, error) {
	dir, name := filepath.Dir(physical), filepath.Base(physical)
	fd, ok := (*d)[dir]
	if !ok {
		var err error
		if fd, err = openRetry(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC); err != nil {
			return nil, err
		}
		if *d == nil {
			*d = openDirs{}
		}
		(*d)[dir] = fd
	}
	// O_NONBLOCK: opening a FIFO must not wait for its writer.
	fd, err := openRetry(fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), physical), nil
}

// openPlain opens what a path leads to.
func openPlain(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// close may be deferred before anything is open: it must see the map as it is then.
func (d *openDirs) close() {
	for _, fd := range *d {
		unix.Close(fd)
	}
}

// openRetry is openat(2), again when a signal interrupts it.
func openRetry(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// isMount reports whether the file itself is a mount: a subPath volume, or docker run -v with a file. The directory tells
// nothing of what happens to it.
func isMount(physical string) bool {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, physical, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st); err != nil {
		return false
	}
	return st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// remoteFS names the file system of a directory where changes made elsewhere send no notification here; empty for others.
func remoteFS(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return "SMB"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE"
	case unix.CEPH_SUPER_MAGIC:
		return "Ceph"
	case unix.AFS_FS_MAGIC, unix.AFS_SUPER_MAGIC:
		return "AFS"
	}
	return ""
}
