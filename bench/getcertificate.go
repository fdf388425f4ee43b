package main

// getcertificate.go measures what a handshake pays for its keypair: the callback alone, beside a bare atomic load that is
// called in the same way, alone, on two threads, and on two threads while the files rotate.

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/seed45259946/reload/reloadtest"
)

func getCertificate(e effort, peers []peer) (*table, error) {
	t := &table{
		title:   "GetCertificate",
		columns: []string{"", "one thread, ns", "ratio", "two threads, ns", "ratio", "while rotating, ns", "ratio", "allocations"},
		notes: []string{fmt.Sprintf("Time of one call, the median of %d rounds of %v; ratio to a bare atomic load, called as a method value too, in the "+
			"round beside it. While rotating, the files are replaced as a kubelet does, and the bare pointer with them, every 20 ms.", e.rounds, e.round)},
	}
	g, err := newGround()
	if err != nil {
		return nil, err
	}
	defer g.clear()
	for _, p := range peers {
		row := []string{p.name}
		allocations := 0.0
		for _, c := range []struct {
			threads  int
			rotating bool
		}{{1, false}, {2, false}, {2, true}} {
			cost, err := calls(e, g, p, c.threads, c.rotating)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			row = append(row, nanoseconds(cost.ns), ratio(cost.ratio, 1))
			allocations = max(allocations, cost.allocations)
		}
		t.add(append(row, fmt.Sprintf("%.0f", allocations))...)
	}
	return t, nil
}

// price is what one call costs, and how many times that of a bare atomic load it is.
type price struct{ ns, ratio, allocations float64 }

// calls returns what a call costs of p.
func calls(e effort, g *ground, p peer, threads int, rotating bool) (price, error) {
	s, err := g.site(fmt.Sprint(p.name, threads, rotating), reloadtest.SecretVolume())
	if err != nil {
		return price{}, err
	}
	server, err := p.start(s.files, false)
	if err != nil {
		return price{}, err
	}
	defer server.stop()
	var least pointer
	if err := least.load(s.files); err != nil {
		return price{}, err
	}
	if rotating {
		stop := make(chan struct{})
		var writing sync.WaitGroup
		writing.Go(func() {
			for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
				select {
				case <-stop:
					tick.Stop()
					return
				default:
					s.rotate(reloadtest.Options{}, nil)
					least.load(s.files)
				}
			}
		})
		defer writing.Wait()
		defer close(stop)
	}
	return inPairs(e.rounds, func() price { return call(server.get, threads, e.round) }, func() price { return call(least.get, threads, e.round) }), nil
}

// inPairs returns the medians of rounds of one function, each compared with a round of another beside it.
func inPairs(rounds int, mine, floor func() price) price {
	var ns, ratios, allocations []float64
	for round := range rounds {
		var a, b price
		if round%2 == 0 {
			a, b = mine(), floor()
		} else {
			b, a = floor(), mine()
		}
		ns, ratios, allocations = append(ns, a.ns), append(ratios, a.ns/b.ns), append(allocations, a.allocations)
	}
	return price{quantile(ns, 0.5), quantile(ratios, 0.5), quantile(allocations, 0.5)}
}

// call calls get on some threads for about as long as d.
func call(get callback, threads int, d time.Duration) price {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	total, spent := 0, time.Duration(0)
	var mutex sync.Mutex // guards both
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			began, n := time.Now(), 0
			for chunk := 1; time.Since(began) < d; n += chunk {
				if time.Since(began) < d/8 {
					chunk *= 2
				}
				for range chunk {
					get(hello)
				}
			}
			took := time.Since(began)
			mutex.Lock()
			defer mutex.Unlock()
			total, spent = total+n, spent+took
		})
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	return price{
		ns:          float64(spent.Nanoseconds()) / float64(total),
		allocations: float64(after.Mallocs-before.Mallocs) / float64(total),
	}
}
