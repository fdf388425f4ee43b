package reloadtest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("Rotator", func() {
	names := map[string]bool{}
	for _, rotator := range reloadtest.Rotators() {
		if names[rotator.Name] {
			panic("two rotators are called " + rotator.Name)
		}
		names[rotator.Name] = true

		Context(rotator.Name, func() {
			var dir string
			BeforeEach(func() { dir = filepath.Join(GinkgoT().TempDir(), "not", "there") })

			write := func(n int, between func(string) error) error {
				err := rotator.Write(dir, generation(n), between)
				if errors.Is(err, syscall.EINVAL) && strings.Contains(err.Error(), "renameat2") {
					Skip("the file system does not exchange names")
				}
				return err
			}

			It("puts every generation at its paths, the fourth like the first", func() {
				for n := range 4 {
					Expect(write(n+1, nil)).To(Succeed())
					Expect(at(rotator, dir)).To(Equal(expected(rotator, n+1)))
				}
			})

			It("writes to different directories at once", func() {
				var all sync.WaitGroup
				for n := range 4 {
					all.Go(func() {
						defer GinkgoRecover()
						dir := filepath.Join(dir, fmt.Sprint(n))
						Expect(rotator.Write(dir, generation(n), nil)).To(Succeed())
						Expect(at(rotator, dir)).To(Equal(expected(rotator, n)))
					})
				}
				all.Wait()
			})

			It("leaves no temporary files behind", func() {
				Expect(write(1, nil)).To(Succeed())
				Expect(write(2, nil)).To(Succeed())
				before := tree(dir)
				Expect(write(3, nil)).To(Succeed())
				if rotator.Name != "certbot" && !strings.HasPrefix(rotator.Name, "flip") { // which archive
					Expect(tree(dir)).To(HaveLen(len(before)))
				}
				Expect(tree(dir)).NotTo(ContainElement(MatchRegexp(`~$|\.tmp$|\.new$|\.old$|_tmp$|/previous_|/4913$`)))
			})

			It("recovers from a stop after any of its steps", func() {
				Expect(write(1, nil)).To(Succeed())
				for stopAt, n := 1, 2; ; stopAt, n = stopAt+1, n+2 {
					step := 0
					killed := errors.New("killed")
					err := write(n, func(string) error {
						if step++; step == stopAt {
							return killed
						}
						return nil
					})
					if err == nil {
						Expect(stopAt).To(BeNumerically(">", 1), "rotation in one step")
						return
					}
					Expect(err).To(MatchError(killed))
					Expect(openBelow(dir)).To(BeEmpty())
					Expect(write(n+1, nil)).To(Succeed(), "after a stop at step %d", stopAt)
					Expect(at(rotator, dir)).To(Equal(expected(rotator, n+1)))
				}
			})

			It("changes all files at once if it says so, and not if it does not", func() {
				Expect(write(1, nil)).To(Succeed())
				mixed := 0
				look := func(string) error {
					if !whole(rotator, dir, 1, 2) {
						mixed++
					}
					return nil
				}
				Expect(write(2, look)).To(Succeed())
				if rotator.Atomic {
					Expect(mixed).To(BeZero())
				} else {
					Expect(mixed).NotTo(BeZero())
				}
			})

			It("takes a keypair without a CA", func() {
				f := generation(1)
				delete(f, "ca.crt")
				Expect(rotator.Write(dir, f, nil)).To(Succeed())
				_, _, ca := rotator.Paths(dir)
				Expect(ca == "" || !fileExists(ca)).To(BeTrue())
			})

			It("refuses half a keypair and files it has no place for", func() {
				f := generation(1)
				f["other"] = nil
				Expect(rotator.Write(dir, f, nil)).To(MatchError(HaveSuffix("no place for other")))
				delete(f, "other")
				delete(f, "tls.key")
				Expect(rotator.Write(dir, f, nil)).To(MatchError("reloadtest: " + rotator.Name + ": no tls.key to write"))
			})
		})
	}

	It("tells the hook of its steps by verb and file", func() {
		dir, steps := GinkgoT().TempDir(), []string{}
		r := reloadtest.Certbot()
		Expect(r.Write(dir, generation(1), nil)).To(Succeed())
		Expect(r.Write(dir, generation(2), func(step string) error {
			steps = append(steps, step)
			return nil
		})).To(Succeed())
		Expect(steps).To(HaveExactElements(
			"write privkey2.pem", "chown privkey2.pem", "chmod privkey2.pem",
			"write cert2.pem", "write chain2.pem", "write fullchain2.pem",
			"link previous_cert.pem", "link previous_privkey.pem", "link previous_chain.pem", "link previous_fullchain.pem",
			"unlink cert.pem", "link cert.pem", "unlink privkey.pem", "link privkey.pem",
			"unlink chain.pem", "link chain.pem", "unlink fullchain.pem", "link fullchain.pem",
			"unlink previous_cert.pem", "unlink previous_privkey.pem", "unlink previous_chain.pem",
		))
	})

	It("keeps certbot's leaf and chain in files of their own too", func() {
		dir := GinkgoT().TempDir()
		Expect(reloadtest.Certbot().Write(dir, generation(1), nil)).To(Succeed())
		live := filepath.Join(dir, "live", "localhost")
		leaf, err := os.ReadFile(filepath.Join(live, "cert.pem"))
		Expect(err).NotTo(HaveOccurred())
		chain, err := os.ReadFile(filepath.Join(live, "chain.pem"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(leaf) + string(chain)).To(Equal(string(generation(1)["tls.crt"])))
		Expect(strings.Count(string(leaf), "BEGIN")).To(Equal(1))
		Expect(os.Readlink(filepath.Join(live, "cert.pem"))).To(Equal("../../archive/localhost/cert1.pem"))
	})

	It("leaves a key that did not change untouched in a step ca renewal", func() {
		dir, r := GinkgoT().TempDir(), reloadtest.StepCA()
		Expect(r.Write(dir, generation(1), nil)).To(Succeed())
		f, steps := generation(2), []string{}
		f["tls.key"] = generation(1)["tls.key"]
		Expect(r.Write(dir, f, func(step string) error { steps = append(steps, step); return nil })).To(Succeed())
		Expect(steps).To(Equal([]string{"truncate svc.crt"}))
	})

	It("cuts a file written in pieces inside and between its blocks", func() {
		dir, r := GinkgoT().TempDir(), reloadtest.Pieces()
		cert, _, _ := r.Paths(dir)
		var begins, ends []int
		Expect(r.Write(dir, generation(1), func(step string) error {
			if strings.HasSuffix(step, " tls.crt") {
				data, err := os.ReadFile(cert)
				Expect(err).NotTo(HaveOccurred())
				begins = append(begins, strings.Count(string(data), "-----BEGIN"))
				ends = append(ends, strings.Count(string(data), "-----END"))
			}
			return nil
		})).To(Succeed())
		Expect(begins).To(Equal([]int{0, 1, 1, 2, 2}))
		Expect(ends).To(Equal([]int{0, 0, 1, 1, 2}))
	})

	It("holds a file open from truncating to writing it, and until its last piece", func() {
		if runtime.GOOS != "linux" {
			Skip("open files are known on Linux")
		}
		dir, r, open := GinkgoT().TempDir(), reloadtest.Pieces(), []bool{}
		Expect(r.Write(dir, generation(1), func(step string) error {
			if strings.HasSuffix(step, " tls.crt") {
				open = append(open, len(openBelow(dir)) > 0)
			}
			return nil
		})).To(Succeed())
		Expect(open).To(Equal([]bool{true, true, true, true, false}))
	})

	DescribeTable("moves the modification time backwards where the real one may",
		func(r reloadtest.Rotator) {
			dir := GinkgoT().TempDir()
			Expect(r.Write(dir, generation(1), nil)).To(Succeed())
			cert, _, _ := r.Paths(dir)
			before, err := os.Stat(cert)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Write(dir, generation(2), nil)).To(Succeed())
			after, err := os.Stat(cert)
			Expect(err).NotTo(HaveOccurred())
			Expect(after.ModTime()).To(BeTemporally("<", before.ModTime()))
		},
		Entry("rsync", reloadtest.Rsync()),
		Entry("rsync --inplace", reloadtest.RsyncInPlace()),
		Entry("tar x", reloadtest.Untar()),
	)
})

