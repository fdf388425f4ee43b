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
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return stampOfStat(st)
	}
	return stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
}

func stampOfStat(st *syscall.Stat_t) stamp {
	return stamp{
		dev: uint64(st.Dev), ino: st.Ino, nlink: uint64(st.Nlink), size: st.Size,
		mtime: syscall.TimespecToNsec(st.Mtim), ctime: syscall.TimespecToNsec(st.Ctim),
	}
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

// peek reads what a path leads to, if that is still the file of the stamp. It makes no os.File: that would cost more system
// calls than reading the file does.
func peek(path string, want stamp) (data []byte, ok bool) {
	fd, err := openRetry(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil || stampOfStat(&st) != want {
		return nil, false
	}
	data = make([]byte, want.size+1)
	n, err := unix.Read(fd, data)
	return data[:max(n, 0)], err == nil && int64(n) == want.size
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
