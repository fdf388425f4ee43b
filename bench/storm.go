package main

// storm.go has clients connect all the time while writers that take their time replace the keypair, and counts what goes
// wrong.

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed45259946/reload/reloadtest"
)

// storms are writers whose files are, for a moment, valid and not what they should be.
var storms = []struct {
	name   string
	writer reloadtest.Rotator
	oneKey bool
}{
	{"chain in two writes, same key", reloadtest.AcmeSh(), true},
	{"certificate, then key, in place", reloadtest.Copy(), false},
}

func storm(e effort, peers []peer) (*table, error) {
	t := &table{
		title:   "A storm of rotations",
		columns: []string{"", "writer", "rotations", "handshakes", "failed", "short chain", "wrong chain", "missed", "p50"},
		notes: []string{fmt.Sprintf("Between the steps of a writer up to 20 ms pass, between rotations up to 50. Short: without its intermediate, "+
			"which clients refuse. Wrong: with one that did not sign the leaf. Missed: not served whole within %v; after %d "+
			"of them no more are tried. P50: from the last write to being served whole.", e.patience, tooMany)},
	}
	g, err := newGround()
	if err != nil {
		return nil, err
	}
	defer g.clear()
	for _, p := range peers {
		if p.deaf {
			continue
		}
		for _, s := range storms {
			row, err := blow(e, g, p, s.writer, s.oneKey)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", p.name, s.name, err)
			}
			t.add(append([]string{p.name, s.name}, row...)...)
		}
	}
	return t, nil
}

// blow returns the cells of one peer and one writer.
func blow(e effort, g *ground, p peer, writer reloadtest.Rotator, oneKey bool) ([]string, error) {
	s, err := g.site("storm "+p.name+writer.Name, writer)
	if err != nil {
		return nil, err
	}
	server, err := p.start(s.files, false)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	time.Sleep(100 * time.Millisecond) // until it listens
	crowd := gather(server, g)
	defer crowd.leave()

	var options reloadtest.Options
	if oneKey {
		options.Signer = s.pair.Key
	}
	issuers := []*reloadtest.CA{g.issuer, g.root.Intermediate(reloadtest.Options{Name: "another"})}
	var took []time.Duration
	missed, tried := 0, 0
	for ; tried < e.storms && missed < tooMany; tried++ {
		time.Sleep(rand.N(50 * time.Millisecond))
		g.issuer = issuers[(tried+1)%2] // so that mixed chains can be told
		err := s.rotate(options, func(string) error { time.Sleep(rand.N(20 * time.Millisecond)); return nil })
		if err != nil {
			return nil, err
		}
		d, ok := until(e.patience, func() bool { return s.served(crowd.last.Load(), nil) })
		if took = append(took, d); !ok {
			missed++
		}
	}
	crowd.leave()
	count := func(n *atomic.Int64) string { return fmt.Sprint(n.Load()) }
	return []string{fmt.Sprint(tried), count(&crowd.came), count(&crowd.failed), count(&crowd.short), count(&crowd.wrong),
		of(missed, tried), short(quantile(took, 0.5))}, nil
}

// crowd is clients that come one after the other, and what they saw.
type crowd struct {
	came, failed, short, wrong atomic.Int64
	last                       atomic.Pointer[tls.Certificate] // what the last one was shown

	left  chan struct{} // closed when they may go
	leave func()        // has them go, and waits for it
}

func gather(s *server, g *ground) *crowd {
	c := &crowd{left: make(chan struct{})}
	c.last.Store(new(tls.Certificate))
	c.last.Load().Certificate = [][]byte{nil}
	client := g.visitor()
	client.InsecureSkipVerify = true // it judges for itself
	var going sync.WaitGroup
	going.Go(func() {
		for {
			select {
			case <-c.left:
				return
			default:
				c.visit(s, client)
			}
		}
	})
	c.leave = sync.OnceFunc(func() { close(c.left); going.Wait() })
	return c
}

func (c *crowd) visit(s *server, client *tls.Config) {
	c.came.Add(1)
	state, err := visit(s, client)
	if err != nil {
		c.failed.Add(1)
		return
	}
	shown := new(tls.Certificate)
	for _, cert := range state.PeerCertificates {
		shown.Certificate = append(shown.Certificate, cert.Raw)
	}
	c.last.Store(shown)
	switch chain := state.PeerCertificates; {
	case len(chain) < 2:
		c.short.Add(1)
	case chain[0].CheckSignatureFrom(chain[1]) != nil:
		c.wrong.Add(1)
	}
}
