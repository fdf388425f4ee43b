//go:build linux

package chaos_test

// world_test.go is one server side and one client side with their CAs, and the operator who rotates them as docs/trust.md says.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

	tlsAddr, httpAddr, quicAddr, http3Addr, grpcAddr string // of those that verify clients

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
	sd.paths.CAOnly = true
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

// rotate has the side say s, and returns when it is live and every operation that began before has ended: false when that
// does not come to pass.
func (w *world) rotate(ctx context.Context, sd *side, s state) bool {
	both := s.pair != sd.state.pair && !slices.Equal(s.cas, sd.state.cas)
	sd.intend(s)
	return w.write(ctx, sd, both)
}

// write brings the state of sd to disk, and waits as rotate does.
//
// If both the keypair and the CAs are other ones, there is no file that is as it was, and a part of the last one is taken
// for the whole after a single settle: that is no job for a writer who leaves parts behind, unless CAs are written apart.
func (w *world) write(ctx context.Context, sd *side, both bool) bool {
	writer := sd.layout.any()
	for writer.Name == "mmap" && sd.resync > 5*time.Second || // nothing but the resync tells of it
		both && writer.CA != "" && slices.Contains(partialWriters, writer.Name) {
		writer = sd.layout.any()
	}
	w.t.did("rotation by " + writer.Name)
	partial := slices.Contains(partialWriters, writer.Name)
	clock := stopwatch{last: time.Now()}
	sd.mu.Lock()
	sd.partial = partial
	sd.mu.Unlock()
	pause := time.Duration(0)
	if rand.IntN(3) == 0 {
		pause = wholeStep
	} else if rand.IntN(2) == 0 {
		pause = partialStep
	}
	if partial {
		pause = min(pause, partialStep)
	}
	killAt := -1
	if !partial && rand.IntN(8) == 0 {
		killAt = rand.IntN(8)
	}
	steps := 0
	err := sd.layout.write(sd, writer, func(string) error {
		clock.step()
		if steps++; steps-1 == killAt {
			return errKilled
		}
		if pause > 0 {
			return rest(ctx, rand.N(pause))
		}
		return nil
	})
	clock.step()
	if errors.Is(err, errKilled) {
		w.t.did("writer killed in the middle")
		if rest(ctx, rand.N(time.Second)) == nil {
			err = sd.layout.write(sd, writer, nil)
		}
	}
	if err != nil && ctx.Err() == nil {
		err = sd.anew()
	}
	if err != nil {
		if ctx.Err() == nil {
			w.t.report(failed, "%s: writing: %v", sd.name, err)
		}
		// The round is over, but its end is not to be in the middle of a rotation.
		if sd.anew() != nil {
			return false
		}
	}
	live := sd.await(context.WithoutCancel(ctx))
	w.flights.settle()
	w.settleHeld(sd, clock.longest > partialPause)
	return live && ctx.Err() == nil
}

// settleHeld decides what becomes of faults seen while a partial writer was at work.
func (w *world) settleHeld(sd *side, stalled bool) {
	sd.mu.Lock()
	held := sd.held
	wasPartial := sd.partial
	sd.partial, sd.held = false, nil
	sd.mu.Unlock()
	if wasPartial && stalled {
		w.t.stall(len(held))
		return
	}
	for _, report := range held {
		report()
	}
}

// anew removes everything and lays it out again.
func (sd *side) anew() error {
	sd.t.did("directory removed and made anew")
	away := sd.dir + ".away"
	if err := os.Rename(sd.dir, away); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	defer os.RemoveAll(away)
	if err := os.MkdirAll(sd.dir, 0o755); err != nil {
		return err
	}
	return sd.steadily()
}

// operate rotates and spoils until ctx is done. Every state it leaves behind is live.
func (w *world) operate(ctx context.Context) {
	for ctx.Err() == nil {
		if rand.IntN(3) == 0 {
			w.harm(ctx, w.some())
		}
		if ctx.Err() != nil {
			return
		}
		choices := []func(context.Context){w.renew, w.renew, w.renewKeepingKey, w.goBack, w.renewBoth, w.replaceServerCA, w.replaceClientCA}
		choices[rand.IntN(len(choices))](ctx)
		rest(ctx, rand.N(300*time.Millisecond))
	}
}

func (w *world) some() *side {
	if rand.IntN(2) == 0 {
		return w.server
	}
	return w.client
}

