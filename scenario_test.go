package reload_test

// scenario_test.go is what the specs of real writers share: generations that cannot be mistaken for each other, a Reloader
// under observation, and the outcomes that a change on disk can have. The scenarios are in scenario_*_test.go, by family.
//
// In all of them files are real and so are notifications. Unless one says otherwise it resyncs once an hour, so that what
// it finds was found by a notification, and a scene that ends well has warned of nothing.

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gcustom"
	"github.com/onsi/gomega/types"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

const (
	hourly = time.Hour              // a resync that no spec lives to see
	often  = 200 * time.Millisecond // a resync that finds what nothing announces
)

// atMost bounds a spec. It is long: a machine that is busy with something else is no fault of ours.
const atMost = SpecTimeout(40 * time.Second)

// gen is one generation of files. It has nothing in common with any other, unless that is asked for.
type gen struct {
	*reloadtest.Keypair
	files reloadtest.Files
	cas   []*reloadtest.CA // in the CA file
}

// newGen makes a leaf under an intermediate, and a CA file of two roots.
func newGen() gen { return newGenUnder(reloadtest.Options{}) }

// newGenUnder is newGen with a leaf that o describes.
func newGenUnder(o reloadtest.Options) gen {
	root, other := reloadtest.NewCA(reloadtest.Options{}), reloadtest.NewCA(reloadtest.Options{Name: "another root"})
	return genOf(root.Intermediate(reloadtest.Options{}).Issue(o), root, other)
}

// newGens makes n of them.
func newGens(n int) []gen {
	all := make([]gen, n)
	for i := range all {
		all[i] = newGen()
	}
	return all
}

func genOf(k *reloadtest.Keypair, cas ...*reloadtest.CA) gen {
	return gen{k, k.Files(cas...), cas}
}

// sameKey makes a generation in which all but the key is new.
func (g gen) sameKey() gen { return newGenUnder(reloadtest.Options{Signer: g.Key}) }

// withoutCA is g as a writer has it that writes no CA file.
func (g gen) withoutCA() gen { return genOf(g.Keypair) }

// padded is g with every file of one size, whatever the generation.
func (g gen) padded() gen {
	files := reloadtest.Files{}
	for name, data := range g.files {
		files[name] = append(slices.Clone(data), bytes.Repeat([]byte("\n"), 4096-len(data))...)
	}
	return gen{g.Keypair, files, g.cas}
}

// pool is what the CA file says.
func (g gen) pool() *x509.CertPool {
	if len(g.cas) == 0 {
		return nil
	}
	pool := x509.NewCertPool()
	for _, ca := range g.cas {
		pool.AddCert(ca.Cert)
	}
	return pool
}

// is reports whether b is g, all of it and nothing else.
func (g gen) is(b *reload.Bundle) bool {
	return b != nil && b.Fingerprint == g.Fingerprint() && b.ClientCAs.Equal(g.pool()) &&
		slices.EqualFunc(b.Cert.Certificate, g.Chain, bytes.Equal)
}

// beWhole matches the bundle of a complete generation.
func beWhole(g gen) types.GomegaMatcher {
	return gcustom.MakeMatcher(func(b *reload.Bundle) (bool, error) { return g.is(b), nil }).
		WithTemplate("Expected\n{{.FormattedActual}}\n{{.To}} be generation {{.Data}}", g.Fingerprint())
}

// showing matches the chain of a handshake with g.
func showing(g gen) types.GomegaMatcher {
	return WithTransform(func(chain [][]byte) bool { return slices.EqualFunc(chain, g.Chain, bytes.Equal) }, BeTrue())
}

// scene is one Reloader and all that can be seen of it.
type scene struct {
	Gomega // says whose failure it is
	*reload.Reloader
	swaps chan *reload.Bundle
	hints chan struct{} // each send is a look
	log   *journal
	tally *tally
	count uint64 // generations that were accounted for
	end   context.CancelFunc
	ended chan error
}

// watch loads p and follows it until the spec is over. It returns once the watches are there: what changes from then on
// is announced.
func watch(ctx context.Context, p reload.Paths, opts ...func(*reload.WatchOptions)) *scene {
	GinkgoHelper()
	s := load(Default, p, opts...)
	DeferCleanup(s.stop)
	s.start(ctx)
	return s
}

// load makes a scene that has not been started.
func load(g Gomega, p reload.Paths, opts ...func(*reload.WatchOptions)) *scene {
	GinkgoHelper()
	s := &scene{Gomega: g, log: &journal{}, tally: &tally{}, swaps: make(chan *reload.Bundle, 10_000), hints: make(chan struct{})}
	defaults := func(o *reload.WatchOptions) {
		o.Resync, o.Hints, o.Metrics = hourly, s.hints, s.tally
		o.Logger = slog.New(slog.NewMultiHandler(s.log, slog.NewTextHandler(GinkgoWriter, nil)))
		o.OnSwap = func(b *reload.Bundle) { s.swaps <- b }
	}
	var err error
	s.Reloader, err = reload.NewReloader(p, "", append([]func(*reload.WatchOptions){defaults}, opts...)...)
	g.Expect(err).NotTo(HaveOccurred())
	s.count = s.Status().Generation
	return s
}

