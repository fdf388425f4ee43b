package reload_test

// fuse_linux_test.go is a file system that changes behind its mount, as a network mount does: nothing announces it.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = mountWorld.describe("Where a change is not announced,", func() {
	It("a file system that changes elsewhere is read every ten seconds, degraded", func(ctx SpecContext) {
		dir, old, fresh := GinkgoT().TempDir(), newGen(), newGen()
		remote := mountRemote(dir, old.files)
		s := watch(ctx, reload.FromDir(dir))
		Expect(s.Status().Degraded).To(Equal(filepath.Join(dir, "tls.crt") + " is on FUSE, where changes made elsewhere are not announced"))
		remote.change(fresh.files)
		s.swapsTo(ctx, fresh)
		s.stop()
	}, atMost)
})

// remote is such a file system: one directory of files, by FUSE (linux/fuse.h).
type remote struct {
	device int

	mu    sync.Mutex // guards the rest
	files reloadtest.Files
	epoch uint64
}

// mountRemote mounts files on dir, until the end of the spec.
func mountRemote(dir string, files reloadtest.Files) *remote {
	GinkgoHelper()
	device, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	allowed(err)
	r := &remote{device: device, files: files}
	ended := make(chan struct{})
	DeferCleanup(func() { <-ended; syscall.Close(device) })
	if err := syscall.Mount("remote", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40755,user_id=%d,group_id=%d", device, os.Getuid(), os.Getgid())); err != nil {
		close(ended)
		allowed(err)
	}
	DeferCleanup(syscall.Unmount, dir, 0)
	go func() { // ends when dir is unmounted
		defer close(ended)
		r.serve()
	}()
	return r
}

// change replaces all files.
func (r *remote) change(files reloadtest.Files) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files = files
	r.epoch++
}

// serve answers every call.
func (r *remote) serve() {
	for buf := make([]byte, 1<<17); ; {
		n, err := syscall.Read(r.device, buf)
		if err == syscall.EINTR || err == syscall.EAGAIN {
			continue
		}
		if err != nil {
			return
		}
		call := buf[:n]
		opcode, unique, node := binary.NativeEndian.Uint32(call[4:]), call[8:16], binary.NativeEndian.Uint64(call[16:])
		if opcode == 2 || opcode == 36 || opcode == 42 { // FORGET, INTERRUPT, BATCH_FORGET: no answer
			continue
		}
		reply, errno := r.answer(opcode, node, call[40:])
		out := binary.NativeEndian.AppendUint32(nil, uint32(16+len(reply)))
		out = binary.NativeEndian.AppendUint32(out, uint32(-int32(errno)))
		syscall.Write(r.device, slices.Concat(out, unique, reply))
	}
}

// answer is the reply to one call for a node: 1 is the directory, the files follow by name.
func (r *remote) answer(opcode uint32, node uint64, in []byte) ([]byte, syscall.Errno) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := []string{"ca.crt", "tls.crt", "tls.key"}
	switch opcode {
	case 1: // LOOKUP
		name, _, _ := bytes.Cut(in, []byte{0})
		i := slices.Index(names, string(name))
		if i < 0 {
			return nil, syscall.ENOENT
		}
		return slices.Concat(words64(uint64(i+2), 0, 0, 0), make([]byte, 8), r.attributes(uint64(i+2), len(r.files[names[i]]))), 0
	case 3: // GETATTR
		size := 0
		if node > 1 {
			size = len(r.files[names[node-2]])
		}
		return slices.Concat(make([]byte, 16), r.attributes(node, size)), 0
	case 14: // OPEN, without a cache
		return words64(0, 1), 0
	case 15: // READ
		data := r.files[names[node-2]]
		at := min(int(binary.NativeEndian.Uint64(in[8:])), len(data))
		return data[at:min(at+int(binary.NativeEndian.Uint32(in[16:])), len(data))], 0
	case 17: // STATFS
		return make([]byte, 80), 0
	case 18, 25, 38: // RELEASE, FLUSH, DESTROY
		return nil, 0
	case 26: // INIT, of version 7.31
		reply := make([]byte, 64)
		binary.NativeEndian.PutUint32(reply, 7)
		binary.NativeEndian.PutUint32(reply[4:], 31)
		binary.NativeEndian.PutUint32(reply[20:], 4096)
		return reply, 0
	default:
		return nil, syscall.ENOSYS
	}
}

// attributes are those of a node. Times tell of each change.
func (r *remote) attributes(node uint64, size int) []byte {
	mode := uint32(syscall.S_IFREG | 0o644)
	if node == 1 {
		mode = syscall.S_IFDIR | 0o755
	}
	out := words64(node, uint64(size), 1, r.epoch, r.epoch, r.epoch)
	for _, word := range []uint32{0, 0, 0, mode, 1, uint32(os.Getuid()), uint32(os.Getgid()), 0, 4096, 0} {
		out = binary.NativeEndian.AppendUint32(out, word)
	}
	return out
}

func words64(words ...uint64) (out []byte) {
	for _, w := range words {
		out = binary.NativeEndian.AppendUint64(out, w)
	}
	return out
}
