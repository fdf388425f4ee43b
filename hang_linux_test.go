package reload_test

// A file system that hangs, as a dead network mount does: fanotify holds whoever opens or reads a file until somebody permits
// it.

import (
	"context"
	"encoding/binary"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"
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

	It("delays no handshake while it is waited for, nor anything else that asks what is live", func(ctx SpecContext) {
		s := newSite()
		old := newGen()
		write(s.dir, old)
		r := s.reloader(hasty)
		write(s.dir, newGen())
		reader := hangRead(s.path("tls.key"))
		reloaded := make(chan error, 1)
		go func() { reloaded <- r.Reload(ctx) }()
		reader.hangs()
		told := make(chan [][]byte, 1)
		go func() { // ends at once; if not, with the read
			r.Status()
			r.Check(nil)
			r.Bundle()
			told <- handshake(r.GetCertificate)
		}()
		Eventually(ctx, told).Should(Receive(showing(old)))
		Expect(reloaded).NotTo(Receive())
		reader.release()
		Eventually(ctx, reloaded).Should(Receive(BeNil()))
	}, SpecTimeout(30*time.Second))

	// The certificate has been read when the key hangs, and only another look at the files tells that it is another one by
	// then: all are as long as those before, all pairs have one key, and nothing settles.
	DescribeTable("mixes nothing that was read before with what is written meanwhile:",
		func(ctx SpecContext, replace func(path string, data []byte), names ...string) {
			s := newSite()
			old := newGen().padded()
			skipped, fresh := old.sameKey().padded(), old.sameKey().padded()
			whole := genOf(fresh.Keypair, skipped.cas...)
			if slices.Contains(names, "ca.crt") {
				whole = fresh
			}
			write(s.dir, old)
			r := s.reloader(hasty)
			write(s.dir, skipped)
			s.later()

			reader := hangRead(s.path("tls.key"))
			reloaded, loaded := make(chan error, 1), make(chan *reload.Bundle, 1)
			go func() { reloaded <- r.Reload(ctx) }()
			go func() {
				b, _ := reload.LoadBundle(reload.FromDir(s.dir))
				loaded <- b
			}()
			reader.hangs()
			reader.hangs()
			for _, name := range names {
				replace(s.path(name), fresh.files[name])
			}
			reader.release()
			Eventually(ctx, reloaded).Should(Receive(BeNil()))
			Expect(r.Bundle()).To(beWhole(whole))
			Expect(r.Status().Generation).To(BeEquivalentTo(2), "there was one swap")
			var b *reload.Bundle
			Eventually(ctx, loaded).Should(Receive(&b))
			Expect(b).To(beWhole(whole))
		},
		Entry("the certificate, in place", put, "tls.crt", atMost),
		Entry("the certificate, by rename", putNew, "tls.crt", atMost),
		Entry("certificate and CA file, in place", put, "tls.crt", "ca.crt", atMost),
		Entry("certificate and CA file, by rename", putNew, "tls.crt", "ca.crt", atMost),
	)

	It("puts nothing in the place of what went live while it hung, whoever calls Reload meanwhile", func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader(hasty)
		s.rotate()
		reader := hangRead(s.path("tls.key"))
		answers := make(chan error, 10)
		ask := func() { answers <- r.Reload(ctx) }
		go ask()
		reader.hangs()
		k := s.issue()
		Expect(s.disk.Rename(k.Files())).To(Succeed()) // what hangs has the files of before
		r.Store().Store(bundleOf(k))
		for range cap(answers) - 1 {
			go ask()
		}
		reader.release()
		for range cap(answers) {
			Eventually(ctx, answers).Should(Receive(BeNil()))
		}
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		Expect(r.Status().Generation).To(BeEquivalentTo(1), "nothing was swapped")
	}, SpecTimeout(30*time.Second))

	DescribeTable("is of no account once it was given up on, whatever it has found, where newer files", func(ctx SpecContext, live bool) {
		s := newSite()
		s.rotate()
		r := s.reloader(hasty)
		before := gleak.Goroutines()
		s.rotate()
		reader := hangRead(s.path("tls.key"))
		hurried, giveUp := context.WithCancel(ctx)
		defer giveUp()
		answers := make(chan error, 10)
		go func() { answers <- r.Reload(hurried) }()
		reader.hangs()
		giveUp()
		Eventually(ctx, answers).Should(Receive(MatchError(context.Canceled)))
		reader.release()
		Eventually(ctx, gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before), "the read is over")

		k := s.rotate()
		swaps := 2
		if live {
			r.Store().Store(bundleOf(k))
			swaps = 1
		}
		for range cap(answers) {
			go func() { answers <- r.Reload(ctx) }()
		}
		for range cap(answers) {
			Eventually(ctx, answers).Should(Receive(BeNil()))
		}
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		Expect(r.Status().Generation).To(BeEquivalentTo(swaps))
	},
		Entry("are there", false, SpecTimeout(30*time.Second)),
		Entry("are live", true, SpecTimeout(30*time.Second)),
	)
})

// hasty has next to nothing settle: what is to go live does so in the look that finds it.
func hasty(o *reload.WatchOptions) { o.Settle = time.Nanosecond }

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
