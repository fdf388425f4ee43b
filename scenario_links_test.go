package reload_test

// scenario_links_test.go has symbolic links on the way to the files.

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("A link", Label("fs"), func() {
	var dir string
	BeforeEach(func() { dir = GinkgoT().TempDir() })

	DescribeTable("to a release that is flipped goes live without settling",
		func(ctx SpecContext, r reloadtest.Rotator) {
			Expect(r.Write(dir, newGen().files, nil)).To(Succeed())
			cert, key, ca := r.Paths(dir)
			s := watch(ctx, reload.Paths{Cert: cert, Key: key, CA: ca}, hardlySettles).calmly()
			for _, g := range newGens(3) {
				Expect(r.Write(dir, g.files, nil)).To(Succeed())
				s.swapsAtOnceTo(ctx, g)
			}
		},
		Entry("mv -T", reloadtest.Flip(), atMost),
		Entry("ln -sfn", reloadtest.FlipLn(), atMost),
		Entry("unlink and link", reloadtest.FlipBusyBox(), atMost),
	)

	It("flipped before its release is written goes live once that is complete", func(ctx SpecContext) {
		r := reloadtest.FlipFirst()
		old, fresh := newGen(), newGen()
		Expect(r.Write(dir, old.files, nil)).To(Succeed())
		cert, key, ca := r.Paths(dir)
		s := watch(ctx, reload.Paths{Cert: cert, Key: key, CA: ca})
		Expect(r.Write(dir, fresh.files, func(step string) error {
			s.hint(ctx)
			s.keeps(old)
			return nil
		})).To(Succeed())
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("flipped before its release is written does not go live with a part of that, though it is valid", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		old = genOf(old.Keypair, old.cas[0])
		current := release(dir, old)
		s := watch(ctx, reload.FromDir(current), func(o *reload.WatchOptions) { o.Settle = time.Second }).calmly()
		next := mkdir(dir, "next")
		relink("next", current)
		s.hint(ctx)
		put(filepath.Join(next, "tls.key"), fresh.KeyPEM)
		put(filepath.Join(next, "tls.crt"), fresh.CertPEM)
		put(filepath.Join(next, "ca.crt"), fresh.cas[0].PEM())
		s.hint(ctx)
		s.keeps(old)
		put(filepath.Join(next, "ca.crt"), fresh.files["ca.crt"])
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("flipped in the same tick of the clock as its release is written in goes live once that is complete", func(ctx SpecContext) {
		gens := newGens(10)
		current := filepath.Join(dir, "current")
		write(mkdir(dir, "0"), gens[0])
		Expect(os.Symlink("0", current)).To(Succeed())
		s := watch(ctx, reload.FromDir(current))
		for i, g := range gens[1:] {
			release := filepath.Join(dir, fmt.Sprint(i+1))
			roots := blocks(g.files["ca.crt"])
			Expect(os.Mkdir(release, 0o755)).To(Succeed())
			relink(fmt.Sprint(i+1), current)
			put(filepath.Join(release, "tls.key"), g.KeyPEM)
			put(filepath.Join(release, "tls.crt"), g.CertPEM)
			put(filepath.Join(release, "ca.crt"), roots[0])
			s.hint(ctx) // valid, and shorter than what is live
			s.keeps(gens[i])
			put(filepath.Join(release, "ca.crt"), g.files["ca.crt"])
			s.swapsTo(ctx, g)
		}
	}, atMost)

	It("back to an older release goes live too", func(ctx SpecContext) {
		first, second := newGen(), newGen()
		write(mkdir(dir, "1"), first)
		write(mkdir(dir, "2"), second)
		Expect(os.Symlink("1", filepath.Join(dir, "current"))).To(Succeed())
		s := watch(ctx, reload.FromDir(filepath.Join(dir, "current"))).calmly()
		relink("2", filepath.Join(dir, "current"))
		s.swapsTo(ctx, second)
		relink("1", filepath.Join(dir, "current"))
		s.swapsTo(ctx, first)
	}, atMost)

	It("in the middle of a chain over three directories is followed", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		write(mkdir(dir, "store", "1"), old)
		write(mkdir(dir, "store", "2"), fresh)
		middle := filepath.Join(mkdir(dir, "middle"), "now")
		Expect(os.Symlink("../store/1", middle)).To(Succeed())
		mkdir(dir, "etc")
		Expect(os.Symlink("../middle/now", filepath.Join(dir, "etc", "tls"))).To(Succeed())
		s := watch(ctx, reload.FromDir(filepath.Join(dir, "etc", "tls"))).calmly()
		relink("../store/2", middle)
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("behind links of the files themselves is followed, as are these", func(ctx SpecContext) {
		gens := newGens(3)
		for i, g := range gens {
			write(mkdir(dir, []string{"1", "2", "3"}[i]), g)
		}
		current := filepath.Join(dir, "current")
		Expect(os.Symlink("1", current)).To(Succeed())
		for name := range gens[0].files {
			Expect(os.Symlink("current/"+name, filepath.Join(dir, name))).To(Succeed())
		}
		s := watch(ctx, reload.FromDir(dir)).calmly()
		relink("2", current)
		s.swapsTo(ctx, gens[1])
		for name := range gens[2].files {
			relink("3/"+name, filepath.Join(dir, name))
		}
		s.swapsTo(ctx, gens[2])
	}, atMost)

	It("to each file with an absolute target may be swapped one by one", func(ctx SpecContext) {
		gens := newGens(2)
		for i, g := range gens {
			write(mkdir(dir, []string{"1", "2"}[i]), g)
		}
		etc := mkdir(dir, "etc")
		for name := range gens[0].files {
			Expect(os.Symlink(filepath.Join(dir, "1", name), filepath.Join(etc, name))).To(Succeed())
		}
		s := watch(ctx, reload.FromDir(etc)).calmly()
		for name := range gens[1].files {
			relink(filepath.Join(dir, "2", name), filepath.Join(etc, name))
			s.hint(ctx)
		}
		s.swapsTo(ctx, gens[1])
	}, atMost)

	It("in the root directory is followed", func(ctx SpecContext) {
		gens := newGens(3)
		for i, g := range gens {
			write(mkdir(dir, []string{"1", "2", "3"}[i]), g)
		}
		link := "/" + filepath.Base(dir) + "-link" // a name that no other run has
		if err := os.Symlink(filepath.Join(dir, "1"), link); err != nil {
			Skip("NOT TESTED: " + err.Error())
		}
		DeferCleanup(os.Remove, link)
		s := watch(ctx, reload.FromDir(link)).calmly()
		relink(filepath.Join(dir, "2"), link)
		s.swapsTo(ctx, gens[1])
		relink(filepath.Join(dir, "3"), link)
		s.swapsTo(ctx, gens[2])
	}, atMost)

	It("that is gone for a while is waited for", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		write(mkdir(dir, "one"), old)
		write(mkdir(dir, "two"), fresh)
		data := filepath.Join(dir, ".data")
		Expect(os.Symlink("one", data)).To(Succeed())
		s := watch(ctx, reload.FromDir(data)).calmly()
		Expect(os.Remove(data)).To(Succeed())
		Eventually(ctx, func() error { return s.Status().Pending }).Should(MatchError(os.ErrNotExist))
		s.keeps(old)
		Expect(os.Symlink("two", data)).To(Succeed())
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("is not the same as what .. of it leads to", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		write(mkdir(dir, "real", "tls"), old)
		mkdir(dir, "real", "inner")
		Expect(os.Symlink("real/inner", filepath.Join(dir, "link"))).To(Succeed())
		tls := dir + "/link/../tls" // real/tls, not tls
		s := watch(ctx, reload.Paths{Cert: tls + "/tls.crt", Key: tls + "/tls.key", CA: tls + "/ca.crt"}).calmly()
		write(mkdir(dir, "other", "tls"), fresh)
		mkdir(dir, "other", "inner")
		relink("other/inner", filepath.Join(dir, "link"))
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("is not needed: files in different directories may each be renamed over", func(ctx SpecContext) {
		gens := newGens(3)
		p := reload.Paths{
			Cert: filepath.Join(mkdir(dir, "certs"), "tls.crt"),
			Key:  filepath.Join(mkdir(dir, "keys"), "tls.key"),
			CA:   filepath.Join(mkdir(dir, "roots"), "ca.crt"),
		}
		place := func(g gen) {
			for _, path := range []string{p.Key, p.Cert, p.CA} {
				putNew(path, g.files[filepath.Base(path)])
			}
		}
		place(gens[0])
		s := watch(ctx, p).calmly()
		for _, g := range gens[1:] {
			place(g)
			s.swapsTo(ctx, g)
		}
	}, atMost)
})