// caOf is the CA of the leaves of sd, and oldOf a keypair that it had under it.
func (w *world) caOf(sd *side) (ca **reloadtest.CA, old **reloadtest.Keypair) {
	if sd == w.server {
		return &w.serverCA, &w.oldServer
	}
	return &w.clientCA, &w.oldClient
}

// renew gives a side a new leaf under the same CA.
func (w *world) renew(ctx context.Context) {
	sd := w.some()
	ca, old := w.caOf(sd)
	*old = sd.state.pair
	w.t.did("leaf renewed")
	w.rotate(ctx, sd, state{pair: w.issue(*ca), cas: sd.state.cas})
}

func (w *world) renewKeepingKey(ctx context.Context) {
	sd := w.some()
	ca, _ := w.caOf(sd)
	w.t.did("leaf renewed with the same key")
	w.rotate(ctx, sd, state{pair: w.issue(*ca, sd.state.pair), cas: sd.state.cas})
}

// renewBoth gives a side a new leaf and, in the same rotation, another stranger to trust.
func (w *world) renewBoth(ctx context.Context) {
	sd := w.some()
	ca, old := w.caOf(sd)
	*old = sd.state.pair
	w.t.did("leaf and CA file renewed together")
	cas := append(slices.Clone(sd.state.cas[:len(sd.state.cas)-1]), reloadtest.NewCA(reloadtest.Options{Name: "stranger"}))
	w.rotate(ctx, sd, state{pair: w.issue(*ca), cas: cas})
}

// goBack puts an old keypair back.
func (w *world) goBack(ctx context.Context) {
	sd := w.some()
	_, old := w.caOf(sd)
	if *old == nil {
		return
	}
	back := *old
	*old = sd.state.pair
	w.t.did("old keypair put back")
	w.rotate(ctx, sd, state{pair: back, cas: sd.state.cas})
}

// replaceServerCA adds a CA to the clients' file, gives the server a leaf of it, and takes the old one out.
func (w *world) replaceServerCA(ctx context.Context) {
	w.t.did("CA of servers replaced")
	w.replaceCA(ctx, w.server, w.client, newRogue)
}

// replaceClientCA does the same the other way round.
func (w *world) replaceClientCA(ctx context.Context) {
	w.t.did("CA of clients replaced")
	w.replaceCA(ctx, w.client, w.server, newIntruder)
}

// replaceCA replaces the CA of the leaves of one side, which the other trusts. What enlist makes of the last leaf of the
// old CA must not get in from then on.
func (w *world) replaceCA(ctx context.Context, shows, trusts *side, enlist func(*world, *reloadtest.Keypair) (*foe, error)) {
	ca, old := w.caOf(shows)
	fresh := reloadtest.NewCA(reloadtest.Options{Name: fmt.Sprint("CA ", rand.Uint32())})
	outgoing := shows.state.pair
	if !w.rotate(ctx, trusts, state{pair: trusts.state.pair, cas: []*reloadtest.CA{fresh, *ca, w.stranger}}) {
		return
	}
	before := *ca
	*ca, *old = fresh, nil
	if !w.rotate(ctx, shows, state{pair: w.issue(fresh), cas: shows.state.cas}) {
		return
	}
	enemy, err := enlist(w, outgoing)
	if err != nil {
		w.t.report(failed, "%s: while its CA was still trusted: %v", w.name, err)
		return
	}
	w.rotate(ctx, trusts, state{pair: trusts.state.pair, cas: []*reloadtest.CA{fresh, w.stranger}})
	if !trusts.isLive() || slices.Contains(trusts.state.cas, before) {
		enemy.close()
		return
	}
	enemy.attack(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.foes = append(w.foes, enemy)
}

// nag asks for looks that nobody needs, until ctx is done. The second follower of each side has to do without.
func (w *world) nag(ctx context.Context) {
	for rest(ctx, rand.N(3*time.Second)) == nil {
		w.some().reloader.Reload(ctx) // an error is what happens to be wrong with the files
	}
}

// besiege has some foe try again, until ctx is done.
func (w *world) besiege(ctx context.Context) {
	for rest(ctx, rand.N(time.Second)) == nil {
		w.mu.Lock()
		var enemy *foe
		if len(w.foes) > 0 {
			enemy = w.foes[rand.IntN(len(w.foes))]
		}
		w.mu.Unlock()
		if enemy != nil {
			enemy.attack(w)
		}
	}
}
