package reload_test

// fuzz_links_linux_test.go looks for paths that are not followed to where they lead: through links, directories and files
// that come, go and change places. The oracles are the kernel and filepath.EvalSymlinks. Every change must be noticed by
// notification alone.
//
// The seeds run with every test; the search is go test -run '^$' -fuzz FuzzLinks.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
)

func FuzzLinks(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(noise(seed, 200))
	}
	gens := newGens(4)
	for i, g := range gens { // key and certificates in one file: one path decides
		gens[i].files["pem"] = slices.Concat(g.KeyPEM, g.CertPEM)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		m := newMaze(t, gens, program)
		stop := m.watch()
		for steps := 0; steps < 40 && len(m.tape) > 0; steps++ {
			m.step()
			m.check()
		}
		stop()
	})
}

// maze is a directory full of links, and a path in it.
type maze struct {
	*testing.T
	Gomega
	tape
	gens []gen
	root string
	path string   // joined by hand: filepath.Join would clean it
	ways []string // what leads to each name in it, the shortest first
	r    *reload.Reloader
}

func newMaze(t *testing.T, gens []gen, program []byte) *maze {
	m := &maze{T: t, Gomega: NewWithT(t), tape: program, gens: gens}
	top, err := filepath.EvalSymlinks(t.TempDir())
	m.Expect(err).NotTo(HaveOccurred())
	m.root = filepath.Join(top, "1", "2", "3", "4") // room for as many ".."
	m.Expect(os.MkdirAll(m.root, 0o755)).To(Succeed())
	route := m.route()
	if m.next(4) > 0 {
		route += "/a"
	}
	m.path = m.root + "/" + route
	for i, name := 0, ""; i < len(route); i += len(name) + 1 {
		name, _, _ = strings.Cut(route[i:], "/")
		if strings.Trim(name, ".") != "" {
			m.ways = append(m.ways, m.root+"/"+route[:i+len(name)])
		}
	}
	m.Logf("path %s", m.path)
	return m
}

// route returns a path for something to lead along.
func (m *maze) route() string {
	var names []string
	for range 1 + m.next(4) {
		names = append(names, []string{"a", "b", "c", "..", "a", "b", ".", ""}[m.next(8)])
	}
	route := strings.TrimLeft(strings.Join(names, "/"), "/")
	if route == "" {
		return "a"
	}
	return route
}

// place returns a path for something to be put at. Half of them are on the way.
func (m *maze) place() string {
	if n := len(m.ways); n > 0 && m.next(2) == 0 {
		return m.ways[m.next(n)]
	}
	path := m.root
	for range 1 + m.next(3) {
		path += "/" + []string{"a", "b", "c"}[m.next(3)]
	}
	return path
}

// inside reports whether path is the path of something below root, or could be.
func (m *maze) inside(path string) bool {
	dir, err := filepath.EvalSymlinks(path[:strings.LastIndexByte(path, '/')])
	return err == nil && (dir == m.root || strings.HasPrefix(dir, m.root+"/"))
}

// step changes something. Not all that it tries is possible.
func (m *maze) step() {
	op := m.next(8)
	if op == 0 {
		m.mend()
		return
	}
	at := m.place()
	if !m.inside(at) {
		return
	}
	switch op {
	case 1:
		m.did(at, "mkdir", os.Mkdir(at, 0o755))
	case 2:
		m.file(at)
	case 3, 4:
		m.link(at, m.route())
	case 5:
		m.did(at, "remove", os.RemoveAll(at))
	case 6:
		if to := m.place(); m.inside(to) {
			m.did(at, "rename to "+strings.TrimPrefix(to, m.root), os.Rename(at, to))
		}
	case 7:
		g := m.gens[m.next(len(m.gens))]
		if info, err := os.Lstat(at); err == nil && info.Mode().IsRegular() {
			m.did(at, "write "+g.Fingerprint()[:8], os.WriteFile(at, g.files["pem"], 0o600))
		}
	}
}