// start starts the scene and waits for its first look.
func (s *scene) start(ctx context.Context) {
	GinkgoHelper()
	before := s.Status().LastLook
	s.begin(ctx)
	s.looks(ctx, before)
}

// begin starts the scene.
func (s *scene) begin(ctx context.Context) {
	var running context.Context
	running, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.Start(running) }() // ends with stop
}

// stop stops the scene, if it was started.
func (s *scene) stop() {
	GinkgoHelper()
	if s.end != nil {
		s.end()
		s.Eventually(s.ended, "20s").Should(Receive(BeNil()))
		s.end = nil
	}
}

// looks waits for a look that ended after a time.
func (s *scene) looks(ctx context.Context, since time.Time) {
	GinkgoHelper()
	s.Eventually(ctx, func() time.Time { return s.Status().LastLook }).Should(BeTemporally(">", since))
}

// hint has the scene look now, and waits until it has: it takes a second hint only after the look for the first.
func (s *scene) hint(ctx context.Context) {
	GinkgoHelper()
	for range 2 {
		s.Eventually(ctx, s.hints).Should(BeSent(struct{}{}))
	}
}

// swapsTo waits for the one swap of a rotation, to g, and makes sure that there is no other.
func (s *scene) swapsTo(ctx context.Context, g gen) {
	GinkgoHelper()
	var swapped *reload.Bundle
	s.Eventually(ctx, s.swaps).Should(Receive(&swapped))
	s.Expect(swapped).To(beWhole(g))
	s.count++
	s.stays(ctx, g)
}

// hardlySettles are options under which it shows whether something has settled.
func hardlySettles(o *reload.WatchOptions) { o.Settle = 5 * time.Second }

// swapsAtOnceTo is swapsTo without settling, in a scene that hardlySettles.
func (s *scene) swapsAtOnceTo(ctx context.Context, g gen) {
	GinkgoHelper()
	now := time.Now()
	s.swapsTo(ctx, g)
	s.Expect(time.Since(now)).To(BeNumerically("<", 5*time.Second), "has settled")
}

// stays makes sure that g is live, that what is on disk is g, and that there was no swap that is not accounted for.
func (s *scene) stays(ctx context.Context, g gen) {
	GinkgoHelper()
	s.Expect(s.Reload(ctx)).To(Succeed())
	s.keeps(g)
	s.Expect(s.Status().Pending).NotTo(HaveOccurred())
}

// keeps makes sure that g is live, whatever is on disk, and that there was no swap.
func (s *scene) keeps(g gen) {
	GinkgoHelper()
	s.Expect(s.Status().Generation).To(Equal(s.count))
	s.Expect(s.swaps).NotTo(Receive())
	s.Expect(s.Bundle()).To(beWhole(g))
	s.Expect(handshake(s.GetCertificate)).To(showing(g))
}

// warnings returns what was logged that somebody should read.
func (s *scene) warnings() []string { return s.log.lines(slog.LevelWarn) }

// isCalm makes sure that the scene has warned of nothing and counted no failure.
func (s *scene) isCalm() {
	GinkgoHelper()
	s.Expect(s.warnings()).To(BeEmpty())
	s.Expect(s.tally.failures()).To(BeZero())
}

// calmly has the end of the spec make sure that s is calm.
func (s *scene) calmly() *scene {
	DeferCleanup(s.isCalm)
	return s
}

// handshake returns the chain that a client is shown by a server that asks get, nil if the handshake fails.
func handshake(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) (chain [][]byte) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go tls.Server(far, &tls.Config{GetCertificate: get}).Handshake() // ends with the pipe
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true})
	if client.Handshake() != nil {
		return nil
	}
	for _, c := range client.ConnectionState().PeerCertificates {
		chain = append(chain, c.Raw)
	}
	return chain
}

// write replaces the files of g in dir, one by one, in place.
func write(dir string, g gen) {
	GinkgoHelper()
	for _, name := range slices.Sorted(maps.Keys(g.files)) {
		put(filepath.Join(dir, name), g.files[name])
	}
}

func put(path string, data []byte) {
	GinkgoHelper()
	Expect(os.WriteFile(path, data, 0o644)).To(Succeed())
}

// putNew is put by way of a temporary file that is renamed over path.
func putNew(path string, data []byte) {
	GinkgoHelper()
	put(path+".new", data)
	Expect(os.Rename(path+".new", path)).To(Succeed())
}

// relink makes link point to target, by way of a temporary name.
func relink(target, link string) {
	GinkgoHelper()
	Expect(os.Symlink(target, link+".new")).To(Succeed())
	Expect(os.Rename(link+".new", link)).To(Succeed())
}

// release writes g below dir as a release and links to it, so that the first look needs no settling, and returns the link.
func release(dir string, g gen) string {
	GinkgoHelper()
	write(mkdir(dir, "release"), g)
	current := filepath.Join(dir, "current")
	Expect(os.Symlink("release", current)).To(Succeed())
	return current
}

// mkdir makes a directory and its parents and returns its path.
func mkdir(elements ...string) string {
	GinkgoHelper()
	dir := filepath.Join(elements...)
	Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	return dir
}

// blocks cuts data into its PEM blocks.
func blocks(data []byte) (all [][]byte) {
	for {
		_, rest := pem.Decode(data)
		if len(rest) == len(data) {
			return all
		}
		all = append(all, data[:len(data)-len(rest)])
		data = rest
	}
}
