package reload_test

// What is said of notifications that are not to be relied on.

import (
	"context"
	"os"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/seed45259946/reload"
)

var _ = Describe("Notifications", Label("fs"), func() {
	const polling, back = "notifications are not to be relied on, polling", "notifications are back"

	degraded := func(r *reload.Reloader) func() string { return func() string { return r.Status().Degraded } }

	It("that miss one directory stay degraded while others are heard", func(ctx SpecContext) {
		s := newSite()
		k := s.issue()
		for _, dir := range []string{"a", "b"} {
			Expect(os.Mkdir(s.path(dir), 0o755)).To(Succeed())
		}
		s.write("a/tls.crt", k.CertPEM)
		s.write("b/tls.key", k.KeyPEM)
		Expect(os.Chmod(s.path("b/tls.key"), 0o644)).To(Succeed())
		asNobody(s.dir)
		Expect(os.Chmod(s.path("b"), 0o311)).To(Succeed())
		r, err := reload.NewReloader(reload.Paths{Cert: s.path("a/tls.crt"), Key: s.path("b/tls.key")}, "", s.with(heard))
		Expect(err).NotTo(HaveOccurred())
		s.running(ctx, r)
		Eventually(ctx, degraded(r)).Should(Equal("cannot watch " + s.path("b") + ": permission denied"))
		for range 5 {
			last := r.Status().LastLook
			Expect(os.Chmod(s.path("a"), 0o755)).To(Succeed())
			Eventually(ctx, func() time.Time { return r.Status().LastLook }).Should(BeTemporally(">", last))
			Expect(degraded(r)()).NotTo(BeEmpty())
		}
		Expect(s.log.said()).To(Equal([]string{"keypair loaded", polling}))
	}, SpecTimeout(20*time.Second))

	It("that cannot be had are polled for, and are taken up once they can", func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		asNobody(s.dir)
		r := s.reloader(heard)
		free := takeAllInstances()
		defer free()
		s.running(ctx, r)
		Eventually(ctx, degraded(r)).Should(And(HavePrefix("cannot watch "), HaveSuffix("too many open files")))
		k := s.rotate()
		s.hints <- struct{}{}
		Eventually(ctx, func() string { return r.Bundle().Fingerprint }).Should(Equal(k.Fingerprint()))
		free()
		Eventually(ctx, func() string { s.hints <- struct{}{}; return r.Status().Degraded }).Should(BeEmpty())
		Expect(s.log.said()).To(Equal([]string{"keypair loaded", polling, "keypair reloaded", back}))
	}, SpecTimeout(20*time.Second))

	It("are not blamed for a change from before anybody listened", func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader(heard)
		for range 2 {
			k := s.rotate()
			running, stop := context.WithCancel(ctx)
			ended := make(chan struct{})
			go func() { r.Start(running); close(ended) }()
			Eventually(ctx, func() string { return r.Bundle().Fingerprint }).Should(Equal(k.Fingerprint()))
			live := time.Now()
			Eventually(ctx, func() time.Time { s.hints <- struct{}{}; return r.Status().LastLook }).
				Should(BeTemporally(">", live.Add(1100*time.Millisecond)))
			Expect(degraded(r)()).To(BeEmpty())
			stop()
			<-ended
		}
		Expect(s.log.said()).NotTo(ContainElement(polling))
	}, SpecTimeout(20*time.Second))

	It("that keep silent about a change are not relied on from then on", func(ctx SpecContext) {
		s := newSite()
		k, next := padded(s.issue().Files()), padded(s.issue().Files())
		s.put(k)
		r := s.reloader(heard, func(o *reload.WatchOptions) { o.Resync = 300 * time.Millisecond })
		start := time.Now()
		s.running(ctx, r)
		Eventually(ctx, func() time.Time { return r.Status().LastLook }).Should(BeTemporally(">", start))
		for name, data := range next {
			overwriteMapped(s.path(name), data) // which no notification tells of
		}
		Eventually(ctx, func() uint64 { return r.Status().Generation }).Should(BeEquivalentTo(2))
		Eventually(ctx, degraded(r)).Should(Equal("a change was found that no notification had announced"))
		Expect(s.log.said()).To(ContainElement(polling))
	}, SpecTimeout(20*time.Second))
})

// takeAllInstances leaves no inotify instance to the uid.
func takeAllInstances() (free func()) {
	GinkgoHelper()
	var taken []int
	for {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			Expect(err).To(MatchError(unix.EMFILE))
			return func() {
				for _, fd := range taken {
					unix.Close(fd)
				}
				taken = nil
			}
		}
		taken = append(taken, fd)
	}
}

// overwriteMapped writes data, as long as the file, through a mapping of it.
func overwriteMapped(path string, data []byte) {
	GinkgoHelper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	Expect(err).NotTo(HaveOccurred())
	defer f.Close()
	mapped, err := syscall.Mmap(int(f.Fd()), 0, len(data), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	Expect(err).NotTo(HaveOccurred())
	copy(mapped, data)
	Expect(syscall.Munmap(mapped)).To(Succeed())
}
