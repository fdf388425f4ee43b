package reload_test

// scenario_dirs_test.go has directories that come, go, and change places.

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("A directory", Label("fs"), func() {
	var top, dir string
	BeforeEach(func() {
		top = GinkgoT().TempDir()
		dir = filepath.Join(top, "a", "b", "tls")
	})

	rename := func(from, to string) {
		GinkgoHelper()
		Expect(os.Rename(from, to)).To(Succeed())
	}

	It("that is renamed away for another is followed by its name", func(ctx SpecContext) {
		gens := newGens(3)
		write(mkdir(dir), gens[0])
		s := watch(ctx, reload.FromDir(dir)).calmly()
		for _, g := range gens[1:] {
			write(mkdir(dir+".new"), g)
			rename(dir, dir+".old")
			rename(dir+".new", dir)
			s.swapsTo(ctx, g)
			write(dir+".old", newGen()) // nobody's business any more
			s.stays(ctx, g)
			Expect(os.RemoveAll(dir + ".old")).To(Succeed())
		}
	}, atMost)

	It("that is removed and made again much later is found, again and again", func(ctx SpecContext) {
		gens := newGens(4)
		write(mkdir(dir), gens[0])
		s := watch(ctx, reload.FromDir(dir)).calmly()
		for i, g := range gens[1:] {
			Expect(os.RemoveAll(dir)).To(Succeed())
			Eventually(ctx, func() error { return s.Status().Pending }).Should(MatchError(os.ErrNotExist))
			s.keeps(gens[i])
			write(mkdir(dir), g)
			s.swapsTo(ctx, g)
		}
	}, atMost)

	It("that is removed with all above it is found when the tree is made again", func(ctx SpecContext) {
		gens := newGens(3)
		write(mkdir(dir), gens[0])
		s := watch(ctx, reload.FromDir(dir)).calmly()
		for i, g := range gens[1:] {
			Expect(os.RemoveAll(filepath.Join(top, "a"))).To(Succeed())
			Eventually(ctx, func() error { return s.Status().Pending }).Should(MatchError(os.ErrNotExist))
			s.keeps(gens[i])
			write(mkdir(dir), g)
			s.swapsTo(ctx, g)
		}
	}, atMost)

	It("three levels below anything that exists is waited for", func(ctx SpecContext) {
		s := watch(ctx, reload.FromDir(dir), func(o *reload.WatchOptions) { o.AwaitFiles = true }).calmly()
		Expect(s.Bundle()).To(BeNil())
		Expect(handshake(s.GetCertificate)).To(BeNil())
		for _, level := range []string{"a", "a/b", "a/b/tls"} {
			mkdir(top, level)
			s.hint(ctx)
		}
		g := newGen()
		write(dir, g)
		s.swapsTo(ctx, g)
	}, atMost)

	It("three levels below anything that exists may come at once", func(ctx SpecContext) {
		s := watch(ctx, reload.FromDir(dir), func(o *reload.WatchOptions) { o.AwaitFiles = true }).calmly()
		g := newGen()
		write(mkdir(dir), g)
		s.swapsTo(ctx, g)
	}, atMost)

	It("far above that is renamed for another is noticed", func(ctx SpecContext) {
		gens := newGens(3)
		write(mkdir(dir), gens[0])
		s := watch(ctx, reload.FromDir(dir)).calmly()
		for _, g := range gens[1:] {
			write(mkdir(top, "new", "b", "tls"), g)
			rename(filepath.Join(top, "a"), filepath.Join(top, "old"))
			rename(filepath.Join(top, "new"), filepath.Join(top, "a"))
			s.swapsTo(ctx, g)
			Expect(os.RemoveAll(filepath.Join(top, "old"))).To(Succeed())
		}
		write(dir, gens[0]) // the watch is where it should be
		s.swapsTo(ctx, gens[0])
	}, atMost)

	It("that is swapped with rename and delete in one go goes live without a torn state", func(ctx SpecContext) {
		r := reloadtest.SwapDirs()
		gens := newGens(10)
		Expect(r.Write(top, gens[0].files, nil)).To(Succeed())
		s := watch(ctx, reload.FromDir(filepath.Join(top, "tls"))).calmly()
		for _, g := range gens[1:] {
			Expect(r.Write(top, g.files, nil)).To(Succeed())
			s.swapsTo(ctx, g)
		}
	}, atMost)
})
