package main

// scale.go measures many bundles in one process, which is a child for each peer and number, so that figures do not mix.

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/seed45259946/reload/reloadtest"
)

// order is what a child is told to do, report what comes of it.
type order struct {
	Peer     string
	Bundles  int
	Dir      string        // with volumes 0, 1, 2 and so on
	Idle     time.Duration // 0: that is not measured
	Patience time.Duration
}

type report struct {
	Failed                           string // why they did not all start
	Inotify, Descriptors, Goroutines int
	Bytes                            int64         // heap and stacks
	Busy                             time.Duration // processor time in a second of doing nothing
	One                              time.Duration // from the last write to one of them to its being served
	All                              time.Duration // from the last write, of all of them rotated at once, to the last being served
	Late                             int           // of these, how many were not served in time
}

func scale(e effort, peers []peer) (*table, error) {
	t := &table{
		title:   "Many bundles in one process",
		columns: []string{"", "bundles", "inotify", "descriptors", "goroutines", "KB each", "idle, µs/s each", "one rotation", "all at once", "not served"},
		notes: []string{fmt.Sprintf("Each bundle is a volume as a kubelet mounts it, with a CA file and a config that verifies clients. Memory is heap and stacks. "+
			"Idle is processor time over %v, measured with the most bundles only. One rotation: the median of five, from "+
			"the last write to being served. All at once: from the last write to the last of them being served. Not served: "+
			"of all at once, within %v.", e.idle, 6*e.patience)},
	}
	g, err := newGround()
	if err != nil {
		return nil, err
	}
	defer g.clear()
	for i := range slices.Max(e.bundles) {
		if _, err := g.site(fmt.Sprint(i), reloadtest.SecretVolume()); err != nil {
			return nil, err
		}
	}
	for _, p := range peers {
		if p.yardstick && p.name != static.name {
			continue
		}
		for _, n := range e.bundles {
			o := order{Peer: p.name, Bundles: n, Dir: g.dir, Patience: e.patience}
			if n == slices.Max(e.bundles) {
				o.Idle = e.idle
			}
			r, err := o.give()
			if err != nil {
				return nil, fmt.Errorf("%s: %d bundles: %w", p.name, n, err)
			}
			t.add(append([]string{p.name, fmt.Sprint(n)}, r.cells(o, p)...)...)
			if r.Failed != "" {
				break
			}
		}
	}
	return t, nil
}

// childOrder is the variable of the environment that tells a process that it is a child, and what to do.
const childOrder = "RELOAD_BENCH_CHILD"

func isChild() bool { return os.Getenv(childOrder) != "" }

// give has a child do it.
func (o order) give() (r report, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), childOrder+"="+string(text))
	child.Stderr = os.Stderr
	answer, err := child.Output()
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(answer, &r)
}

func (r report) cells(o order, p peer) []string {
	const none = "–"
	if r.Failed != "" {
		return []string{none, none, none, none, none, none, r.Failed, none}
	}
	cells := []string{fmt.Sprint(r.Inotify), fmt.Sprint(r.Descriptors), fmt.Sprint(r.Goroutines),
		fmt.Sprintf("%.1f", float64(r.Bytes)/float64(o.Bundles)/1000), none}
	if o.Idle > 0 {
		cells[4] = fmt.Sprintf("%.1f", float64(r.Busy.Nanoseconds())/1e3/float64(o.Bundles))
	}
	if p.deaf {
		return append(cells, none, none, none)
	}
	one, all := short(r.One), short(r.All)
	if r.One >= o.Patience {
		one = "over " + short(o.Patience)
	}
	if r.Late > 0 {
		all = "over " + short(6*o.Patience)
	}
	return append(cells, one, all, of(r.Late, o.Bundles))
}

// child does what it was told to, and reports on its standard output.
func child() {
	hush()
	var o order
	err := json.Unmarshal([]byte(os.Getenv(childOrder)), &o)
	if err == nil {
		var r report
		if r, err = o.do(); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(r)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
