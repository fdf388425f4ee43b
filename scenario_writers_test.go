package reload_test

// scenario_writers_test.go has every program that reloadtest stands in for: those that issue certificates and those that
// copy them. All rotate at once, since what they do most is wait.

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("Whatever the writer, a rotation", Label("fs"), func() {
	It("goes live as one swap to all of it, the second time like the first", func(ctx SpecContext) {
		everyRotator(ctx, func(ctx context.Context, w writer) {
			gens := newGens(3)
			s := w.watched(ctx, gens[0])
			defer s.stop()
			for _, g := range gens[1:] {
				w.writes(g, nil)
				s.swapsTo(ctx, g.asBy(w.Rotator))
			}
			s.isCalm()
		})
	}, atMost)

	It("that keeps the key goes live as one swap", func(ctx SpecContext) {
		everyRotator(ctx, func(ctx context.Context, w writer) {
			old := newGen()
			fresh := old.sameKey()
			s := w.watched(ctx, old)
			defer s.stop()
			w.writes(fresh, nil)
			s.swapsTo(ctx, fresh.asBy(w.Rotator))
			s.isCalm()
		})
	}, atMost)
})

// writer is one rotator at work.
type writer struct {
	Gomega
	reloadtest.Rotator
	dir string
}

// everyRotator runs scene for every rotator whose writes are announced, all at once.
func everyRotator(ctx SpecContext, scene func(context.Context, writer)) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	var all sync.WaitGroup
	for _, r := range reloadtest.Rotators() {
		if r.Name == "mmap" {
			continue
		}
		fail := func(message string, skip ...int) { Fail(r.Name+": "+message, append(skip, 0)[0]+1) }
		w := writer{NewGomega(fail), r, filepath.Join(dir, r.Name)}
		all.Go(func() {
			defer GinkgoRecover()
			scene(ctx, w)
		})
	}
	all.Wait()
}

// watched starts a scene on the files of g.
func (w writer) watched(ctx context.Context, g gen) *scene {
	GinkgoHelper()
	w.writes(g, nil)
	cert, key, ca := w.Paths(w.dir)
	s := load(w.Gomega, reload.Paths{Cert: cert, Key: key, CA: ca}, unhurried)
	s.start(ctx)
	return s
}

// writes replaces the files by those of g.
func (w writer) writes(g gen, between func(step string) error) {
	GinkgoHelper()
	w.Expect(w.Write(w.dir, g.files, between)).To(Succeed())
}

// unhurried are options under which a writer that goes file by file is not taken for finished only because the machine
// had something better to do than to run it.
func unhurried(o *reload.WatchOptions) { o.Settle = 200 * time.Millisecond }

// asBy is g as r writes it.
func (g gen) asBy(r reloadtest.Rotator) gen {
	if r.CA == "" {
		return g.withoutCA()
	}
	return g
}
