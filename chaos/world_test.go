//go:build linux

package chaos_test

// world_test.go is one server side and one client side with their CAs, and the operations that are on the way between them.

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// world is one server and its clients.
type world struct {
	name           string
	t              *tally
	server, client *side
	servers        []*endpoint

	// Where they are: with ServerConfig, with ConfigureServer, with GetCertificate and no question for a certificate, and
	// with ServerConfig again.
	tlsAddr, secondAddr, openAddr, httpAddr, quicAddr, http3Addr, grpcAddr string

	flights flights

	serverCA, clientCA *reloadtest.CA // of the leaves; the operator's alone
	stranger           *reloadtest.CA // beside them in every CA file, so that none is of one block
	oldServer          *reloadtest.Keypair
	oldClient          *reloadtest.Keypair

	mu   sync.Mutex // guards the rest
	foes []*foe     // of CAs that were withdrawn
}

// newWorld makes one that has not begun.
func newWorld(t *tally, name, top string) *world {
	w := &world{name: name, t: t, stranger: reloadtest.NewCA(reloadtest.Options{Name: "stranger"})}
	w.serverCA, w.clientCA = reloadtest.NewCA(reloadtest.Options{Name: "server CA"}), reloadtest.NewCA(reloadtest.Options{Name: "client CA"})
	w.server, w.client = w.newSide("server", top), w.newSide("client", top)
	return w
}

// begin puts its files on disk and starts to follow them.
func (w *world) begin() error {
	first := state{pair: w.issue(w.serverCA), cas: []*reloadtest.CA{w.clientCA, w.stranger}}
	if err := errors.Join(w.server.prepare(first), w.follow(w.server)); err != nil {
		return err
	}
	first = state{pair: w.issue(w.clientCA), cas: []*reloadtest.CA{w.serverCA, w.stranger}}
	return errors.Join(w.client.prepare(first), w.follow(w.client))
}

func (w *world) newSide(name, top string) *side {
	top = filepath.Join(top, w.name+"-"+name)
	return &side{name: w.name + " " + name, t: w.t, top: top, dir: filepath.Join(top, "files"), layout: anyLayout()}
}

// follow starts the followers of a side, with options that differ from one to the next.
func (w *world) follow(sd *side) error {
	sd.resync = []time.Duration{time.Second, 5 * time.Second, reload.DefaultResync}[rand.IntN(3)]
	sd.paths.CAOnly = sd == w.client // a server has no use for other roots, and so the harder case
	return sd.follow(func(o *reload.WatchOptions) { o.Resync = sd.resync })
}

// issue makes a leaf under ca, at the end of a chain of some length.
func (w *world) issue(ca *reloadtest.CA, reuse ...*reloadtest.Keypair) *reloadtest.Keypair {
	var o reloadtest.Options
	if len(reuse) > 0 {
		o.Signer = reuse[0].Key
	}
	for range rand.IntN(3) {
		ca = ca.Intermediate(reloadtest.Options{})
	}
	return ca.Issue(o)
}

// close ends everything.
func (w *world) close() {
	for _, e := range w.servers {
		e.close()
	}
	for _, f := range w.foes {
		f.close()
	}
	for _, sd := range []*side{w.server, w.client} {
		sd.unfollow()
		sd.unmount()
	}
}

// flights are the operations under way, by the time they began.
type flights struct {
	mu  sync.Mutex
	now *sync.WaitGroup // of those that began since the last wait
}

// begin counts an operation until done.
func (f *flights) begin() (done func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil {
		f.now = new(sync.WaitGroup)
	}
	f.now.Add(1)
	return f.now.Done
}

// settle waits for every operation that has begun.
func (f *flights) settle() {
	f.mu.Lock()
	begun := f.now
	f.now = nil
	f.mu.Unlock()
	if begun != nil {
		begun.Wait()
	}
}
