// Command bench puts this library and others that do its job side by side, in one run on one machine, and prints a table
// for each thing that can be measured. A figure of one run says little; the ratio beside it says more.
//
//	GOWORK=off go -C bench run .
//	GOWORK=off go -C bench run . -tables=storm -peers=reload,certwatcher -storms=100
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// effort says how long to measure.
type effort struct {
	rounds     int           // of calls of GetCertificate
	round      time.Duration // how long each of them is
	handshakes int           // of each kind
	rotations  int           // by each writer
	storms     int           // rotations in each storm
	loads      int           // of a bundle, and of an unchanged one
	bundles    []int         // in one process
	idle       time.Duration // how long they do nothing
	patience   time.Duration // after which a rotation counts as missed
}

// measurements are what there is to measure, in the order in which it is printed.
var measurements = []struct {
	name string
	run  func(effort, []peer) (*table, error)
}{
	{"getcertificate", getCertificate},
	{"handshakes", handshakes},
	{"rotation", rotation},
	{"storm", storm},
	{"resync", resync},
	{"scale", scale},
	{"load", load},
	{"weight", weight},
}

func main() {
	if isChild() {
		child()
		return
	}
	e := effort{bundles: []int{1, 100, 1000, 10_000}}
	flag.IntVar(&e.rounds, "rounds", 200, "rounds of calls of GetCertificate")
	flag.DurationVar(&e.round, "round", 5*time.Millisecond, "length of a round")
	flag.IntVar(&e.handshakes, "handshakes", 400, "handshakes of each kind")
	flag.IntVar(&e.rotations, "rotations", 100, "rotations by each writer; a fifth for who looks once a second")
	flag.IntVar(&e.storms, "storms", 30, "rotations in each storm")
	flag.IntVar(&e.loads, "loads", 40, "rounds of loading and of finding nothing changed")
	flag.DurationVar(&e.idle, "idle", 20*time.Second, "how long bundles do nothing but exist")
	flag.DurationVar(&e.patience, "patience", 5*time.Second, "after which a rotation counts as missed")
	flag.Func("bundles", "numbers of bundles in one process (default 1,100,1000,10000)", func(list string) (err error) {
		e.bundles, err = numbers(list)
		return err
	})
	only := flag.String("tables", "", "tables to print (default all)")
	names := flag.String("peers", "", "peers to measure (default all)")
	flag.Parse()

	hush()
	fmt.Printf("%s, %s/%s, %d processors, %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().Format(time.DateOnly))
	for _, m := range measurements {
		if !listed(*only, m.name) {
			continue
		}
		began := time.Now()
		t, err := m.run(e, choose(*names))
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", m.name, err)
			os.Exit(1)
		}
		fmt.Printf("\n%s\n", t)
		fmt.Fprintf(os.Stderr, "%s took %v\n", m.name, time.Since(began).Round(time.Second))
	}
}

// listed reports whether a name is in a list with commas. An empty list has every name.
func listed(list, name string) bool {
	return list == "" || strings.Contains(","+list+",", ","+name+",")
}

func numbers(list string) (all []int, err error) {
	for field := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
