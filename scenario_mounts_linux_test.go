package reload_test

// scenario_mounts_linux_test.go has changes that no notification announces, or that reach a file by another way than its
// directory.

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// resyncing are options under which a change is found that nothing announces.
func resyncing(o *reload.WatchOptions) { o.Resync = often }

var _ = Describe("A change that does not come by its directory", Label("fs"), func() {
	var top, dir string
	BeforeEach(func() {
		top = GinkgoT().TempDir()
		dir = mkdir(top, "tls")
	})

	It("is heard of where a file has a second name", func(ctx SpecContext) {
		other, old, fresh := mkdir(top, "other"), newGen(), newGen()
		write(other, old)
		for name := range old.files {
			Expect(os.Link(filepath.Join(other, name), filepath.Join(dir, name))).To(Succeed())
		}
		s := watch(ctx, reload.FromDir(dir)).calmly()
		write(other, fresh)
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("but by a mapping of the file is found by resync, which then no longer trusts notifications", func(ctx SpecContext) {
		r := reloadtest.Mmap()
		old, fresh := newGen().padded(), newGen().padded()
		Expect(r.Write(dir, old.files, nil)).To(Succeed())
		s := watch(ctx, reload.FromDir(dir), resyncing)
		Expect(r.Write(dir, fresh.files, nil)).To(Succeed())
		s.swapsTo(ctx, fresh)
		Eventually(ctx, func() string { return s.Status().Degraded }).Should(Equal("a change was found that no notification had announced"))
		Expect(s.warnings()).To(ConsistOf("notifications are not to be relied on, polling"))
	}, atMost)
})

var _ = mountWorld.describe("Where a change is not announced,", func() {
	var top, dir string
	BeforeEach(func() {
		top = GinkgoT().TempDir()
		dir = mkdir(top, "tls")
	})

	It("a bind mount over the directory is found by resync, and so is its end", func(ctx SpecContext) {
		gens := newGens(3)
		other := mkdir(top, "other")
		write(dir, gens[0])
		write(other, gens[1])
		s := watch(ctx, reload.FromDir(dir), resyncing)
		bind(other, dir)
		s.swapsTo(ctx, gens[1])
		write(other, gens[2]) // by its other name
		s.swapsTo(ctx, gens[2])
		unmount(ctx, dir)
		s.swapsTo(ctx, gens[0])
	}, atMost)

	It("a volume that is unmounted and mounted anew is found by resync, and watched again", func(ctx SpecContext) {
		gens := newGens(3)
		mount("tmpfs", dir, "tmpfs", 0, "")
		write(dir, gens[0])
		s := watch(ctx, reload.FromDir(dir))
		unmount(ctx, dir)
		s.hint(ctx) // as a resync would have it look
		Expect(s.Status().Pending).To(MatchError(os.ErrNotExist))
		s.keeps(gens[0])
		mount("tmpfs", dir, "tmpfs", 0, "")
		write(dir, gens[1])
		s.hint(ctx)
		s.swapsTo(ctx, gens[1])
		write(dir, gens[2])
		s.swapsTo(ctx, gens[2])
	}, atMost)

	It("a file that is a mount is told of what is written at its source", func(ctx SpecContext) {
		source, old, fresh := mkdir(top, "source"), newGen(), newGen()
		write(source, old)
		bindFiles(source, dir)
		s := watch(ctx, reload.FromDir(dir)).calmly()
		write(source, fresh)
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("a subPath of a volume stays as it is, with one warning", func(ctx SpecContext) {
		old := newGen()
		volume := reloadtest.Kubelet{Dir: filepath.Join(top, "volume")}
		mkdir(volume.Dir)
		Expect(volume.Update(old.files)).To(Succeed())
		bindFiles(volume.Dir, dir)
		s := watch(ctx, reload.FromDir(dir))
		for _, g := range newGens(3) {
			Expect(volume.Update(g.files)).To(Succeed())
			Eventually(ctx, s.warnings).Should(ConsistOf(frozen))
			s.stays(ctx, old)
		}
	}, atMost)

	It("a file that is a mount and whose source is renamed over stays as it is, with one warning", func(ctx SpecContext) {
		source, old := mkdir(top, "source"), newGen()
		write(source, old)
		bindFiles(source, dir)
		s := watch(ctx, reload.FromDir(dir))
		for name, data := range newGen().files {
			putNew(filepath.Join(source, name), data)
		}
		Eventually(ctx, s.warnings).Should(ConsistOf(frozen))
		s.stays(ctx, old)
	}, atMost)

	It("a file that is unmounted and mounted anew is found by resync", func(ctx SpecContext) {
		gens := newGens(2)
		for i, g := range gens {
			write(mkdir(top, []string{"1", "2"}[i]), g)
		}
		bindFiles(filepath.Join(top, "1"), dir)
		s := watch(ctx, reload.FromDir(dir), resyncing)
		for name := range gens[1].files {
			Expect(syscall.Unmount(filepath.Join(dir, name), syscall.MNT_DETACH)).To(Succeed()) // while it is read
			bind(filepath.Join(top, "2", name), filepath.Join(dir, name))
		}
		s.swapsTo(ctx, gens[1])
	}, atMost)

	It("a lower layer that changes is found by resync, which then no longer trusts notifications", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		mount("tmpfs", top, "tmpfs", 0, "")
		dir := mkdir(top, "merged")
		lower := mkdir(top, "lower")
		mkdir(top, "upper")
		mkdir(top, "work")
		write(lower, old)
		mount("overlay", dir, "overlay", 0, "lowerdir="+lower+",upperdir="+top+"/upper,workdir="+top+"/work")
		s := watch(ctx, reload.FromDir(dir), resyncing)
		write(lower, fresh)
		s.swapsTo(ctx, fresh)
		Eventually(ctx, func() string { return s.Status().Degraded }).ShouldNot(BeEmpty())
	}, atMost)
})

var _ = mountWorld.describe("A file that somebody has open for writing", func() {
	var top string
	var old gen
	BeforeEach(func() { top, old = GinkgoT().TempDir(), newGen().withoutCA() })

	// overlay mounts one, with the files of old in its lower layer, and returns the link to them.
	overlay := func() string {
		GinkgoHelper()
		mount("tmpfs", top, "tmpfs", 0, "")
		lower, dir := mkdir(top, "lower"), mkdir(top, "merged")
		release(lower, old)
		mount("overlay", dir, "overlay", 0, "lowerdir="+lower+",upperdir="+mkdir(top, "upper")+",workdir="+mkdir(top, "work"))
		return filepath.Join(dir, "current")
	}

	It("by another mount is not complete before it is closed", func(ctx SpecContext) {
		current, other := release(top, old), mkdir(top, "other")
		isHeldBack(ctx, current, old, func(_ string, data, more []byte) pen {
			bind(filepath.Join(top, "release"), other)
			return opened(os.O_TRUNC)(filepath.Join(other, "tls.crt"), data, more)
		})
	}, atMost)

	It("in an overlay is not complete before it is closed", func(ctx SpecContext) {
		isHeldBack(ctx, overlay(), old, opened(os.O_TRUNC))
	}, atMost)

	It("below an overlay, where nothing tells of that, goes live once it has settled", func(ctx SpecContext) {
		current, fresh := overlay(), newGen()
		for name, data := range old.files {
			put(filepath.Join(current, name), data) // copied up
		}
		s := watch(ctx, reload.FromDir(current), func(o *reload.WatchOptions) { o.Settle = time.Second })
		upper := filepath.Join(top, "upper", "release")
		put(filepath.Join(upper, "tls.key"), fresh.KeyPEM)
		p := opened(os.O_TRUNC)(filepath.Join(upper, "tls.crt"), fresh.CertPEM, nil)
		s.hint(ctx)
		s.keeps(old)
		p.write(fresh.cas[0].PEM())
		p.close()
		s.hint(ctx)
		s.swapsTo(ctx, fresh.rooted())
	}, atMost)
})

var _ = mountWorld.describe("Where notifications are shared,", func() {
	var dir string
	BeforeEach(func() { dir = GinkgoT().TempDir() })

	It("two Reloaders that come to one directory by different mounts are both told, and either may stop", func(ctx SpecContext) {
		gens := newGens(3)
		real := mkdir(dir, "real")
		write(real, gens[0])
		var scenes []*scene
		for _, name := range []string{"first", "second"} {
			bind(real, mkdir(dir, name))
			scenes = append(scenes, watch(ctx, reload.FromDir(filepath.Join(dir, name))))
		}
		write(real, gens[1])
		for _, s := range scenes {
			s.swapsTo(ctx, gens[1])
		}
		scenes[0].stop()
		write(real, gens[2])
		scenes[1].swapsTo(ctx, gens[2])
	}, atMost)
})

var _ = mountWorld.describe("A mount that does not answer", func() {
	It("holds up no other Reloader, and not the end of the one it concerns", func(ctx SpecContext) {
		top, old, fresh := GinkgoT().TempDir(), newGen(), newGen()
		dead, alive := mkdir(top, "dead"), mkdir(top, "alive")
		write(dead, old)
		write(alive, old)
		stuck := watch(ctx, reload.FromDir(dead), func(o *reload.WatchOptions) { o.Resync = often })
		revive := mountDead(dead)
		defer revive()
		Eventually(ctx, func() error { return stuck.Status().Pending }).Should(MatchError("reload: no answer from the file system within 5s"))
		stuck.keeps(old)

		s := watch(ctx, reload.FromDir(alive)).calmly()
		write(alive, fresh)
		s.swapsTo(ctx, fresh)
		stuck.stop()
	}, atMost)
})

// mountDead mounts a FUSE file system that nobody serves: every call for it hangs until revive fails it.
func mountDead(dir string) (revive func()) {
	GinkgoHelper()
	device, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	allowed(err)
	data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", device, os.Getuid(), os.Getgid())
	if err := syscall.Mount("dead", dir, "fuse", 0, data); err != nil {
		syscall.Close(device)
		allowed(err)
	}
	return func() {
		syscall.Close(device)
		syscall.Unmount(dir, syscall.MNT_DETACH)
	}
}

// frozen is the warning for a file that cannot change any more.
const frozen = "mounted file was replaced at its source and will never change here: mount its directory"

// bindFiles mounts every file of source on one of the same name in dir.
func bindFiles(source, dir string) {
	GinkgoHelper()
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		put(filepath.Join(dir, name), nil)
		bind(filepath.Join(source, name), filepath.Join(dir, name))
	}
}
