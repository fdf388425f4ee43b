package reload_test

// A file system that hangs, as a dead network mount does: fanotify holds whoever opens or reads a file until somebody permits
// it.

import (
	"context"
	"encoding/binary"
	"os"
	"sync"
	"time"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/seed45259946/reload"
)

var _ = Describe("A read that hangs", Label("fs"), func() {
	It("ends no handshake, is a fault after five seconds, and heals by itself", func(ctx SpecContext) {
		s := newSite()
		old := s.rotate()
		r := s.reloader()
		k := s.issue()
		Expect(s.disk.Rename(k.Files())).To(Succeed())
		reader := hang(s.path("tls.key"))

		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		Expect(r.Reload(short)).To(MatchErrorStrictly(context.DeadlineExceeded))
		Expect(r.Reload(ctx)).To(MatchError("reload: no answer from the file system within 5s"))
		Expect(r.Status().Pending).To(MatchError(ContainSubstring("no answer")))
		Expect(s.shown(r)).To(Equal(old.Fingerprint()))
		Expect(s.tally.failures()).To(Equal(1))

		reader.release()
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("does not keep Start from returning", func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader(func(o *reload.WatchOptions) { o.PollOnly = false })
		reader := hang(s.path("tls.key"))
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- r.Start(running) }()
		reader.hangs()
		start := time.Now()
		stop()
		Eventually(ctx, ended).Should(Receive(BeNil()))
		Expect(time.Since(start)).To(BeNumerically("<", 4*time.Second), "a second, on a machine with time")
		Expect(s.tally.liveUntil()).To(BeZero())
	}, SpecTimeout(30*time.Second))
})

// hung is a file that nobody can open.
type hung struct{ group *os.File }

// hang makes every open of the file at path wait until release, which the end of the spec calls at the latest.
func hang(path string) hung {
	GinkgoHelper()
	return hangAt(path, unix.FAN_OPEN_PERM)
}

// hangRead is hang for every read of the file.
func hangRead(path string) hung {
	GinkgoHelper()
	return hangAt(path, unix.FAN_ACCESS_PERM)
}

func hangAt(path string, what uint64) hung {
	GinkgoHelper()
	if os.Getuid() != 0 {
		Skip("needs root: fanotify permission events")
	}
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC, unix.O_RDONLY)
	if err != nil {
		Skip("no fanotify here: " + err.Error())
	}
	h := hung{os.NewFile(uintptr(fd), "fanotify")}
	DeferCleanup(h.release)
	Expect(unix.FanotifyMark(fd, unix.FAN_MARK_ADD, what, unix.AT_FDCWD, path)).To(Succeed())
	return h
}

// hangs returns once somebody waits, and what lets him go on.
func (h hung) hangs() (permit func()) {
	GinkgoHelper()
	buf := make([]byte, unsafe.Sizeof(unix.FanotifyEventMetadata{}))
	_, err := h.group.Read(buf)
	Expect(err).NotTo(HaveOccurred())
	fd := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&buf[0])).Fd
	closed := sync.OnceFunc(func() { unix.Close(int(fd)) })
	DeferCleanup(closed)
	return func() {
		GinkgoHelper()
		answer := binary.NativeEndian.AppendUint32(nil, uint32(fd)) // struct fanotify_response
		Expect(h.group.Write(binary.NativeEndian.AppendUint32(answer, unix.FAN_ALLOW))).To(Equal(len(answer) + 4))
		closed()
	}
}

// release permits everything.
func (h hung) release() { h.group.Close() }
