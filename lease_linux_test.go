package reload_test

// lease_linux_test.go has writers of every kind in the middle of their work: what they have open is not complete, and to
// read it is not in their way.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// pen is what a writer has a file open by.
type pen struct {
	write func(data []byte)
	close func()
}

// grip is a way to open the file at path, with which data is written first. More will follow.
type grip func(path string, data, more []byte) pen

// opened is a grip by open(2).
func opened(flags int) grip {
	return func(path string, data, _ []byte) pen {
		GinkgoHelper()
		f, err := os.OpenFile(path, os.O_WRONLY|flags, 0)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { f.Close() })
		return penOf(f, data)
	}
}

func penOf(f *os.File, data []byte) pen {
	p := pen{
		func(data []byte) { GinkgoHelper(); Expect(f.Write(data)).To(Equal(len(data))) },
		func() { GinkgoHelper(); Expect(f.Close()).To(Succeed()) },
	}
	p.write(data)
	return p
}

// cut is a grip on a file that is truncated by its name.
func cut(path string, data, more []byte) pen {
	GinkgoHelper()
	Expect(os.Truncate(path, 0)).To(Succeed())
	return opened(0)(path, data, more)
}

// linked is a grip by another name of the file.
func linked(path string, data, more []byte) pen {
	GinkgoHelper()
	other := filepath.Join(GinkgoT().TempDir(), "other")
	Expect(os.Link(path, other)).To(Succeed())
	return opened(os.O_TRUNC)(other, data, more)
}

// allocated is a grip that has room for everything before anything is written.
func allocated(path string, data, more []byte) pen {
	GinkgoHelper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { f.Close() })
	Expect(unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, int64(len(data)+len(more)))).To(Succeed())
	return penOf(f, data)
}

