//go:build unix && !linux

package reload

// inode_unix.go reads what stat(2) has on every Unix.

import (
	"io/fs"
	"syscall"
)

// nonblock keeps the opening of a FIFO from waiting for its writer.
const nonblock = syscall.O_NONBLOCK

func inode(info fs.FileInfo) (dev, ino, nlink uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev), uint64(st.Ino), uint64(st.Nlink)
	}
	return 0, 0, 0
}
