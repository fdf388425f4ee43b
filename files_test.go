package reload_test

// files_test.go says which files a path leads to: the ones the system would open, all of one moment, and regular ones of
// a bounded size. special_test.go has what only Unix has.

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("A path", func() {
	load := func(path string) (*reload.Bundle, error) {
		return reload.LoadBundle(reload.Paths{Cert: path, Key: path})
	}
	link := func(target, path string) {
		GinkgoHelper()
		Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		Expect(os.Symlink(target, path)).To(Succeed())
	}

	It("may be one of certbot's links", func() {
		dir := GinkgoT().TempDir()
		Expect(os.MkdirAll(filepath.Join(dir, "archive/example.org"), 0o755)).To(Succeed())
		place(dir, "archive/example.org/fullchain7.pem", fullchain)
		place(dir, "archive/example.org/privkey7.pem", privkey)
		live := filepath.Join(dir, "live/example.org")
		link("../../archive/example.org/fullchain7.pem", filepath.Join(live, "fullchain.pem"))
		link("../../archive/example.org/privkey7.pem", filepath.Join(live, "privkey.pem"))

		b, err := reload.LoadBundle(reload.Paths{Cert: filepath.Join(live, "fullchain.pem"), Key: filepath.Join(live, "privkey.pem")})
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Cert.Certificate).To(Equal(certificatesIn(fullchain)))
	})

	It("may climb out of the directory that a link leads to", func() {
		dir := GinkgoT().TempDir()
		Expect(os.MkdirAll(filepath.Join(dir, "real/inner"), 0o755)).To(Succeed())
		place(dir, "real/tls.pem", combined)
		place(dir, "tls.pem", []byte("not this one"))
		link("real/inner", filepath.Join(dir, "link"))
		_, err := load(dir + "/link/../tls.pem")
		Expect(err).NotTo(HaveOccurred())
		GinkgoT().Chdir(dir)
		_, err = load("link/../tls.pem")
		Expect(err).NotTo(HaveOccurred())
	})

	DescribeTable("may pass as many links as the system allows",
		func(links int) {
			dir := GinkgoT().TempDir()
			place(dir, "0", combined)
			for i := range links {
				link(fmt.Sprint(i), filepath.Join(dir, fmt.Sprint(i+1)))
			}
			path := filepath.Join(dir, fmt.Sprint(links))
			_, allowed := os.Stat(path)
			_, err := load(path)
			Expect(errors.Is(err, errnoOf(allowed))).To(BeTrue(), "%v, not %v", err, allowed)
		},
		Entry("39", 39), Entry("40", 40), Entry("41", 41),
	)

	It("leads where the system says, through any links", func() {
		random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0))
		ca, outcomes := reloadtest.NewCA(reloadtest.Options{}), map[string]int{}
		for range 20 {
			g := newGraph(random, GinkgoT().TempDir(), ca)
			for range 50 {
				path := g.root + "/" + g.path()
				what := fmt.Sprintf("%s in %s", path, g)
				b, err := load(path)
				info, statErr := os.Stat(path)
				switch {
				case statErr != nil:
					Expect(errors.Is(err, errnoOf(statErr))).To(BeTrue(), "%s: %v, not %v", what, err, statErr)
				case info.IsDir():
					Expect(err).To(MatchError(ContainSubstring("is a directory")), what)
				default:
					data, readErr := os.ReadFile(path)
					Expect(readErr).NotTo(HaveOccurred())
					Expect(err).NotTo(HaveOccurred(), what)
					Expect(b.Cert.Certificate).To(Equal(certificatesIn(data)), what)
				}
				outcomes[fmt.Sprint(errnoOf(statErr), statErr == nil && info.IsDir())]++
			}
		}
		Expect(len(outcomes)).To(BeNumerically(">=", 4), "files, directories, and two errors: %v", outcomes)
	})

	It("may lead to a file of a mebibyte", func() {
		file := append(bytes.Repeat([]byte{'#'}, 1<<20-len(combined)-1), "\n"+string(combined)...)
		Expect(file).To(HaveLen(1 << 20))
		_, err := load(place(GinkgoT().TempDir(), "tls.pem", file))
		Expect(err).NotTo(HaveOccurred())
	})

	for _, role := range []string{"certificate", "key", "trust roots"} {
		DescribeTable("of the "+role+" is refused at once, by name, where it leads to",
			func(kind func(dir string) string, cause string) {
				p, path := pathsWith(role, kind)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := reload.LoadBundle(p)
				runtime.ReadMemStats(&after)
				Expect(err).To(MatchError(BeElementOf("reload: "+role+" "+path+": "+cause, "reload: "+role+": open "+path+": "+cause,
					"reload: "+role+": read "+path+": "+cause, "reload: "+role+": stat "+path+": "+cause)))
				Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", 8<<20))
				if role == "trust roots" && !errors.Is(err, fs.ErrNotExist) {
					p.CAOnly = false
					_, again := reload.LoadBundle(p)
					Expect(again).To(MatchError(err.Error()), "only a missing CA file is optional")
				}
			},
			Entry("a directory", directory, "is a directory, want a regular file"),
			Entry("a file of a gibibyte with nothing in it", sparse(1<<30), "1073741824 bytes, more than 1048576"),
			Entry("a file a byte too long", sparse(1<<20+1), "1048577 bytes, more than 1048576"),
			Entry("a link to itself", linkTo("file"), "too many levels of symbolic links"),
			Entry("two links to each other", func(dir string) string { linkTo("file")(filepath.Join(dir, "..")); return linkTo("../file")(dir) }, "too many levels of symbolic links"),
			Entry("nothing", func(dir string) string { return filepath.Join(dir, "file") }, "no such file or directory"),
			Entry("a missing directory", func(dir string) string { return filepath.Join(dir, "gone", "file") }, "no such file or directory"),
			Entry("a link to nothing", linkTo("gone"), "no such file or directory"),
			Entry("a link into a missing directory", linkTo("gone/file"), "no such file or directory"),
			Entry("something below a file", func(dir string) string { return filepath.Join(place(dir, "file", combined), "file") }, "not a directory"),
			Entry("a file taken for a directory", func(dir string) string { return place(dir, "file", combined) + "/" }, "not a directory"),
			Entry("a name of 300 bytes", func(dir string) string { return filepath.Join(dir, strings.Repeat("n", 300)) }, "file name too long"),
			Entry("a name with a NUL", func(dir string) string { return filepath.Join(dir, "a\x00b") }, "invalid argument"),
			specialFiles(),
		)
	}
})