// copied is a grip by which the kernel copies from another file.
func copied(path string, data, more []byte) pen {
	GinkgoHelper()
	source, err := os.Create(filepath.Join(GinkgoT().TempDir(), "source"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(source.Close)
	Expect(source.Write(slices.Concat(data, more))).NotTo(BeZero())
	Expect(source.Seek(0, io.SeekStart)).To(BeZero())
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { f.Close() })
	p := pen{
		func(data []byte) {
			GinkgoHelper()
			Expect(unix.CopyFileRange(int(source.Fd()), nil, int(f.Fd()), nil, len(data), 0)).To(Equal(len(data)))
		},
		func() { GinkgoHelper(); Expect(f.Close()).To(Succeed()) },
	}
	p.write(data)
	return p
}

// mapped is a grip by a mapping that outlives the descriptor. What is not written yet is blank.
func mapped(path string, data, more []byte) pen {
	GinkgoHelper()
	put(path, slices.Concat(data, bytes.Repeat([]byte("\n"), len(more))))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	Expect(err).NotTo(HaveOccurred())
	m, err := syscall.Mmap(int(f.Fd()), 0, len(data)+len(more), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	Expect(err).NotTo(HaveOccurred())
	Expect(f.Close()).To(Succeed())
	return pen{
		func(more []byte) { copy(m[len(data):], more) },
		func() { GinkgoHelper(); Expect(syscall.Munmap(m)).To(Succeed()) },
	}
}

// inherited is a grip by a descriptor that only another process has.
func inherited(path string, data, _ []byte) pen {
	GinkgoHelper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	Expect(err).NotTo(HaveOccurred())
	cat := exec.Command("cat")
	cat.Stdout = f
	in, err := cat.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(cat.Start()).To(Succeed())
	DeferCleanup(func() { in.Close(); cat.Wait() })
	Expect(f.Close()).To(Succeed())
	size := 0
	p := pen{
		func(data []byte) {
			GinkgoHelper()
			size += len(data)
			Expect(in.Write(data)).To(Equal(len(data)))
			Eventually(func() int64 { info, _ := os.Stat(path); return info.Size() }, "10s").Should(BeEquivalentTo(size))
		},
		func() { GinkgoHelper(); Expect(in.Close()).To(Succeed()) },
	}
	p.write(data)
	return p
}

// rooted is g, without a CA file, with the root at the end of its chain.
func (g gen) rooted() gen {
	k := *g.Keypair
	k.CertPEM = slices.Concat(k.CertPEM, g.cas[0].PEM())
	k.Chain = append(slices.Clone(k.Chain), g.cas[0].Cert.Raw)
	return genOf(&k)
}

// breathe is the pause of a writer.
func breathe(ctx context.Context) {
	select {
	case <-time.After(rand.N(stormPause() + 1)):
	case <-ctx.Done():
	}
}

// leased reports whether somebody has a lease on the file at path (proc_locks(5)).
func leased(path string) bool {
	GinkgoHelper()
	info, err := os.Stat(path)
	Expect(err).NotTo(HaveOccurred())
	locks, err := os.ReadFile("/proc/locks")
	Expect(err).NotTo(HaveOccurred())
	return regexp.MustCompile(fmt.Sprintf(`(?m) LEASE +ACTIVE .*:%d 0 EOF$`, info.Sys().(*syscall.Stat_t).Ino)).Match(locks)
}

// isHeldBack has a writer replace the certificate of old in dir by its grip, and pause where what is there is valid, and
// where all of it is.
func isHeldBack(ctx SpecContext, dir string, old gen, hold grip) {
	GinkgoHelper()
	fresh := newGen()
	s := watch(ctx, reload.FromDir(dir), hardlySettles).calmly()
	put(filepath.Join(dir, "tls.key"), fresh.KeyPEM)
	root := fresh.cas[0].PEM()
	p := hold(filepath.Join(dir, "tls.crt"), fresh.CertPEM, root)
	s.hint(ctx)
	Expect(s.Status().Pending).To(MatchError("reload: waiting for the files to settle"))
	s.keeps(old)
	p.write(root)
	s.hint(ctx)
	s.keeps(old)
	p.close()
	s.swapsAtOnceTo(ctx, fresh.rooted())
}

var _ = Describe("A file that somebody has open for writing", Label("fs"), func() {
	DescribeTable("is not complete, though what is in it is valid, and goes live at once when it is closed:",
		func(ctx SpecContext, hold grip) {
			old := newGen().withoutCA()
			isHeldBack(ctx, release(GinkgoT().TempDir(), old), old, hold)
		},
		Entry("truncated", opened(os.O_TRUNC), atMost),
		Entry("truncated, and with O_NONBLOCK", opened(os.O_TRUNC|unix.O_NONBLOCK), atMost),
		Entry("truncated by name", grip(cut), atMost),
		Entry("by another hard link", grip(linked), atMost),
		Entry("allocated before it is written", grip(allocated), atMost),
		Entry("copied to by the kernel", grip(copied), atMost),
		Entry("by a mapping that is left of it", grip(mapped), atMost),
		Entry("by a descriptor of another process", grip(inherited), atMost),
	)

	It("turns no writer away that comes to it while the others are read", func(ctx SpecContext) {
		for _, g := range []gen{newGen(), newGen().withoutCA()} {
			dir := release(GinkgoT().TempDir(), g)
			s := watch(ctx, reload.FromDir(dir), hardlySettles)
			reader := hangRead(filepath.Join(dir, "tls.key"))
			put(filepath.Join(dir, "tls.key"), newGen().KeyPEM)
			reader.hangs()
			for name := range g.files { // as GNU tar opens what it overwrites
				f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_TRUNC|unix.O_NONBLOCK, 0)
				Expect(err).NotTo(HaveOccurred())
				Expect(f.Close()).To(Succeed())
			}
			reader.release()
			s.stop()
		}
	}, atMost)

	It("is opened as soon as it is read, and nobody hears a signal of it but SIGURG, which the runtime uses itself", func(ctx SpecContext) {
		old, fresh, last := newGen().withoutCA(), newGen().withoutCA(), newGen().withoutCA()
		dir := release(GinkgoT().TempDir(), old)
		signals := make(chan os.Signal, 10_000)
		signal.Notify(signals)
		defer signal.Stop(signals)
		s := watch(ctx, reload.FromDir(dir), hardlySettles)
		reader := hangRead(filepath.Join(dir, "tls.key"))
		put(filepath.Join(dir, "tls.key"), fresh.KeyPEM)
		permit := reader.hangs()
		put(filepath.Join(dir, "tls.crt"), fresh.CertPEM)
		for !leased(filepath.Join(dir, "tls.key")) {
			permit()
			permit = reader.hangs()
		}
		written := make(chan struct{})
		go func() { // ends when the files are read
			defer GinkgoRecover()
			defer close(written)
			write(dir, last)
		}()
		Eventually(ctx, signals).Should(Receive(Equal(unix.SIGURG)))
		reader.release()
		Eventually(ctx, written).Should(BeClosed())
		Eventually(ctx, s.Bundle).Should(beWhole(last))
		for len(signals) > 0 {
			Expect(signals).To(Receive(BeElementOf(unix.SIGURG, unix.SIGCHLD)))
		}
	}, atMost)

	It("is read by any number of Reloaders, of which none delays another", func(ctx SpecContext) {
		dir := release(GinkgoT().TempDir(), newGen().withoutCA())
		scenes := make([]*scene, 10)
		for i := range scenes {
			scenes[i] = watch(ctx, reload.FromDir(dir), hardlySettles).calmly()
		}
		for range 3 {
			g := newGen().withoutCA()
			write(dir, g)
			for _, s := range scenes {
				s.swapsAtOnceTo(ctx, g)
			}
		}
	}, atMost)

	It("never goes live before it is closed, whoever writes in which pieces, in a storm", func(ctx SpecContext) {
		const readers = 3
		pieces := func(data []byte, hold grip, path string) {
			GinkgoHelper()
			at := rand.IntN(len(data))
			if rand.IntN(2) == 0 { // where it is valid
				at = len(data) - len(blocks(data)[2])
			}
			p := hold(path, data[:at], data[at:])
			breathe(ctx)
			p.write(data[at:])
			breathe(ctx)
			p.close()
		}
		live := newGen().rooted()
		dir := release(GinkgoT().TempDir(), live)
		scenes := make([]*scene, readers)
		for i := range scenes {
			scenes[i] = watch(ctx, reload.FromDir(dir))
		}
		holds := []grip{opened(os.O_TRUNC), opened(os.O_TRUNC | unix.O_NONBLOCK), cut, linked, allocated, copied, mapped, inherited}
		for range 3 * stormRotations() {
			g := newGen().rooted()
			hold := holds[rand.IntN(len(holds))]
			certificate := func() { pieces(g.CertPEM, hold, filepath.Join(dir, "tls.crt")) }
			key := func() { opened(os.O_TRUNC|unix.O_NONBLOCK)(filepath.Join(dir, "tls.key"), g.KeyPEM, nil).close() }
			if rand.IntN(2) == 0 {
				key()
				breathe(ctx)
				certificate()
			} else {
				certificate()
				breathe(ctx)
				key()
			}
			for _, s := range scenes {
				s.swapsTo(ctx, g)
			}
		}
	}, SpecTimeout(stormLimit()))

	It("goes live after settling where it is somebody else's", func(ctx SpecContext) {
		top := GinkgoT().TempDir()
		dir, source := mkdir(top, "tls"), mkdir(top, "source")
		old, fresh := newGen().withoutCA(), newGen().withoutCA()
		write(dir, old)
		write(source, fresh)
		asNobody(top)
		s := watch(ctx, reload.FromDir(dir), func(o *reload.WatchOptions) { o.Settle = time.Second }).calmly()
		began := time.Now()
		for _, name := range []string{"tls.key", "tls.crt"} {
			cp := exec.CommandContext(ctx, "cp", filepath.Join(source, name), filepath.Join(dir, name))
			cp.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{NoSetGroups: true}} // as root
			out, err := cp.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "%s", out)
		}
		s.swapsTo(ctx, fresh)
		Expect(time.Since(began)).To(BeNumerically(">=", time.Second))
	}, atMost)
})

