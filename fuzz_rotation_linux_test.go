package reload_test

// fuzz_rotation_linux_test.go looks for sequences of file operations after which something else is live than should be. A
// model knows what was on disk, and for how long: what goes live must be there at that moment, complete, and must have
// stayed for as long as docs/rotation.md says; and what stays must go live.
//
// Time is fake, so a minute costs nothing. The seeds run with every test; the search is go test -run '^$' -fuzz FuzzRotation.

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gcustom"
	"github.com/onsi/gomega/types"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

func FuzzRotation(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(noise(seed, 300))
	}
	gens := relatedGens()
	f.Fuzz(func(t *testing.T, program []byte) {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, gens, program)
			stop := m.watch()
			for steps := 0; steps < 80 && len(m.tape) > 0; steps++ {
				m.step()
			}
			pass(reload.DefaultResync + longestSettle)
			m.isAtRest()
			stop()
			m.judge()
		})
	})
}

// What docs/rotation.md says of doubt.
const (
	partialSettle = 5 * reload.DefaultSettle
	shrinkSettle  = 10 * reload.DefaultSettle
	longestSettle = 20 * reload.DefaultSettle
)

// relatedGens makes generations that have keys and CAs in common, or nothing, or more of them. They are valid in fake time.
func relatedGens() []gen {
	o := reloadtest.Options{NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)}
	root, other, third := reloadtest.NewCA(o), reloadtest.NewCA(o), reloadtest.NewCA(o)
	sub := root.Intermediate(o)
	first := sub.Issue(o)
	kept := o
	kept.Signer = first.Key
	return []gen{
		genOf(first, root, other),
		genOf(sub.Issue(o), root, other),
		genOf(sub.Issue(kept), root, other),
		genOf(other.Intermediate(o).Issue(o), other, third),
		genOf(sub.Intermediate(o).Issue(kept), root, other, third),
		genOf(first, root),
	}
}

// diskNames are those of the files, in the order of disk.
var diskNames = [...]string{"tls.crt", "tls.key", "ca.crt"}

// disk is what is in them; nil where there is none.
type disk [len(diskNames)][]byte

func (d disk) equal(o disk) bool { return d.shared(o) == len(d) }

// shared counts the files that are the same in both.
func (d disk) shared(o disk) (n int) {
	for i := range d {
		if (d[i] == nil) == (o[i] == nil) && bytes.Equal(d[i], o[i]) {
			n++
		}
	}
	return n
}

// moment is how the disk was from a time on until the next moment.
type moment struct {
	disk
	from    time.Time
	since   time.Time // the same was there all the time since
	flipped bool      // it came as a whole
	bundle  *reload.Bundle
}

// model is three files that are reached through one link, and all that was ever in them.
type model struct {
	*testing.T
	Gomega
	tape
	gens   []gen
	top    string
	began  time.Time
	past   []moment // the last is the present
	count  int      // of releases
	parsed map[[len(diskNames)]string]*reload.Bundle
	r      *reload.Reloader
	hints  chan struct{}

	mu    sync.Mutex // guards swaps
	swaps []sighting // the first is what was live at first
}

func newModel(t *testing.T, gens []gen, program []byte) *model {
	m := &model{T: t, Gomega: NewWithT(t), tape: program, gens: gens, top: t.TempDir(), began: time.Now(),
		parsed: map[[len(diskNames)]string]*reload.Bundle{}, hints: make(chan struct{}, 1)}
	var d disk
	for i, name := range diskNames {
		d[i] = gens[0].files[name]
	}
	m.flip(d)
	return m
}

// flip makes a release and lets the link lead to it.
func (m *model) flip(d disk) {
	m.count++
	release := fmt.Sprint("release", m.count)
	m.Expect(os.Mkdir(filepath.Join(m.top, release), 0o755)).To(Succeed())
	for i, data := range d {
		if data != nil {
			m.Expect(os.WriteFile(filepath.Join(m.top, release, diskNames[i]), data, 0o600)).To(Succeed())
		}
	}
	current := filepath.Join(m.top, "current")
	m.Expect(os.Symlink(release, current+".new")).To(Succeed())
	m.Expect(os.Rename(current+".new", current)).To(Succeed())
	m.note(d, true)
	for m.changed("probe") <= m.changed("current") { // until the clock of change times ticks: what is written next is later
		m.Expect(os.WriteFile(filepath.Join(m.top, "probe"), nil, 0o600)).To(Succeed())
	}
}