var _ = Describe("LoadBundle", func() {
	It("never mixes two generations of a volume that is switched under it", func(ctx SpecContext) {
		// All renewals keep the key, so that a mixture would not give itself away by a mismatch.
		key := keyIn("pki/leaf.key")
		type generation struct {
			*reloadtest.Keypair
			ca *reloadtest.CA
		}
		generations := map[string]generation{}
		var files []reloadtest.Files
		for range 6 {
			ca := reloadtest.NewCA(reloadtest.Options{})
			k := ca.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{Signer: key})
			generations[k.Fingerprint()] = generation{k, ca}
			files = append(files, k.Files(ca))
		}
		dir := GinkgoT().TempDir()
		volume, err := reloadtest.NewKubelet(dir, files[0])
		Expect(err).NotTo(HaveOccurred())

		p := reload.FromDir(dir)
		p.CAOnly = true
		stop := make(chan struct{})
		loaded := make(chan int, 3)
		var readers sync.WaitGroup
		for range cap(loaded) {
			readers.Go(func() {
				defer GinkgoRecover()
				n := 0
				defer func() { loaded <- n }()
				for {
					select {
					case <-stop:
						return
					default:
					}
					b, err := reload.LoadBundle(p)
					if err != nil {
						Expect(err).To(MatchError(HaveSuffix("changed while it was read")))
						continue
					}
					g, known := generations[b.Fingerprint]
					Expect(known).To(BeTrue())
					Expect(b.Cert.Certificate).To(Equal(g.Chain))
					Expect(b.ClientCAs.Equal(g.ca.Pool())).To(BeTrue())
					Expect(b.RootCAs.Equal(g.ca.Pool())).To(BeTrue())
					n++
				}
			})
		}
		for i := range 100 {
			Expect(volume.Update(files[(i+1)%len(files)])).To(Succeed())
		}
		close(stop)
		readers.Wait()
		total := 0
		for range cap(loaded) {
			total += <-loaded
		}
		Expect(total).To(BeNumerically(">", 0))
	}, SpecTimeout(time.Minute))

	It("does not take a file for missing while its volume is switched", func() {
		ca := reloadtest.NewCA(reloadtest.Options{})
		k := ca.Issue(reloadtest.Options{})
		dir := GinkgoT().TempDir()
		volume, err := reloadtest.NewKubelet(dir, k.Files(ca))
		Expect(err).NotTo(HaveOccurred())
		volume.Step = func(step string) error {
			b, err := reload.LoadBundle(reload.FromDir(dir))
			Expect(err).NotTo(HaveOccurred(), step)
			Expect(b.ClientCAs).NotTo(BeNil(), step)
			return nil
		}
		Expect(volume.Update(ca.Issue(reloadtest.Options{}).Files(ca))).To(Succeed())
	})
})

