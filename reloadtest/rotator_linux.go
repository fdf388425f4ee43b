// rotator_linux.go has the rotators that need system calls of Linux.

package reloadtest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

func platformRotators() []Rotator {
	rotators := []Rotator{Mmap()}
	if renameat2 != 0 {
		rotators = append(rotators, ExchangeDirs())
	}
	return rotators
}

// ExchangeDirs replaces the directory tls itself: tls.new is filled, the two exchange their names in one system call
// (renameat2 with RENAME_EXCHANGE), and the old one is removed. There is always a tls. It fails with
// [errors.ErrUnsupported] on architectures whose call number it does not know. Linux only. Steps: mkdir; write for each
// file; exchange, cleanup.
func ExchangeDirs() Rotator {
	return wholeDir("directory exchange", func(live, fresh string) []step {
		if !exists(live) {
			return on(fresh, rename(fresh, live))
		}
		return on(fresh,
			step{"exchange", func() error { return exchange(fresh, live) }},
			step{"cleanup", func() error { return os.RemoveAll(fresh) }})
	})
}

// Mmap stores into the mapped file, key first, which no notification tells of as long as the length stays the same: pad
// the files with newlines to make it so. Linux only. Steps: size, if the length changes; store.
func Mmap() Rotator {
	return fileByFile(Rotator{Name: "mmap"}, keyFirst, func(path string, data []byte) []step {
		var steps []step
		if info, err := os.Stat(path); err != nil || info.Size() != int64(len(data)) {
			steps = append(steps, step{"size", func() error {
				if err := put(path, os.O_WRONLY|os.O_CREATE, nil); err != nil {
					return err
				}
				return os.Truncate(path, int64(len(data)))
			}})
		}
		return append(steps, step{"store", func() error { return store(path, data) }})
	})
}

// store copies data into a shared mapping of path, which is as long as data.
func store(path string, data []byte) error {
	if len(data) == 0 {
		return nil // there is no empty mapping
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	mapped, err := syscall.Mmap(int(file.Fd()), 0, len(data), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	copy(mapped, data)
	return syscall.Munmap(mapped)
}

// renameat2 is the number of that system call, which package syscall does not know; zero where this file does not either.
var renameat2 = map[string]uintptr{
	"386": 353, "amd64": 316, "arm": 382, "arm64": 276, "loong64": 276, "ppc64": 357, "ppc64le": 357, "riscv64": 276,
	"s390x": 347,
}[runtime.GOARCH]

func exchange(a, b string) error {
	const (
		atCWD          = -100
		renameExchange = 2
	)
	if renameat2 == 0 {
		return fmt.Errorf("renameat2 on %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	from, err := syscall.BytePtrFromString(a)
	if err != nil {
		return err
	}
	to, err := syscall.BytePtrFromString(b)
	if err != nil {
		return err
	}
	cwd := atCWD
	_, _, errno := syscall.Syscall6(renameat2, uintptr(cwd), uintptr(unsafe.Pointer(from)),
		uintptr(cwd), uintptr(unsafe.Pointer(to)), renameExchange, 0)
	if errno != 0 {
		return fmt.Errorf("renameat2: %w", errno)
	}
	return nil
}