// changed returns the change time of something, 0 if it is missing.
func (m *model) changed(name string) int64 {
	var s syscall.Stat_t
	if syscall.Lstat(filepath.Join(m.top, name), &s) != nil {
		return 0
	}
	return s.Ctim.Nano()
}

// note has d be on disk from now on.
func (m *model) note(d disk, flipped bool) {
	now := moment{d, time.Now(), time.Now(), flipped, m.parse(d)}
	if len(m.past) > 0 && m.present().equal(d) {
		now.since = m.present().since
		now.flipped = flipped || m.present().flipped
	}
	m.past = append(m.past, now)
}

// say is for whoever has to understand a failure.
func (m *model) say(format string, args ...any) {
	m.Logf("%s "+format, append([]any{time.Since(m.began)}, args...)...)
}

func (m *model) present() *moment { return &m.past[len(m.past)-1] }

// parse returns the bundle that d may go live as; nil for none. Trust never ends because a CA file does.
func (m *model) parse(d disk) *reload.Bundle {
	id := [len(diskNames)]string{string(d[0]), string(d[1]), string(d[2])}
	b, known := m.parsed[id]
	if !known && len(d[0]) > 0 && len(d[1]) > 0 && len(d[2]) > 0 {
		b, _ = reload.BundleFromPEM(d[0], d[1], d[2])
	}
	m.parsed[id] = b
	return b
}

// step does something, and may let time go by.
func (m *model) step() {
	d, i := m.present().disk, m.next(len(diskNames))
	path := filepath.Join(m.top, "current", diskNames[i])
	switch op := m.next(8); op {
	case 0, 1:
		d[i] = m.content(i)
		m.say("write %s: %d bytes", diskNames[i], len(d[i]))
		m.Expect(os.WriteFile(path, d[i], 0o600)).To(Succeed())
		m.note(d, false)
	case 2:
		d[i] = m.content(i)
		m.say("rename over %s: %d bytes", diskNames[i], len(d[i]))
		m.Expect(os.WriteFile(path+".new", d[i], 0o600)).To(Succeed())
		m.Expect(os.Rename(path+".new", path)).To(Succeed())
		m.note(d, false)
	case 3:
		d[i] = nil
		m.say("remove %s", diskNames[i])
		m.Expect(os.RemoveAll(path)).To(Succeed())
		m.note(d, false)
	case 4:
		g := m.next(len(m.gens))
		for i, name := range diskNames {
			d[i] = m.gens[g].files[name]
		}
		if m.next(4) == 0 {
			d[i] = m.content(i)
		}
		m.say("flip to %d", g)
		m.flip(d)
	case 5:
		g := m.next(len(m.gens))
		m.say("write all of %d", g)
		for i, name := range diskNames {
			d[i] = m.gens[g].files[name]
			m.Expect(os.WriteFile(filepath.Join(m.top, "current", name), d[i], 0o600)).To(Succeed())
			m.note(d, false)
		}
	case 6:
		m.say("hint")
		select {
		case m.hints <- struct{}{}:
		default:
		}
	case 7:
		err := m.r.Reload(m.Context())
		m.say("reload: %v", err)
		if err == nil {
			m.Expect(m.r.Bundle()).To(beBundle(m.present().bundle))
		}
	}
	m.pause()
}

// content returns something to be in a file.
func (m *model) content(i int) []byte {
	data := m.gens[m.next(len(m.gens))].files[diskNames[i]]
	switch at := m.next(6); at {
	case 0: // as far as the end of a block
		return slices.Concat(blocks(data)[:m.next(len(blocks(data)))]...)
	case 1:
		return data[:min(len(data)-2, 10*m.next(256))]
	}
	return data
}

// pause lets time go by, or has the next step come at the same instant.
func (m *model) pause() {
	settle := reload.DefaultSettle
	d := []time.Duration{0, 0, settle / 2, settle, 3 * settle, 7 * settle, 12 * settle, reload.DefaultResync, 3 * reload.DefaultResync}[m.next(9)]
	if d > 0 {
		m.say("%s go by", d)
		pass(d)
	}
}

