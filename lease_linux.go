package reload

// lease_linux.go keeps writers out of a file while it is read.

import (
	"os"

	"golang.org/x/sys/unix"
)

// lease takes a read lease, which is refused while anybody has the file open for writing (fcntl(2)). A writer that opens
// the file before it is given back waits for these microseconds, and the signal that the kernel then sends is set to one
// whose default is to be ignored. False also where a lease is not permitted: files of another owner, a file system without.
func lease(f *os.File) bool {
	return control(f, func(fd uintptr) error {
		if _, err := unix.FcntlInt(fd, unix.F_SETSIG, int(unix.SIGURG)); err != nil {
			return err
		}
		_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK)
		return err
	})
}

// giveBack ends a lease. False if the kernel has ended it before, for a writer that had waited too long.
func giveBack(f *os.File) bool {
	return control(f, func(fd uintptr) error {
		_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		return err
	})
}

// control calls fn with the descriptor of f and reports whether that went well.
func control(f *os.File, fn func(fd uintptr) error) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = fn(fd) })
	return err == nil && failed == nil
}