// pathsWith returns good paths but for one role, whose file some function makes, and that path.
func pathsWith(role string, kind func(dir string) string) (p reload.Paths, path string) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	p = placePair(fullchain, privkey, fixture("accept/ca.pem"))
	p.CAOnly = true
	inner := filepath.Join(dir, "inner")
	Expect(os.Mkdir(inner, 0o755)).To(Succeed())
	path = kind(inner)
	switch role {
	case "certificate":
		p.Cert = path
	case "key":
		p.Key = path
	default:
		p.CA = path
	}
	return p, path
}

func directory(dir string) string { return dir }

func sparse(size int64) func(dir string) string {
	return func(dir string) string {
		path := place(dir, "file", nil)
		Expect(os.Truncate(path, size)).To(Succeed())
		return path
	}
}

func linkTo(target string) func(dir string) string {
	return func(dir string) string {
		path := filepath.Join(dir, "file")
		Expect(os.Symlink(target, path)).To(Succeed())
		return path
	}
}

// errnoOf returns what the system said, without the path it said it of.
func errnoOf(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// graph is a tree of directories and files with links that lead anywhere, also astray.
type graph struct {
	random *rand.Rand
	root   string
	names  []string // of directories, files and links, below root
	links  []string // for messages
}

func newGraph(random *rand.Rand, root string, ca *reloadtest.CA) *graph {
	GinkgoHelper()
	g := &graph{random: random, root: root, names: []string{"d", "e", "d/f", "d/x", "e/y", "z"}}
	for _, dir := range []string{"d", "e", "d/f"} {
		Expect(os.Mkdir(filepath.Join(root, dir), 0o755)).To(Succeed())
	}
	for _, file := range []string{"d/x", "e/y", "z"} {
		k := ca.Issue(reloadtest.Options{Signer: keyIn("pki/leaf.key")})
		place(root, file, append(k.CertPEM, k.KeyPEM...))
	}
	for i := range 8 {
		name := []string{"", "d/", "e/", "d/f/"}[random.IntN(4)] + fmt.Sprintf("l%d", i)
		target := g.path()
		if random.IntN(3) == 0 {
			target = root + "/" + target
		}
		Expect(os.Symlink(target, filepath.Join(root, name))).To(Succeed())
		g.names = append(g.names, name)
		g.links = append(g.links, name+" -> "+target)
	}
	return g
}

// path returns a path of up to four steps, most of which exist somewhere.
func (g *graph) path() string {
	var steps []string
	for range 1 + g.random.IntN(4) {
		switch n := g.random.IntN(12); n {
		case 0:
			steps = append(steps, ".")
		case 1, 2, 3:
			steps = append(steps, "..")
		case 4:
			steps = append(steps, "", "")
		default:
			name := g.names[g.random.IntN(len(g.names))]
			if n < 8 {
				name = filepath.Base(name)
			}
			steps = append(steps, name)
		}
	}
	if path := strings.TrimLeft(strings.Join(steps, "/"), "/"); path != "" {
		return path
	}
	return "z"
}

func (g *graph) String() string { return strings.Join(g.links, ", ") }
