//go:build unix

package reload_test

// Faults of permission, seen by another uid than root.

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
)

var _ = Describe("A fault on disk", func() {
	It("of an unreadable key heals by a chmod alone", inBubble, func(ctx SpecContext) {
		s := newSite()
		old := s.rotate()
		r := s.started(ctx)
		asNobody(s.dir)
		k := s.rotate()
		Expect(os.Chmod(s.path("tls.key"), 0)).To(Succeed())
		s.look()
		Expect(pendingOf(r)).To(MatchError("reload: key: open " + s.path("tls.key") + ": permission denied"))
		Expect(pendingOf(r)).To(MatchError(fs.ErrPermission))
		pass(30 * time.Second)
		Expect(s.shown(r)).To(Equal(old.Fingerprint()))
		Expect(s.tally.failures()).To(Equal(1))
		Expect(os.Chmod(s.path("tls.key"), 0o600)).To(Succeed())
		pass(reload.DefaultResync)
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("of an unreadable directory heals by a chmod alone", inBubble, func(ctx SpecContext) {
		s := newSite()
		old := s.rotate()
		r := s.started(ctx)
		asNobody(s.dir)
		k := s.rotate()
		Expect(os.Chmod(s.dir, 0)).To(Succeed())
		s.look()
		Expect(pendingOf(r)).To(MatchError(fs.ErrPermission))
		pass(20 * time.Second)
		Expect(s.shown(r)).To(Equal(old.Fingerprint()))
		Expect(os.Chmod(s.dir, 0o711)).To(Succeed()) // to be searched is enough
		pass(reload.DefaultResync)
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))
})

// asNobody runs the rest of a spec under a uid that has no rights but to dir, which it is given. The uid is this
// process's alone: the kernel counts inotify instances for each.
func asNobody(dir string) {
	GinkgoHelper()
	nobody := 50_000 + os.Getpid()%10_000
	if os.Getuid() != 0 {
		Skip("needs root: files that another uid cannot read")
	}
	for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		Expect(os.Chmod(path, 0o755)).To(Succeed())
	}
	Expect(os.Chown(dir, nobody, nobody)).To(Succeed())
	entries, err := os.ReadDir(dir)
	Expect(err).NotTo(HaveOccurred())
	for _, e := range entries {
		Expect(os.Chown(dir+"/"+e.Name(), nobody, nobody)).To(Succeed())
	}
	Expect(syscall.Seteuid(nobody)).To(Succeed())
	DeferCleanup(syscall.Seteuid, 0)
}
