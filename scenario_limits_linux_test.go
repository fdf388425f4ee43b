package reload_test

// scenario_limits_linux_test.go has what is scarce or forbidden: inotify instances, watches, the length of its queue,
// rights.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// atOnce calls do for 0 to n-1, all at once, and waits for the last.
func atOnce(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer GinkgoRecover()
			do(i)
		})
	}
	all.Wait()
}

func degraded(s *scene) func() string { return func() string { return s.Status().Degraded } }

var _ = limitWorld.describe("Where notifications are scarce,", func() {
	var dir string
	BeforeEach(func() { dir = GinkgoT().TempDir() })
	degradedOnce := ConsistOf("notifications are not to be relied on, polling")

	It("a Reloader without an inotify instance polls, says so, and recovers", func(ctx SpecContext) {
		gens := newGens(3)
		limit("instances", 0)
		write(dir, gens[0])
		s := watch(ctx, reload.FromDir(dir), func(o *reload.WatchOptions) { o.Resync = often })
		Expect(s.Status().Degraded).To(And(HavePrefix("cannot watch /"), HaveSuffix("too many open files")))
		write(dir, gens[1])
		s.swapsTo(ctx, gens[1])

		limit("instances", 1)
		Eventually(ctx, degraded(s)).Should(BeEmpty())
		Expect(inotifyInUse().instances).To(Equal(1))
		write(dir, gens[2])
		s.swapsTo(ctx, gens[2])
		Expect(s.warnings()).To(degradedOnce)
	}, atMost)

	It("a Reloader that got its instance late hears of changes", func(ctx SpecContext) {
		gens := newGens(2)
		limit("instances", 0)
		write(dir, gens[0])
		s := watch(ctx, reload.FromDir(dir))
		limit("instances", 1)
		s.hint(ctx)
		Expect(s.Status().Degraded).To(BeEmpty())
		write(dir, gens[1])
		s.swapsTo(ctx, gens[1])
	}, atMost)

	It("one that is short of watches polls, others are notified, and it recovers", func(ctx SpecContext) {
		gens := newGens(3)
		lucky, unlucky := mkdir(dir, "lucky"), mkdir(dir, "un", "lucky")
		write(lucky, gens[0])
		write(unlucky, gens[0])
		first := watch(ctx, reload.FromDir(lucky)).calmly()
		limit("watches", inotifyInUse().watches)
		second := watch(ctx, reload.FromDir(unlucky), func(o *reload.WatchOptions) { o.Resync = often })
		Expect(second.Status().Degraded).To(HaveSuffix("no space left on device"))

		write(lucky, gens[1])
		first.swapsTo(ctx, gens[1])
		write(unlucky, gens[1])
		second.swapsTo(ctx, gens[1])

		limit("watches", 1000)
		Eventually(ctx, degraded(second)).Should(BeEmpty())
		write(unlucky, gens[2])
		second.swapsTo(ctx, gens[2])
		Expect(second.warnings()).To(degradedOnce)
	}, atMost)
})

