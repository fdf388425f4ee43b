package reload_test

// storm_test.go has every writer rotate many times with pauses between its steps, all at once, while every generation
// that goes live is held against the bytes that were written. It prints what came of it. RELOAD_STORM=n makes it n
// rotations each, RELOAD_STORM_PAUSE=d pauses of up to d.

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("In a storm of rotations", Label("fs"), func() {
	It("nothing goes live that is cut or mismatched, directory swaps are never torn, and the last word is served", func(ctx SpecContext) {
		storm := newStorm(GinkgoT().TempDir())
		var all sync.WaitGroup
		for _, r := range reloadtest.Rotators() {
			front := storm.front(r)
			all.Go(func() {
				defer GinkgoRecover()
				front.blow(ctx)
			})
		}
		all.Wait()
		AddReportEntry("storm", ReportEntryVisibilityFailureOrVerbose, storm.table())
		for _, f := range storm.fronts {
			Expect(f.late).To(BeZero(), "%s: final states that were not served in time", f.r.Name)
			Expect(f.short).To(BeZero(), "%s: shortened chains and CA files", f.r.Name)
			Expect(f.mismatched).To(BeZero(), "%s: mismatched keypairs", f.r.Name)
			if f.r.Atomic {
				Expect(f.torn).To(BeZero(), "%s: torn states", f.r.Name)
			}
		}
	}, SpecTimeout(stormLimit()))
})

// inTime is how long after the last write its generation must be live.
const inTime = 10 * time.Second

// storm is the common ground of all writers.
type storm struct {
	dir       string
	rotations int
	pause     time.Duration // at most, between steps
	gens      []gen         // in turn
	byLeaf    map[string]gen
	fronts    []*front
}

func newStorm(dir string) *storm {
	s := &storm{dir: dir, rotations: stormRotations(), pause: stormPause(), byLeaf: map[string]gen{}}
	for range min(s.rotations+1, 50) {
		g := newGen().padded() // so that mmap never changes a length
		s.gens = append(s.gens, g)
		s.byLeaf[g.Fingerprint()] = g
	}
	return s
}

func stormRotations() int {
	if n, err := strconv.Atoi(os.Getenv("RELOAD_STORM")); err == nil {
		return n
	}
	return 4
}

func stormPause() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("RELOAD_STORM_PAUSE")); err == nil {
		return d
	}
	return 5 * time.Millisecond
}

func stormLimit() time.Duration { return time.Minute + time.Duration(stormRotations())*time.Second }

// front is one writer in it, and one reader.
type front struct {
	*storm
	r         reloadtest.Rotator
	published chan sighting

	swaps, torn, short, mismatched, late int
	delays                               []time.Duration // from the end of a rotation until it is live
}

// sighting is a generation that went live.
type sighting struct {
	*reload.Bundle
	at time.Time
}

func (s *storm) front(r reloadtest.Rotator) *front {
	f := &front{storm: s, r: r, published: make(chan sighting, 10_000)}
	s.fronts = append(s.fronts, f)
	return f
}

// blow writes all rotations, each when the one before is live.
func (f *front) blow(ctx context.Context) {
	dir := filepath.Join(f.dir, f.r.Name)
	Expect(f.r.Write(dir, f.gens[0].files, nil)).To(Succeed())
	cert, key, ca := f.r.Paths(dir)
	s := load(Default, reload.Paths{Cert: cert, Key: key, CA: ca}, func(o *reload.WatchOptions) {
		o.OnSwap = func(b *reload.Bundle) { f.published <- sighting{b, time.Now()} }
		if f.r.Name == "mmap" { // nothing announces it
			o.Resync = often
		}
	})
	s.start(ctx)
	defer s.stop()
	for i := range f.rotations {
		g := f.gens[(i+1)%len(f.gens)]
		Expect(f.r.Write(dir, g.files, func(string) error { return f.breathe(ctx) })).To(Succeed())
		f.await(ctx, g, time.Now())
	}
	Expect(s.Reload(ctx)).To(Succeed())
}

// breathe is the pause of a writer.
func (f *front) breathe(ctx context.Context) error {
	if f.pause <= 0 {
		return nil
	}
	timer := time.NewTimer(rand.N(f.pause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await judges what goes live until that is g, which has been on disk since a time.
func (f *front) await(ctx context.Context, g gen, since time.Time) {
	giveUp := time.NewTimer(inTime)
	defer giveUp.Stop()
	for {
		select {
		case b := <-f.published:
			f.swaps++
			f.judge(b.Bundle)
			if g.asBy(f.r).is(b.Bundle) {
				f.delays = append(f.delays, max(0, b.at.Sub(since)))
				return
			}
		case <-giveUp.C:
			f.late++
			return
		case <-ctx.Done():
			Fail(f.r.Name + ": the storm took too long")
		}
	}
}

// judge counts what is wrong with b.
func (f *front) judge(b *reload.Bundle) {
	g := f.byLeaf[b.Fingerprint].asBy(f.r)
	if g.Keypair == nil || !g.is(b) {
		f.torn++
		GinkgoWriter.Printf("%s: torn: leaf %s, a chain of %d\n", f.r.Name, b.Fingerprint, len(b.Cert.Certificate))
	}
	if len(b.Cert.Certificate) < len(g.Chain) || certificates(b.ClientCAs) < len(g.cas) {
		f.short++
	}
	if pub, ok := b.Cert.PrivateKey.(*ecdsa.PrivateKey); !ok || !pub.PublicKey.Equal(b.Cert.Leaf.PublicKey) {
		f.mismatched++
	}
}

// certificates counts what is in a pool.
func certificates(pool *x509.CertPool) int {
	if pool == nil {
		return 0
	}
	//lint:ignore SA1019 not a pool of the system
	return len(pool.Subjects())
}

// table shows what came of it.
func (s *storm) table() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "writer\tpause\trotations\tpublished\ttorn\tshort\tmismatched\tlate\tp50\tp99")
	for _, f := range s.fronts {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", f.r.Name, s.pause, s.rotations, f.swaps,
			f.torn, f.short, f.mismatched, f.late, f.quantile(0.50), f.quantile(0.99))
	}
	w.Flush()
	return text.String()
}

func (f *front) quantile(q float64) time.Duration {
	if len(f.delays) == 0 {
		return 0
	}
	slices.Sort(f.delays)
	return f.delays[int(q*float64(len(f.delays)-1))].Round(100 * time.Microsecond)
}
