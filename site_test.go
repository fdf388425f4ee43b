package reload_test

// site_test.go is the scene of most specs: a directory of certificate files, what watches it, and everything that is said
// of it. Time is fake: nothing is heard of a change but by a hint or a resync.

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// site is the scene. Each spec makes its own, in its bubble.
type site struct {
	dir   string
	ca    *reloadtest.CA
	disk  *reloadtest.Plain
	hints chan struct{}
	swaps chan *reload.Bundle // what OnSwap was called with; big enough never to block
	tally *tally
	log   *journal
}

// newSite makes an empty directory and an authority.
func newSite() *site {
	dir := GinkgoT().TempDir()
	return &site{
		dir:   dir,
		ca:    reloadtest.NewCA(reloadtest.Options{}),
		disk:  &reloadtest.Plain{Dir: dir},
		hints: make(chan struct{}),
		swaps: make(chan *reload.Bundle, 1000),
		tally: &tally{},
		log:   &journal{},
	}
}

// with are the options every spec starts from, and its own.
func (s *site) with(opts ...func(*reload.WatchOptions)) func(*reload.WatchOptions) {
	return func(o *reload.WatchOptions) {
		o.PollOnly, o.Hints, o.Metrics, o.Logger = true, s.hints, s.tally, slog.New(s.log)
		o.OnSwap = func(b *reload.Bundle) { s.swaps <- b }
		for _, opt := range opts {
			opt(o)
		}
	}
}

// heard takes notifications, and next to nothing else.
func heard(o *reload.WatchOptions) {
	o.PollOnly, o.Resync, o.Settle = false, time.Hour, 10*time.Millisecond
}

// reloader makes a Reloader of the directory.
func (s *site) reloader(opts ...func(*reload.WatchOptions)) *reload.Reloader {
	GinkgoHelper()
	r, err := reload.NewReloader(reload.FromDir(s.dir), "site", s.with(opts...))
	Expect(err).NotTo(HaveOccurred())
	return r
}

// started makes a Reloader and starts it. It is stopped by the end of ctx.
func (s *site) started(ctx context.Context, opts ...func(*reload.WatchOptions)) *reload.Reloader {
	GinkgoHelper()
	r := s.reloader(opts...)
	go r.Start(ctx)
	synctest.Wait()
	return r
}

// begin starts r until stop; its outcome comes from ended.
func (s *site) begin(ctx context.Context, r *reload.Reloader) (stop func(), ended <-chan error) {
	running, stop := context.WithCancel(ctx)
	end := make(chan error, 1)
	go func() { end <- r.Start(running) }() // ends with stop
	synctest.Wait()
	return stop, end
}

// watch runs Watch into store. It is stopped by the end of ctx.
func (s *site) watch(ctx context.Context, store *reload.Store, opts ...func(*reload.WatchOptions)) {
	o := reload.WatchOptions{}
	s.with(opts...)(&o)
	go reload.Watch(ctx, reload.FromDir(s.dir), store, o)
	synctest.Wait()
}

// issue makes a keypair.
func (s *site) issue() *reloadtest.Keypair { return s.ca.Issue(reloadtest.Options{}) }

// put replaces files in place.
func (s *site) put(f reloadtest.Files) {
	GinkgoHelper()
	Expect(s.disk.Write(f)).To(Succeed())
}

// rotate puts a new keypair in place and returns it.
func (s *site) rotate() *reloadtest.Keypair {
	GinkgoHelper()
	k := s.issue()
	s.put(k.Files())
	return k
}

// write replaces one file.
func (s *site) write(name string, data []byte) {
	GinkgoHelper()
	s.put(reloadtest.Files{name: data})
}

// remove removes files.
func (s *site) remove(names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Expect(os.Remove(s.path(name))).To(Succeed())
	}
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// later returns when the clock of the file system, which can stand still for some milliseconds, has moved on.
func (s *site) later() {
	GinkgoHelper()
	now := func() time.Time {
		s.write("clock", nil)
		info, err := os.Stat(s.path("clock"))
		Expect(err).NotTo(HaveOccurred())
		return info.ModTime()
	}
	for start := now(); !now().After(start); {
	}
}

// look has the watcher look, and lets it finish.
func (s *site) look() {
	s.hints <- struct{}{}
	synctest.Wait()
}

// settled has the watcher look, and look again when any candidate has settled.
func (s *site) settled() {
	s.look()
	pass(10 * reload.DefaultSettle)
}

// hooks is what a Store and a Reloader offer a server.
type hooks interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// shown returns the fingerprint of the leaf that a server with these hooks shows to a client that trusts the authority.
func (s *site) shown(h hooks) string {
	GinkgoHelper()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go tls.Server(far, &tls.Config{GetCertificate: h.GetCertificate}).Handshake()
	// Expiry is judged by specs of their own.
	client := tls.Client(near, &tls.Config{RootCAs: s.ca.Pool(), ServerName: "localhost"})
	Expect(client.Handshake()).To(Succeed())
	leaf := client.ConnectionState().PeerCertificates[0]
	return (&reloadtest.Keypair{Leaf: leaf}).Fingerprint()
}

// tally is a Metrics that counts, and that notices being called twice at once.
type tally struct {
	mu         sync.Mutex
	ok, failed int
	expiry     time.Time

	busy  sync.Mutex
	twice bool
}

func (t *tally) ReloadAttempt(success bool) {
	defer t.enter()()
	if success {
		t.ok++
	} else {
		t.failed++
	}
}

func (t *tally) SetExpiry(at time.Time) {
	defer t.enter()()
	t.expiry = at
}

func (t *tally) enter() (leave func()) {
	alone := t.busy.TryLock()
	t.mu.Lock()
	t.twice = t.twice || !alone
	return func() {
		t.mu.Unlock()
		if alone {
			t.busy.Unlock()
		}
	}
}

// counts returns the attempts so far.
func (t *tally) counts() (ok, failed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ok, t.failed
}

func (t *tally) failures() int {
	_, failed := t.counts()
	return failed
}

func (t *tally) liveUntil() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.expiry
}

func (t *tally) overlapped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.twice
}

// journal is a slog.Handler that keeps what is logged.
type journal struct {
	mu      sync.Mutex
	records []slog.Record
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j *journal) WithGroup(string) slog.Handler            { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records = append(j.records, r)
	return nil
}

// lines returns the messages logged so far at least at level.
func (j *journal) lines(level slog.Level) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := []string{}
	for _, r := range j.records {
		if r.Level >= level {
			lines = append(lines, r.Message)
		}
	}
	return lines
}

// said returns the messages at Info and above, which is what people see.
func (j *journal) said() []string { return j.lines(slog.LevelInfo) }

// forget starts anew.
func (j *journal) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records = nil
}

// pendingOf returns why what is on disk is not live.
func pendingOf(r *reload.Reloader) error { return r.Status().Pending }

// errRefused is what hooks of specs refuse with.
var errRefused = errors.New("not this one")

// last returns the attributes of the last line.
func (j *journal) last() map[string]any {
	j.mu.Lock()
	defer j.mu.Unlock()
	attrs := map[string]any{}
	j.records[len(j.records)-1].Attrs(func(a slog.Attr) bool {
		attrs[a.Key] = a.Value.Any()
		return true
	})
	return attrs
}

// running starts r outside a bubble, until the end of the spec.
func (s *site) running(ctx context.Context, r *reload.Reloader) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Start(ctx)
	}()
	DeferCleanup(func() {
		stop()
		<-ended
	})
}
