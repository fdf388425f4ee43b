//go:build linux

package chaos_test

// operator_test.go has the operator, who rotates keypairs and CAs as docs/trust.md says, and those who disturb him.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed45259946/reload/reloadtest"
)

// operate rotates and spoils until ctx is done. Every state it leaves behind is live.
func (w *world) operate(ctx context.Context) {
	for ctx.Err() == nil {
		if rand.IntN(2) == 0 {
			w.harm(ctx, w.some())
		}
		if ctx.Err() != nil {
			return
		}
		choices := []func(context.Context){w.renew, w.renew, w.renewKeepingKey, w.overwriteHalfWay, w.goBack, w.renewBoth, w.replaceServerCA, w.replaceClientCA}
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

// overwriteHalfWay renews a leaf with the same key, and its file is overwritten in place, as far as the middle of the leaf,
// before it is whole: what is there meanwhile parses and fits the key, and only its signature says that it is no certificate.
// That takes an issuer in the same file, by the name in both leaves, and leaves of one length.
func (w *world) overwriteHalfWay(ctx context.Context) {
	sd := w.some()
	ca, _ := w.caOf(sd)
	was := sd.state.pair
	fresh := w.issue(*ca, was)
	alike := func() bool {
		return len(fresh.Chain) > 1 && len(fresh.Chain[0]) == len(was.Chain[0]) && bytes.Equal(fresh.Leaf.RawIssuer, was.Leaf.RawIssuer)
	}
	for len(was.Chain) > 1 && !alike() {
		fresh = w.issue(*ca, was)
	}
	if len(was.Chain) > 1 {
		w.t.did("leaf overwritten half way")
		sd.decoy(fresh) // until it is whole
		if path, err := filepath.EvalSymlinks(sd.paths.Cert); err == nil {
			overwrite(path, fresh.CertPEM[:len(was.Chain[0])/2])
			rest(ctx, rand.N(3*time.Second))
			sd.intend(state{pair: fresh, cas: sd.state.cas})
			restore(path, fresh.CertPEM)
		}
	}
	w.rotate(ctx, sd, state{pair: fresh, cas: sd.state.cas})
}

// overwrite writes over the beginning of a file.
func overwrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
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
		enemy.close()
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
