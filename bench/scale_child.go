package main

// scale_child.go is what a child does: start, be idle, serve one rotation, serve one of all.

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed45259946/reload/reloadtest"
)

func (o order) do() (r report, err error) {
	g, err := newGround()
	if err != nil {
		return r, err
	}
	os.Remove(g.dir)
	g.dir = o.Dir
	p := peers[slices.IndexFunc(peers, func(p peer) bool { return p.name == o.Peer })]
	sites, servers := make([]*site, o.Bundles), make([]*server, o.Bundles)
	for i := range sites {
		sites[i] = g.at(fmt.Sprint(i), reloadtest.SecretVolume()) // laid out by whoever gives the order
	}
	memory, goroutines := inUse(), runtime.NumGoroutine()
	for i, s := range sites {
		if servers[i], err = p.start(s.files, true); err != nil {
			return report{Failed: fmt.Sprintf("bundle %d: %s", i+1, cause(err))}, nil
		}
	}
	calm()
	r.Bytes, r.Goroutines = inUse()-memory, runtime.NumGoroutine()-goroutines
	r.Descriptors, r.Inotify = descriptors()
	if o.Idle > 0 {
		before := processorTime()
		time.Sleep(o.Idle)
		r.Busy = time.Duration(float64(processorTime()-before) / o.Idle.Seconds())
	}
	if p.deaf {
		return r, nil
	}
	if r.One, err = one(o, sites, servers); err != nil {
		return r, err
	}
	return r, r.all(o, sites, servers)
}

// one rotates some bundles, one after the other, and returns the median.
func one(o order, sites []*site, servers []*server) (time.Duration, error) {
	var took []time.Duration
	for range 5 {
		i := rand.N(len(sites))
		if err := sites[i].rotate(reloadtest.Options{}, nil); err != nil {
			return 0, err
		}
		d, _ := until(o.Patience, func() bool { return sites[i].served(servers[i].get(hello)) })
		took = append(took, d)
		time.Sleep(50 * time.Millisecond)
	}
	return quantile(took, 0.5), nil
}

// all rotates all bundles at once.
func (r *report) all(o order, sites []*site, servers []*server) error {
	next := make([]reloadtest.Files, len(sites))
	for i, s := range sites {
		s.pair, next[i] = s.issue(reloadtest.Options{})
	}
	calm()
	for i, s := range sites {
		if err := s.writer.Write(s.dir, next[i], nil); err != nil {
			return err
		}
	}
	left := make([]int, len(sites))
	for i := range left {
		left[i] = i
	}
	r.All, _ = until(6*o.Patience, func() bool {
		left = slices.DeleteFunc(left, func(i int) bool { return sites[i].served(servers[i].get(hello)) })
		time.Sleep(time.Millisecond)
		return len(left) == 0
	})
	r.Late = len(left)
	return nil
}

// calm returns once this process does next to nothing, or after twenty seconds.
func calm() {
	for range 100 {
		before := processorTime()
		time.Sleep(200 * time.Millisecond)
		if processorTime()-before < 5*time.Millisecond {
			return
		}
	}
}

// inUse returns the memory that the heap and the stacks take, after a collection.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and cleanups let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// processorTime returns what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no way to fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// descriptors counts what is open, and how many of that are inotify instances.
func descriptors() (all, inotify int) {
	const dir = "/proc/self/fd/"
	open, _ := os.ReadDir(dir)
	for _, fd := range open {
		if target, _ := os.Readlink(dir + fd.Name()); strings.Contains(target, "inotify") {
			inotify++
		}
	}
	return len(open), inotify
}

// cause returns the end of an error, which is what went wrong.
func cause(err error) string {
	text := err.Error()
	return text[strings.LastIndex(text, ": ")+1:]
}