// did is for whoever has to understand a failure.
func (m *maze) did(at, what string, err error) {
	m.Logf("%s %s: %v", strings.TrimPrefix(at, m.root), what, err)
}

// file puts a generation at a path.
func (m *maze) file(at string) {
	g, temp := m.gens[m.next(len(m.gens))], filepath.Join(m.root, ".new")
	m.Expect(os.WriteFile(temp, g.files["pem"], 0o600)).To(Succeed())
	m.did(at, "new "+g.Fingerprint()[:8], os.Rename(temp, at))
}

// link puts a link at a path, or makes it lead elsewhere.
func (m *maze) link(at, target string) {
	temp := filepath.Join(m.root, ".link")
	if m.next(4) == 0 {
		target = m.root + "/" + target
	}
	os.Remove(temp)
	m.Expect(os.Symlink(target, temp)).To(Succeed())
	m.did(at, "link to "+target, os.Rename(temp, at))
}

// mend has the path lead to a file, where that can be.
func (m *maze) mend() {
	for i, way := range m.ways {
		last := i == len(m.ways)-1
		if info, err := os.Stat(way); err == nil && info.IsDir() != last {
			continue
		}
		if !m.inside(way) {
			return
		}
		m.did(way, "mend", os.RemoveAll(way))
		switch {
		case last:
			m.file(way)
		case m.next(2) == 0:
			m.did(way, "mkdir", os.Mkdir(way, 0o755))
		default:
			aside := m.place()
			if m.inside(aside) {
				m.did(aside, "mkdir", os.Mkdir(aside, 0o755))
			}
			m.link(way, strings.TrimPrefix(aside, m.root+"/"))
		}
	}
}

// want returns the generation that the path leads to, by the kernel's word, and has filepath.EvalSymlinks agree.
func (m *maze) want() (g gen, ok bool) {
	data, err := os.ReadFile(m.path)
	real, evalErr := filepath.EvalSymlinks(m.path)
	switch {
	case err == nil:
		m.Expect(evalErr).NotTo(HaveOccurred())
		m.Expect(os.ReadFile(real)).To(Equal(data))
	case !errors.Is(err, syscall.ELOOP) && !errors.Is(err, syscall.EISDIR): // it follows more links than the kernel
		m.Expect(evalErr).To(HaveOccurred())
	}
	i := slices.IndexFunc(m.gens, func(g gen) bool { return err == nil && slices.Equal(g.files["pem"], data) })
	if i < 0 {
		return g, false
	}
	return m.gens[i], true
}

// watch follows the path until stop.
func (m *maze) watch() (stop func()) {
	var err error
	m.r, err = reload.NewReloader(reload.Paths{Cert: m.path, Key: m.path}, "", func(o *reload.WatchOptions) {
		o.AwaitFiles, o.Resync, o.Settle, o.Logger = true, hourly, time.Millisecond, slog.New(slog.DiscardHandler)
	})
	m.Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(m.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.r.Start(running) }() // ends with stop
	return func() {
		cancel()
		m.Eventually(ended, "20s").Should(Receive(BeNil()))
	}
}

// check waits until what is live is what the path leads to, or until that is said to be at fault.
func (m *maze) check() {
	g, ok := m.want()
	m.Eventually(func() error {
		s := m.r.Status()
		switch {
		case s.LastLook.IsZero():
			return errors.New("has not looked")
		case s.Degraded != "" && !strings.Contains(s.Degraded, "not running"):
			return StopTrying(s.Degraded)
		case ok && (s.Pending != nil || s.Fingerprint != g.Fingerprint()):
			return fmt.Errorf("live is %.8s, want %.8s; pending: %w", s.Fingerprint, g.Fingerprint(), s.Pending)
		case !ok && s.Pending == nil:
			return errors.New("nothing is pending")
		}
		return nil
	}, "8s", "200us").Should(Succeed()) // the search itself gives up after ten
}