// watch follows the files until stop.
func (m *model) watch() (stop func()) {
	var err error
	m.r, err = reload.NewReloader(reload.FromDir(filepath.Join(m.top, "current")), "", func(o *reload.WatchOptions) {
		o.PollOnly, o.Hints, o.Logger = true, m.hints, slog.New(slog.DiscardHandler)
		o.OnSwap = func(b *reload.Bundle) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.swaps = append(m.swaps, sighting{b, time.Now()})
			m.say("live: %.8s", b.Fingerprint)
		}
	})
	m.Expect(err).NotTo(HaveOccurred())
	m.swaps = append(m.swaps, sighting{m.r.Bundle(), time.Now()})
	running, cancel := context.WithCancel(m.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.r.Start(running) }() // ends with stop
	synctest.Wait()
	return func() {
		cancel()
		m.Expect(<-ended).To(Succeed())
	}
}

// isAtRest makes sure that what is on disk is live, or said to be at fault.
func (m *model) isAtRest() {
	if want := m.present().bundle; want != nil {
		m.Expect(m.r.Bundle()).To(beBundle(want))
		m.Expect(m.r.Status().Pending).NotTo(HaveOccurred())
	} else {
		m.Expect(m.r.Status().Pending).To(HaveOccurred())
	}
}

// judge makes sure that every swap had a reason, and that every reason had its swap.
func (m *model) judge() {
	m.Expect(m.swaps[0].Bundle).To(beBundle(m.past[0].bundle))
	target := m.past[0].disk
	for n, s := range m.swaps[1:] {
		i := slices.IndexFunc(m.past, func(p moment) bool { return m.explains(p, s, m.swaps[n].Bundle, target) })
		m.Expect(i).NotTo(Equal(-1), "%.8s went live at %s: it was not on disk, or not for long enough", s.Fingerprint, s.at.Sub(m.began))
		target = m.past[i].disk
	}
	for i, p := range m.past[:len(m.past)-1] {
		if until := m.past[i+1].from; p.bundle != nil && until.Sub(p.from) > reload.DefaultResync+longestSettle {
			m.Expect(m.liveAt(until)).To(beBundle(p.bundle), "moment %d", i)
		}
	}
}

// explains reports whether s may have gone live for what was on disk at p.
func (m *model) explains(p moment, s sighting, live *reload.Bundle, target disk) bool {
	if p.bundle == nil || !sameBundle(p.bundle, s.Bundle) || s.at.Before(p.from) {
		return false
	}
	for _, later := range m.past { // of the same instant, the last is what stays
		if later.from.After(p.from) && later.from.Before(s.at) && !later.equal(p.disk) {
			return false
		}
	}
	need := reload.DefaultSettle
	switch {
	case p.flipped:
		need = 0
	case len(p.bundle.Cert.Certificate) < len(live.Cert.Certificate) || certificates(p.bundle.ClientCAs) < certificates(live.ClientCAs):
		need = shrinkSettle
	case p.shared(target) > 0:
		need = partialSettle
	}
	for _, earlier := range m.past { // what is written again and again is not waited for without end
		if earlier.equal(p.disk) && s.at.Sub(earlier.from) >= longestSettle {
			return true
		}
	}
	return s.at.Sub(p.since) >= need
}

// liveAt returns what was live just before a time.
func (m *model) liveAt(t time.Time) (b *reload.Bundle) {
	for _, s := range m.swaps {
		if s.at.Before(t) {
			b = s.Bundle
		}
	}
	return b
}

// beBundle matches a bundle with the same chain and CAs.
func beBundle(want *reload.Bundle) types.GomegaMatcher {
	return gcustom.MakeMatcher(func(b *reload.Bundle) (bool, error) { return want != nil && sameBundle(b, want), nil }).
		WithTemplate("Expected\n{{.Actual}}\n{{.To}} be\n{{.Data}}, with the same chain and CAs", want)
}

func sameBundle(a, b *reload.Bundle) bool {
	return slices.EqualFunc(a.Cert.Certificate, b.Cert.Certificate, bytes.Equal) && a.ClientCAs.Equal(b.ClientCAs)
}