var _ = Describe("Where notifications are shared,", Label("fs"), func() {
	var dir string
	BeforeEach(func() { dir = GinkgoT().TempDir() })
	It("hundreds of Reloaders in any number of directories use one instance, and leave nothing", func(ctx SpecContext) {
		const reloaders, dirs = 300, 10
		old, fresh := newGen(), newGen()
		volumes := make([]reloadtest.Kubelet, dirs)
		for i := range volumes {
			volumes[i].Dir = mkdir(dir, fmt.Sprint(i))
			Expect(volumes[i].Update(old.files)).To(Succeed())
		}
		scenes := make([]*scene, reloaders)
		for i := range scenes {
			scenes[i] = load(Default, reload.FromDir(volumes[i%dirs].Dir))
			scenes[i].begin(ctx)
		}
		defer atOnce(reloaders, func(i int) { scenes[i].stop() })
		for _, s := range scenes {
			s.looks(ctx, s.Status().LastSwap)
		}
		// Each volume has its own directory and that of the generation; above them are dir and the one that is in.
		all := inotifyUse{instances: 1, watches: 2*dirs + 2}
		Expect(inotifyInUse()).To(Equal(all))
		for i := range volumes {
			Expect(volumes[i].Update(fresh.files)).To(Succeed())
		}
		for _, s := range scenes {
			Eventually(ctx, s.swaps).Should(Receive(beWhole(fresh)))
			Expect(s.Status().Generation).To(BeEquivalentTo(2))
		}
		Eventually(ctx, inotifyInUse).Should(Equal(all))

		// All stop in any order; the last still hears.
		rand.Shuffle(len(scenes), func(i, j int) { scenes[i], scenes[j] = scenes[j], scenes[i] })
		last := scenes[0]
		atOnce(reloaders-1, func(i int) { scenes[i+1].stop() })
		Expect(inotifyInUse()).To(Equal(inotifyUse{instances: 1, watches: 4}))
		for i := range volumes {
			Expect(volumes[i].Update(old.files)).To(Succeed())
		}
		last.count++
		last.swapsTo(ctx, old)
	}, atMost)

	It("the watches of rotated directories are given back", func(ctx SpecContext) {
		for _, r := range []reloadtest.Rotator{reloadtest.SecretVolume(), reloadtest.Flip(), reloadtest.SwapDirs(), reloadtest.Certbot()} {
			dir := filepath.Join(dir, r.Name)
			gens := newGens(6)
			Expect(r.Write(dir, gens[0].files, nil)).To(Succeed())
			cert, key, ca := r.Paths(dir)
			s := watch(ctx, reload.Paths{Cert: cert, Key: key, CA: ca})
			before := inotifyInUse()
			for _, g := range gens[1:] {
				Expect(r.Write(dir, g.files, nil)).To(Succeed())
				s.swapsTo(ctx, g.asBy(r))
			}
			Eventually(ctx, inotifyInUse).Should(Equal(before), r.Name)
			s.stop()
		}
	}, atMost)

	It("two Reloaders that come to one directory by different links are both told, and either may stop", func(ctx SpecContext) {
		gens := newGens(3)
		write(mkdir(dir, "real"), gens[0])
		var scenes []*scene
		for _, link := range []string{"first", "second"} {
			Expect(os.Symlink("real", filepath.Join(dir, link))).To(Succeed())
			scenes = append(scenes, watch(ctx, reload.FromDir(filepath.Join(dir, link))))
		}
		write(filepath.Join(dir, "real"), gens[1])
		for _, s := range scenes {
			s.swapsTo(ctx, gens[1])
		}
		scenes[0].stop()
		write(filepath.Join(dir, "real"), gens[2])
		scenes[1].swapsTo(ctx, gens[2])
	}, atMost)

	It("a directory full of foreign changes delays nobody", func(ctx SpecContext) {
		gens := newGens(3)
		write(dir, gens[0])
		s := watch(ctx, reload.FromDir(dir)).calmly()
		noisy, quiet := context.WithCancel(ctx)
		var noise sync.WaitGroup
		noise.Go(func() {
			for i := 0; noisy.Err() == nil; i++ {
				path := filepath.Join(dir, fmt.Sprint("foreign", i%100))
				os.WriteFile(path, nil, 0o600)
				os.Remove(path)
			}
		})
		defer noise.Wait()
		defer quiet()
		for _, g := range gens[1:] {
			write(dir, g)
			s.swapsTo(ctx, g)
		}
	}, atMost)

	It("directories that are renamed and deleted in one go, while many watch anew, stop nobody", func(ctx SpecContext) {
		const reloaders, swaps = 40, 30
		r := reloadtest.SwapDirs()
		gens := newGens(swaps + 1)
		Expect(r.Write(dir, gens[0].files, nil)).To(Succeed())
		scenes := make([]*scene, reloaders)
		for i := range scenes {
			scenes[i] = load(Default, reload.FromDir(filepath.Join(dir, "tls")))
			scenes[i].begin(ctx)
		}
		defer atOnce(reloaders, func(i int) { scenes[i].stop() })
		for _, g := range gens[1:] {
			Expect(r.Write(dir, g.files, nil)).To(Succeed())
		}
		for _, s := range scenes {
			Eventually(ctx, s.Bundle).Should(beWhole(gens[swaps]))
			s.isCalm()
		}
	}, atMost)

	// The kernel drops the watch of a deleted directory, fsnotify finds that out when it hears of the renaming, and reports
	// it while it holds the lock that whoever adds a watch is waiting for.
	It("directories that are gone before their renaming is heard of stop nobody who goes on watching", func(ctx SpecContext) {
		const reloaders, rounds = 100, 10
		place := func(i int) string { return filepath.Join(dir, strconv.Itoa(i)) }
		scenes := make([]*scene, reloaders)
		for i := range scenes {
			Expect(os.Mkdir(place(i), 0o755)).To(Succeed())
			scenes[i] = load(Default, reload.FromDir(place(i)), func(o *reload.WatchOptions) { o.AwaitFiles = true })
			scenes[i].begin(ctx)
		}
		defer atOnce(reloaders, func(i int) { scenes[i].stop() })
		over, stop := context.WithCancel(ctx)
		var adding sync.WaitGroup
		for i := range 4 { // each look adds every watch anew
			adding.Go(func() {
				for over.Err() == nil {
					scenes[1+i].Reload(over)
				}
			})
		}
		for range rounds {
			for i := range reloaders {
				away := filepath.Join(dir, "away")
				Expect(os.Rename(place(i), away)).To(Succeed())
				Expect(os.Remove(away)).To(Succeed())
			}
			for i := range reloaders {
				Expect(os.Mkdir(place(i), 0o755)).To(Succeed())
			}
		}
		stop()
		adding.Wait()
		g := newGen()
		write(place(0), g)
		Eventually(ctx, scenes[0].Bundle).Should(beWhole(g))
		Eventually(ctx, func() string { return scenes[0].Status().Degraded }).Should(BeEmpty()) // a starved machine is slow to add watches
	}, atMost)

	It("what happens while the queue of notifications overflows is found at once", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		write(dir, old)
		other := follower(dir)
		Eventually(ctx, other.says).Should(Receive(Equal("watching " + old.Fingerprint())))
		Expect(other.Process.Signal(syscall.SIGSTOP)).To(Succeed())
		foreign := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
		put(foreign[0], nil)
		put(foreign[1], nil)
		for i := range 20_000 { // the queue holds 16384 (inotify(7)), none twice in a row
			Expect(os.Chmod(foreign[i%2], 0o600)).To(Succeed())
		}
		for name, data := range fresh.files {
			putNew(filepath.Join(dir, name), data)
		}
		Expect(other.Process.Signal(syscall.SIGCONT)).To(Succeed())
		Eventually(ctx, other.says).Should(Receive(Equal("swapped " + fresh.Fingerprint())))
	}, atMost)

	It("two processes side by side both follow", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		volume := reloadtest.Kubelet{Dir: dir}
		Expect(volume.Update(old.files)).To(Succeed())
		s := watch(ctx, reload.FromDir(dir)).calmly()
		other := follower(dir)
		Eventually(ctx, other.says).Should(Receive(Equal("watching " + old.Fingerprint())))
		Expect(volume.Update(fresh.files)).To(Succeed())
		s.swapsTo(ctx, fresh)
		Eventually(ctx, other.says).Should(Receive(Equal("swapped " + fresh.Fingerprint())))
	}, atMost)
})

