// Package party plays what surrounds one end of a connection in the demonstrations: who vouches for it, and the volume in
// which a kubelet replaces its files.
package party

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// patience is how long an update may take to go live, on a machine with other things to do.
const patience = time.Minute

// Party is one end: a Reloader, and the files that it follows. It is for one goroutine at a time, the Reloader for any.
type Party struct {
	*reload.Reloader

	Name    string              // in the next certificate
	CA      *reloadtest.CA      // vouches for the next certificate
	Keypair *reloadtest.Keypair // in the files
	Trusts  []*reloadtest.CA    // in the CA file

	volume *reloadtest.Kubelet
}

// NewCA makes a throw-away CA, which vouches for members, such as "servers".
func NewCA(members string) *reloadtest.CA {
	return reloadtest.NewCA(reloadtest.Options{Name: "CA of " + members})
}

// New makes a volume for name under dir, and loads its files.
func New(dir, name string, ca *reloadtest.CA, trusts ...*reloadtest.CA) (p *Party, err error) {
	p = &Party{Name: name, CA: ca, Trusts: trusts}
	p.Keypair = p.CA.Issue(reloadtest.Options{Name: p.Name})
	dir = filepath.Join(dir, name)
	if p.volume, err = reloadtest.NewKubelet(dir, p.Keypair.Files(p.Trusts...)); err != nil {
		return nil, err
	}
	p.Reloader, err = reload.NewReloader(reload.FromDir(dir), name, quietly)
	return p, err
}

// Renew replaces the keypair.
func (p *Party) Renew(ctx context.Context) error {
	p.Keypair = p.CA.Issue(reloadtest.Options{Name: p.Name})
	return p.Update(ctx)
}

// Trust replaces the CA file.
func (p *Party) Trust(ctx context.Context, cas ...*reloadtest.CA) error {
	p.Trusts = cas
	return p.Update(ctx)
}

// Update writes Keypair and Trusts, other than they were, into the volume, and waits until they are live. Start must be
// running, and nobody tells it.
func (p *Party) Update(ctx context.Context) error {
	live := make(chan struct{}, 1)
	defer p.Store().Subscribe(func(*reload.Bundle) {
		select {
		case live <- struct{}{}:
		default:
		}
	})()
	if err := p.volume.Update(p.Keypair.Files(p.Trusts...)); err != nil {
		return err
	}
	select {
	case <-live:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%s: the files do not go live: %w", p.Name, cmp.Or(p.Status().Pending, errors.New("no reason is known")))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ReplaceCA has p vouched for by another CA, in the order in which nothing fails for those who trust it: first they trust
// both, and only the new one when p has its certificate of that.
func (p *Party) ReplaceCA(ctx context.Context, next *reloadtest.CA, peers ...*Party) error {
	old := p.CA
	p.CA = next
	for _, peer := range peers {
		if err := peer.Trust(ctx, next, old); err != nil {
			return err
		}
	}
	if err := p.Renew(ctx); err != nil {
		return err
	}
	for _, peer := range peers {
		if err := peer.Trust(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// quietly keeps out of the log what the demonstrations show, such as that a CA file has become shorter.
func quietly(w *reload.WatchOptions) {
	w.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}