// generations are made once; the keypairs of all of them hang below one intermediate.
var generations []reloadtest.Files

// generation returns the nth of an endless row of different keypairs with a CA file, made on demand.
func generation(n int) reloadtest.Files {
	for len(generations) <= n {
		root := reloadtest.NewCA(reloadtest.Options{Name: fmt.Sprint("root ", len(generations))})
		k := root.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{})
		generations = append(generations, k.Files(root))
	}
	copied := reloadtest.Files{}
	for name, data := range generations[n] {
		copied[name] = data
	}
	return copied
}

// expected returns what r puts at its paths for generation n, by role.
func expected(r reloadtest.Rotator, n int) map[string]string {
	f := generation(n)
	want := map[string]string{"cert": string(f["tls.crt"]), "key": string(f["tls.key"])}
	if r.CA != "" {
		want["ca"] = string(f["ca.crt"])
	}
	return want
}

// at returns what is at the paths of r, by role. What is missing is left out.
func at(r reloadtest.Rotator, dir string) map[string]string {
	cert, key, ca := r.Paths(dir)
	found := map[string]string{}
	for role, path := range map[string]string{"cert": cert, "key": key, "ca": ca} {
		if data, err := os.ReadFile(path); err == nil {
			found[role] = string(data)
		}
	}
	return found
}

// whole reports whether all that is at the paths belongs to one of the generations.
func whole(r reloadtest.Rotator, dir string, of ...int) bool {
	for _, n := range of {
		want, all := expected(r, n), true
		for role, data := range at(r, dir) {
			all = all && data == want[role]
		}
		if all {
			return true
		}
	}
	return false
}

// hold matches a directory whose files, read by name, have the contents of f.
func hold(f reloadtest.Files) OmegaMatcher {
	return WithTransform(func(dir string) reloadtest.Files {
		found := reloadtest.Files{}
		for name := range f {
			data, err := os.ReadFile(filepath.Join(dir, name))
			Expect(err).NotTo(HaveOccurred())
			found[name] = data
		}
		return found
	}, Equal(f))
}

// tree returns the paths of everything below dir.
func tree(dir string) (paths []string) {
	GinkgoHelper()
	Expect(filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		paths = append(paths, filepath.ToSlash(path))
		return err
	})).To(Succeed())
	return paths
}

// openBelow returns the files below dir that this process holds open; on Linux, none elsewhere.
func openBelow(dir string) (open []string) {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		if path, err := os.Readlink(link); err == nil && strings.HasPrefix(path, dir) {
			open = append(open, path)
		}
	}
	return open
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func writeFile(path, data string) {
	GinkgoHelper()
	Expect(os.WriteFile(path, []byte(data), 0o644)).To(Succeed())
}