var _ = Describe("A file that is closed", Label("fs"), func() {
	var dir string
	BeforeEach(func() { dir = GinkgoT().TempDir() })
	add := func(name string, data []byte) {
		GinkgoHelper()
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_APPEND, 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Write(data)).NotTo(BeZero())
		Expect(f.Close()).To(Succeed())
	}
	aSecond := func(o *reload.WatchOptions) { o.Settle = time.Second }

	It("may be opened again for more CAs, and goes live with them", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		old.cas = old.cas[:1]
		old = genOf(old.Keypair, old.cas...)
		write(dir, old)
		s := watch(ctx, reload.FromDir(dir), aSecond).calmly()
		put(filepath.Join(dir, "tls.key"), fresh.KeyPEM)
		put(filepath.Join(dir, "tls.crt"), fresh.CertPEM)
		put(filepath.Join(dir, "ca.crt"), fresh.cas[0].PEM())
		s.hint(ctx)
		s.keeps(old)
		add("ca.crt", fresh.cas[1].PEM())
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("may be opened again for a longer chain, and goes live with that", func(ctx SpecContext) {
		root := reloadtest.NewCA(reloadtest.Options{})
		old := genOf(root.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{}))
		upper := root.Intermediate(reloadtest.Options{Name: "upper"})
		fresh := genOf(upper.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{}))
		Expect(fresh.Chain).To(HaveLen(3))
		write(dir, old)
		s := watch(ctx, reload.FromDir(dir), aSecond).calmly()
		put(filepath.Join(dir, "tls.key"), fresh.KeyPEM)
		parts := blocks(fresh.CertPEM)
		put(filepath.Join(dir, "tls.crt"), slices.Concat(parts[0], parts[1]))
		s.hint(ctx)
		s.keeps(old)
		add("tls.crt", parts[2])
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("is not mixed with those of a second rotation that follows the first at once", func(ctx SpecContext) {
		old, skipped, fresh := newGen(), newGen(), newGen()
		write(dir, old)
		s := watch(ctx, reload.FromDir(dir), aSecond).calmly()
		put(filepath.Join(dir, "ca.crt"), skipped.files["ca.crt"])
		put(filepath.Join(dir, "tls.key"), fresh.KeyPEM)
		put(filepath.Join(dir, "tls.crt"), fresh.CertPEM)
		s.hint(ctx)
		s.keeps(old)
		put(filepath.Join(dir, "ca.crt"), fresh.files["ca.crt"])
		s.swapsTo(ctx, fresh)
	}, atMost)
})
