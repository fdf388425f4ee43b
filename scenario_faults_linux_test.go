package reload_test

// scenario_faults_linux_test.go has what must never go live, and what comes after it.

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/seed45259946/reload"
)

var _ = Describe("A file that is no good", Label("fs"), func() {
	var dir string
	var old gen
	BeforeEach(func() {
		dir = GinkgoT().TempDir()
		old = newGen()
		write(dir, old)
	})

	// spoil puts something in the place of a file.
	type spoil func(path string)
	link := func(target string) spoil {
		return func(path string) { relink(target, path) }
	}
	inPlaceOf := func(make func(path string) error) spoil {
		return func(path string) {
			GinkgoHelper()
			Expect(os.Remove(path)).To(Succeed())
			Expect(make(path)).To(Succeed())
		}
	}

	DescribeTable("keeps the old pair and is told of within a moment, whichever it is:",
		func(ctx SpecContext, spoil spoil, cause types.GomegaMatcher) {
			s := watch(ctx, reload.FromDir(dir))
			for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
				path := filepath.Join(dir, name)
				spoil(path)
				Eventually(ctx, func() error { return s.Status().Pending }).Should(cause, name)
				Expect(s.Reload(ctx)).To(And(cause, MatchError(ContainSubstring(path))), name)
				s.keeps(old)

				Expect(os.RemoveAll(path)).To(Succeed())
				put(path, old.files[name])
				Eventually(ctx, func() error { return s.Status().Pending }).ShouldNot(HaveOccurred(), name)
			}
			fresh := newGen()
			write(dir, fresh)
			s.swapsTo(ctx, fresh)
		},
		Entry("missing", inPlaceOf(func(string) error { return nil }), MatchError(os.ErrNotExist), atMost),
		Entry("empty", inPlaceOf(func(path string) error { return os.WriteFile(path, nil, 0o600) }), MatchError(reload.ErrMalformedPEM), atMost),
		Entry("a directory", inPlaceOf(func(path string) error { return os.Mkdir(path, 0o755) }), MatchError(ContainSubstring("is a directory")), atMost),
		Entry("a FIFO", inPlaceOf(func(path string) error { return syscall.Mkfifo(path, 0o600) }), MatchError(ContainSubstring("not a regular file")), atMost),
		Entry("a socket", inPlaceOf(listenAt), MatchError(ContainSubstring("not a regular file")), atMost),
		Entry("a device", link("/dev/zero"), MatchError(ContainSubstring("not a regular file")), atMost),
		Entry("a dangling link", link("nowhere"), MatchError(os.ErrNotExist), atMost),
		Entry("a link to itself", func(path string) { relink(filepath.Base(path), path) }, MatchError(ContainSubstring("too many levels of symbolic links")), atMost),
		Entry("a gigabyte", func(path string) { Expect(os.Truncate(path, 1<<30)).To(Succeed()) }, MatchError(ContainSubstring("1073741824 bytes, more than")), atMost),
		Entry("a name too long", link(strings.Repeat("x", 300)), MatchError(ContainSubstring("file name too long")), atMost),
	)

	It("because it was cut inside a block never goes live, costs one warning, and keeps nobody busy", func(ctx SpecContext) {
		s := watch(ctx, reload.FromDir(dir))
		put(filepath.Join(dir, "tls.crt"), old.CertPEM[:len(old.CertPEM)-40])
		looks, last := 0, time.Time{}
		Eventually(ctx, func() []string {
			if look := s.Status().LastLook; !look.Equal(last) {
				looks, last = looks+1, look
			}
			return s.warnings()
		}).Should(HaveLen(1)) // after 2 s
		Expect(looks).To(BeNumerically("<", 20))
		for range 10 {
			s.hint(ctx)
		}
		Expect(s.Status().Pending).To(MatchError(reload.ErrMalformedPEM))
		s.keeps(old)
		Expect(s.warnings()).To(ConsistOf("reload failed, keeping previous keypair"))
		Expect(s.tally.failures()).To(Equal(1))
	}, atMost)

	It("because it was cut between blocks goes live after a while, with a warning", func(ctx SpecContext) {
		s := watch(ctx, reload.FromDir(dir))
		began := time.Now()
		put(filepath.Join(dir, "tls.crt"), blocks(old.CertPEM)[0])
		var b *reload.Bundle
		Eventually(ctx, s.swaps).Should(Receive(&b))
		Expect(time.Since(began)).To(BeNumerically(">=", time.Second))
		Expect(b.Fingerprint).To(Equal(old.Fingerprint()))
		Expect(b.Cert.Certificate).To(HaveLen(1))
		Expect(s.warnings()).To(ConsistOf("chain or CA file has become shorter"))
	}, atMost)

	It("because it is missing does not hide behind another that is there", func(ctx SpecContext) {
		s := watch(ctx, reload.FromDir(dir))
		Expect(os.Remove(filepath.Join(dir, "tls.key"))).To(Succeed())
		Expect(s.Reload(ctx)).To(MatchError(os.ErrNotExist))
	}, atMost)
})

var _ = Describe("The end of watching", Label("fs"), func() {
	It("leaves nothing behind, whatever it comes in the middle of", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		for i, begin := range []func(s *scene){
			func(*scene) {},
			func(*scene) { write(dir, newGen()) }, // a look
			func(s *scene) { // settling
				put(filepath.Join(dir, "ca.crt"), newGen().files["ca.crt"])
				Eventually(ctx, func() error { return s.Status().Pending }).Should(HaveOccurred())
			},
			func(s *scene) { // waiting for something better
				put(filepath.Join(dir, "tls.key"), newGen().KeyPEM)
				Eventually(ctx, func() error { return s.Status().Pending }).Should(MatchError(reload.ErrKeyMismatch))
			},
		} {
			write(dir, newGen())
			s := watch(ctx, reload.FromDir(dir))
			begin(s)
			s.stop()
			Expect(s.Status().Generation).To(BeNumerically("<=", 2), fmt.Sprint(i))
		}
	}, atMost)

	It("waits for a callback", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		write(dir, newGen())
		called, done := make(chan struct{}), make(chan struct{})
		s := watch(ctx, reload.FromDir(dir), func(o *reload.WatchOptions) {
			o.OnSwap = func(*reload.Bundle) {
				close(called)
				<-done
			}
		})
		write(dir, newGen())
		Eventually(ctx, called).Should(BeClosed())
		s.end()
		Eventually(ctx, inotifyInUse).Should(BeZero())
		Expect(s.ended).NotTo(Receive())
		close(done)
		s.stop()
	}, atMost)

	It("may come from a callback", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		write(dir, newGen())
		var s *scene
		s = watch(ctx, reload.FromDir(dir), func(o *reload.WatchOptions) {
			o.OnSwap = func(*reload.Bundle) { s.end() }
		})
		write(dir, newGen())
		Eventually(ctx, s.ended).Should(Receive(BeNil()))
		s.end = nil
	}, atMost)
})

// listenAt leaves a socket at path that nobody listens at.
func listenAt(path string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err == nil {
		l.SetUnlinkOnClose(false)
		err = l.Close()
	}
	return err
}
