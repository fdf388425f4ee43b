package main

// resync.go measures what it costs to find that nothing has changed, which is what nearly every look finds, beside
// opening and reading the same files.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// batch is how many looks are timed together.
const batch = 50

func resync(e effort, peers []peer) (*table, error) {
	t := &table{
		title:   "Finding that nothing has changed",
		columns: []string{"", "files", "µs", "reading them, µs", "ratio"},
		notes: []string{fmt.Sprintf("The median of %d rounds of %d looks each, in turn with reading the same files. Reload listens anew before it reads; a "+
			"resync, which is what happens once a minute, has no need to.", e.loads, batch)},
	}
	g, err := newGround()
	if err != nil {
		return nil, err
	}
	defer g.clear()
	s, err := g.site("resync", reloadtest.SecretVolume())
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		server, err := p.start(s.files, false)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if server.resync != nil {
			files := []string{s.files.Cert, s.files.Key}
			name := p.name
			if p.name == ours.name {
				name, files = "reload, Reload", append(files, s.files.CA)
				if err := resyncs(e, t, s.files, files); err != nil {
					return nil, err
				}
			}
			if err := looks(e, t, name, files, times(batch, server.resync)); err != nil {
				return nil, err
			}
		}
		server.stop()
	}
	return t, nil
}

// resyncs adds a row for what this library does once a minute. A hint makes it do so now, and is taken once the look before
// is over.
func resyncs(e effort, t *table, files reload.Paths, names []string) error {
	hints := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- reload.Watch(ctx, files, reload.NewStore(), reload.WatchOptions{
			Hints: hints, Logger: slog.New(slog.DiscardHandler), Settle: time.Nanosecond, // looks are spaced by a part of it
		})
	}()
	hints <- struct{}{}
	err := looks(e, t, "reload, resync", names, times(batch+1, func() error { hints <- struct{}{}; return nil }))
	cancel()
	return errors.Join(err, <-ended)
}

// looks adds a row for one way of looking, given a batch of looks.
func looks(e effort, t *table, name string, files []string, some func() error) error {
	took, err := inTurns(e.loads, some, times(batch, func() error {
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				return err
			}
		}
		return nil
	}))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	t.add(name, fmt.Sprint(len(files)), microseconds(took[0]/batch), microseconds(took[1]/batch), ratio(float64(took[0]), float64(took[1])))
	return nil
}
