package reload_test

// scenario_tools_test.go has what is special about copying files around: times and sizes that say nothing, modes, files
// that hold everything.

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("A file", Label("fs"), func() {
	var dir string
	BeforeEach(func() { dir = GinkgoT().TempDir() })

	// antedate gives every file in dir the same old time.
	antedate := func() {
		GinkgoHelper()
		entries, err := os.ReadDir(dir)
		Expect(err).NotTo(HaveOccurred())
		for _, e := range entries {
			Expect(os.Chtimes(filepath.Join(dir, e.Name()), time.Unix(0, 0), time.Unix(0, 0))).To(Succeed())
		}
	}

	DescribeTable("of the same size and time as the one it replaces is a new one",
		func(ctx SpecContext, r reloadtest.Rotator) {
			old, fresh := newGen().padded(), newGen().padded()
			Expect(r.Write(dir, old.files, nil)).To(Succeed())
			antedate()
			s := watch(ctx, reload.FromDir(dir)).calmly()
			Expect(r.Write(dir, fresh.files, func(string) error {
				antedate()
				return nil
			})).To(Succeed())
			antedate()
			s.swapsTo(ctx, fresh)
		},
		Entry("in place", reloadtest.Copy(), atMost),
		Entry("rsync --inplace", reloadtest.RsyncInPlace(), atMost),
		Entry("rsync -a", reloadtest.Rsync(), atMost),
		Entry("tar x", reloadtest.Untar(), atMost),
	)

	It("that is written again, touched or chmoded with the same content is no event", func(ctx SpecContext) {
		g := newGen()
		write(dir, g)
		s := watch(ctx, reload.FromDir(dir)).calmly()
		for _, change := range []func(path string, data []byte){
			put, putNew,
			func(path string, _ []byte) { Expect(os.Chtimes(path, time.Time{}, time.Now())).To(Succeed()) },
			func(path string, _ []byte) { Expect(os.Chmod(path, 0o600)).To(Succeed()) },
			func(path string, data []byte) { Expect(os.Remove(path)).To(Succeed()); put(path, data) },
		} {
			for name, data := range g.files {
				change(filepath.Join(dir, name), data)
			}
			s.stays(ctx, g)
		}
	}, atMost)

	DescribeTable("that holds key and chain goes live as one swap",
		func(ctx SpecContext, replace func(g gen)) {
			old, fresh := newGen().combined(), newGen().combined()
			mkdir(dir, "tls")
			replace(old)
			path := filepath.Join(dir, "tls", "all.pem")
			s := watch(ctx, reload.Paths{Cert: path, Key: path}).calmly()
			replace(fresh)
			s.swapsTo(ctx, fresh)
		},
		Entry("in place", func(g gen) { put(filepath.Join(dir, "tls", "all.pem"), g.files["all.pem"]) }, atMost),
		Entry("by rename", func(g gen) { putNew(filepath.Join(dir, "tls", "all.pem"), g.files["all.pem"]) }, atMost),
		Entry("in a kubelet volume", func(g gen) {
			k := reloadtest.Kubelet{Dir: filepath.Join(dir, "tls")}
			Expect(k.Update(g.files)).To(Succeed())
		}, atMost),
	)

	It("that is moved away and replaced a while later is missed by nobody", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		write(dir, old)
		s := watch(ctx, reload.FromDir(dir)).calmly()
		for name, data := range fresh.files {
			path := filepath.Join(dir, name)
			Expect(os.Rename(path, path+".bak")).To(Succeed())
			s.hint(ctx)
			s.keeps(old)
			putNew(path, data)
		}
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("that is deleted with all others is served until they return, once they are complete", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		write(dir, old)
		s := watch(ctx, reload.FromDir(dir))
		for name := range old.files {
			Expect(os.Remove(filepath.Join(dir, name))).To(Succeed())
		}
		Eventually(ctx, s.warnings).ShouldNot(BeEmpty())
		Expect(s.Status().Pending).To(MatchError(os.ErrNotExist))
		Expect(s.Status().PendingSince).NotTo(BeZero())
		s.keeps(old)

		write(dir, fresh)
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("that is written all the time does not keep another from going live", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		write(dir, old)
		s := watch(ctx, reload.FromDir(dir)).calmly()
		stop := busily(func() { os.Chtimes(filepath.Join(dir, "tls.crt"), time.Time{}, time.Now()) })
		defer stop()
		write(dir, fresh)
		s.swapsTo(ctx, fresh)
	}, atMost)
})

// combined is g in one file, key first, without a CA.
func (g gen) combined() gen {
	return gen{g.Keypair, reloadtest.Files{"all.pem": append(g.KeyPEM, g.CertPEM...)}, nil}
}

// busily calls do every 10 ms until stop is called.
func busily(do func()) (stop func()) {
	ticker, done := time.NewTicker(10*time.Millisecond), make(chan struct{})
	ended := make(chan struct{})
	go func() { // ends with stop
		defer close(ended)
		for {
			select {
			case <-ticker.C:
				do()
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-ended
	}
}
