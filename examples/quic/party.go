package main

// party.go plays what surrounds the two ends: a CA for each, and a volume in which a kubelet replaces their files.

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

// party is one end: its keypair, the CAs that it trusts, and the reloader that follows both.
type party struct {
	*reload.Reloader
	volume *reloadtest.Kubelet

	ca      *reloadtest.CA // vouches for it
	keypair *reloadtest.Keypair
	trusts  []*reloadtest.CA
}

// newParty writes the first files of an end called name, and loads them.
func newParty(dir, name string, ca *reloadtest.CA, trusts ...*reloadtest.CA) (p *party, err error) {
	p = &party{ca: ca, keypair: ca.Issue(reloadtest.Options{Name: name}), trusts: trusts}
	dir = filepath.Join(dir, name)
	if p.volume, err = reloadtest.NewKubelet(dir, p.keypair.Files(trusts...)); err != nil {
		return nil, err
	}
	p.Reloader, err = reload.NewReloader(reload.FromDir(dir), name, quietly)
	return p, err
}

// renew replaces the keypair by one of the CA of the day.
func (p *party) renew(ctx context.Context) error {
	p.keypair = p.ca.Issue(reloadtest.Options{Name: p.keypair.Leaf.Subject.CommonName})
	return p.update(ctx)
}

// trust replaces the CA file.
func (p *party) trust(ctx context.Context, cas ...*reloadtest.CA) error {
	p.trusts = cas
	return p.update(ctx)
}

// update replaces the files and waits until they are live. Nobody tells the reloader: it is asked only when it is done.
func (p *party) update(ctx context.Context) error {
	live := make(chan struct{}, 1)
	defer p.Store().Subscribe(func(*reload.Bundle) {
		select {
		case live <- struct{}{}:
		default:
		}
	})()
	if err := p.volume.Update(p.keypair.Files(p.trusts...)); err != nil {
		return err
	}
	select {
	case <-live:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the files do not go live: %w", cmp.Or(p.Status().Pending, errors.New("no reason is known")))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// quietly keeps out of the log what the demonstration shows, such as that a CA file has become shorter.
func quietly(w *reload.WatchOptions) {
	w.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}
