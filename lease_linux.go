package reload

// lease_linux.go asks the kernel whether a writer has a file open.

import (
	"os"

	"golang.org/x/sys/unix"
)

// noWriter reports whether nobody has the file open for writing: a read lease is refused while somebody has (fcntl(2)).
// It is given back at once. A writer that opens the file in these microseconds waits for their end, and the signal that
// the kernel then sends is set to one whose default is to be ignored. It is asked only of a set that looks complete, so
// that it does not meet a writer half way through. False also where the lease is not permitted: files of another owner.
func noWriter(f *os.File) (none bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		if _, err := unix.FcntlInt(fd, unix.F_SETSIG, int(unix.SIGURG)); err != nil {
			return
		}
		if _, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); err != nil {
			return
		}
		_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		none = err == nil
	})
	return none && err == nil
}