// followed tells a process of the test binary to do nothing but follow a directory.
const followed = "RELOAD_FOLLOW"

func init() {
	dir := os.Getenv(followed)
	if dir == "" {
		return
	}
	r, err := reload.NewReloader(reload.FromDir(dir), "", func(o *reload.WatchOptions) {
		o.Resync = hourly
		o.OnSwap = func(b *reload.Bundle) { fmt.Println("swapped", b.Fingerprint) }
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	first := r.Status().LastLook
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process that started this one
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	go func() {
		for r.Status().LastLook.Equal(first) {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("watching", r.Bundle().Fingerprint)
	}()
	r.Start(ctx)
	os.Exit(0)
}

// process is another one that follows a directory.
type process struct {
	*exec.Cmd
	says chan string
}

// follower starts one. It ends with the spec.
func follower(dir string) process {
	GinkgoHelper()
	p := process{exec.Command("/proc/self/exe"), make(chan string, 1000)}
	p.Env = append(os.Environ(), followed+"="+dir)
	p.Stderr = GinkgoWriter
	in, err := p.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	out, err := p.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(p.Start()).To(Succeed())
	read := make(chan struct{})
	go func() { // ends when the process does
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.says <- strings.TrimSpace(lines.Text())
		}
	}()
	DeferCleanup(func() {
		p.Process.Signal(syscall.SIGCONT)
		in.Close()
		<-read
		Expect(p.Wait()).To(Succeed())
	})
	return p
}

var _ = Describe("Where something is not permitted,", Label("fs"), func() {
	var top, dir string
	BeforeEach(func() {
		top = GinkgoT().TempDir()
		dir = mkdir(top, "tls")
	})
	chmod := func(path string, mode os.FileMode) {
		GinkgoHelper()
		Expect(os.Chmod(path, mode)).To(Succeed())
	}
	// replace is rename over, remove and create, and in place.
	replacements := []func(path string, data []byte){
		putNew, put,
		func(path string, data []byte) { Expect(os.Remove(path)).To(Succeed()); put(path, data) },
		put, putNew,
	}

	It("a directory that may be searched but not read is followed all the same, degraded", func(ctx SpecContext) {
		asNobody(top)
		write(dir, newGen())
		chmod(dir, 0o311)
		s := watch(ctx, reload.FromDir(dir))
		Expect(s.Status().Degraded).To(Equal("cannot watch " + dir + ": permission denied"))
		for _, replace := range replacements {
			g := newGen()
			for name, data := range g.files {
				replace(filepath.Join(dir, name), data)
			}
			s.swapsTo(ctx, g)
			Expect(s.Status().Degraded).NotTo(BeEmpty())
		}
		chmod(dir, 0o755)
		Eventually(ctx, degraded(s)).Should(BeEmpty())
	}, atMost)

	It("a file that becomes readable last goes live then", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		asNobody(top)
		write(dir, old)
		s := watch(ctx, reload.FromDir(dir)).calmly()
		for name, data := range fresh.files { // install -m, seen by somebody else
			path := filepath.Join(dir, name)
			put(path+".new", data)
			chmod(path+".new", 0)
			Expect(os.Rename(path+".new", path)).To(Succeed())
		}
		Eventually(ctx, func() error { return s.Status().Pending }).Should(MatchError(os.ErrPermission))
		s.keeps(old)
		for name := range fresh.files {
			chmod(filepath.Join(dir, name), 0o600)
		}
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("a directory that cannot be entered for a while is entered when it can", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		asNobody(top)
		write(dir, old)
		s := watch(ctx, reload.FromDir(dir))
		write(mkdir(dir+".new"), fresh)
		chmod(dir+".new", 0)
		Expect(os.Rename(dir, dir+".old")).To(Succeed())
		Expect(os.Rename(dir+".new", dir)).To(Succeed())
		Eventually(ctx, func() error { return s.Status().Pending }).Should(MatchError(os.ErrPermission))
		Eventually(ctx, degraded(s)).ShouldNot(BeEmpty())
		s.keeps(old)
		chmod(dir, 0o755)
		s.swapsTo(ctx, fresh)
		Eventually(ctx, degraded(s)).Should(BeEmpty())
	}, atMost)
})
