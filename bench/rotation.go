package main

// rotation.go measures how long after the last operation of a writer its keypair is served, beside a program that reads
// the files in each of a stream of handshakes.

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed45259946/reload/reloadtest"
)

// writers are the three usual ways to replace files, the last of them also beside a CA file that stays as it is.
var writers = []struct {
	name    string
	rotator reloadtest.Rotator
	ca      bool
}{
	{"kubelet", reloadtest.SecretVolume(), true},
	{"rename over", reloadtest.Move(), false},
	{"in place", reloadtest.Copy(), false},
	{"in place, old CA", reloadtest.Copy(), true},
}

// tooMany missed rotations are enough to know.
const tooMany = 3

func rotation(e effort, peers []peer) (*table, error) {
	t := &table{
		title:   "From the last file operation to the new leaf being served",
		columns: []string{"", "writer", "p50", "p99", "naive p50", "ratio", "missed"},
		notes: []string{fmt.Sprintf("The naive one reads the files in each of a stream of handshakes; its rotations come between the others, in a "+
			"directory of its own. Missed: not served within %v. After %d of them no more are tried. A "+
			"kubelet has one more thing to do after its switch, so that what is served by then counts as served at once.", e.patience, tooMany)},
	}
	g, err := newGround()
	if err != nil {
		return nil, err
	}
	defer g.clear()
	for _, p := range peers {
		if p.deaf || p.yardstick {
			continue
		}
		for _, w := range writers {
			row, err := rotate(e, g, p, w.rotator, w.ca)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", p.name, w.name, err)
			}
			t.add(append([]string{p.name, w.name}, row...)...)
		}
	}
	return t, nil
}

// rotate returns the cells of one peer and one writer.
func rotate(e effort, g *ground, p peer, writer reloadtest.Rotator, ca bool) ([]string, error) {
	rotations := e.rotations
	if p.looks >= time.Second {
		rotations = max(1, rotations/5)
	}
	var sites [2]*site
	var servers [2]*server
	var took [2][]time.Duration
	for i, side := range []peer{p, naive} {
		var err error
		if sites[i], err = g.site(fmt.Sprint(p.name, i, writer.Name, ca), writer); err != nil {
			return nil, err
		}
		if sites[i].bare = !ca; !ca {
			sites[i].files.CA = ""
		}
		if servers[i], err = side.start(sites[i].files, false); err != nil {
			return nil, err
		}
		defer servers[i].stop()
	}
	time.Sleep(100 * time.Millisecond) // until it listens
	missed, tried := 0, 0
	for ; tried < rotations && missed < tooMany; tried++ {
		for i, s := range sites {
			time.Sleep(100*time.Millisecond + rand.N(50*time.Millisecond)) // rotations have pauses between them
			if err := s.rotate(reloadtest.Options{}, nil); err != nil {
				return nil, err
			}
			d, ok := until(e.patience, func() bool { return s.served(servers[i].get(hello)) })
			took[i] = append(took[i], d)
			if !ok && i == 0 { // a miss of the naive one is not the peer's
				missed++
			}
		}
	}
	p50, beside := quantile(took[0], 0.5), quantile(took[1], 0.5)
	return []string{short(p50), short(quantile(took[0], 0.99)), short(beside), ratio(float64(p50), float64(beside)), of(missed, tried)}, nil
}

// until asks over and over whether something is true, and returns how long that took, or false once that is too long.
func until(limit time.Duration, is func() bool) (time.Duration, bool) {
	began := time.Now()
	for !is() {
		if time.Since(began) > limit {
			return limit, false
		}
		time.Sleep(20 * time.Microsecond)
	}
	return time.Since(began), true
}
