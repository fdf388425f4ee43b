//go:build linux

package chaos_test

// count_test.go is what is counted, and when it counts as wrong.

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// A fault is something that must not happen at all.
type fault string

const (
	// failed: an operation between a server and a client whose files an operator of docs/trust.md keeps returned an error. He
	// takes the next step of a CA rotation once the one before is live and every operation begun before has ended, so
	// that no handshake in which the two sides are generations apart is on the way.
	failed fault = "failed"
	// torn: a chain, seen by a peer or published in a bundle, that was never written whole, though each of its leaves was; or
	// a published set of CAs that never was.
	torn fault = "torn"
	// wrongLeaf: a leaf that nobody ever meant to be served: expired, of another key, or unknown.
	wrongLeaf fault = "wrong leaf"
	// stale: a full handshake begun after a generation was seen live that showed one last written before it; or a request
	// under an identity from before the one that was seen live when it began.
	stale fault = "stale"
	// admitted: somebody whose CA had been withdrawn, and was seen to be gone from the live bundle, got a first byte in an
	// attempt begun afterwards.
	admitted fault = "admitted"
	// late: what is on disk was not live, or a fault that was undone was still pending, soonEnough after the last write.
	late fault = "late"
	// leaked: after a round, with everything closed, there is more than before the first one.
	leaked fault = "leaked"
)

var faults = []fault{failed, torn, wrongLeaf, stale, admitted, late, leaked}

// kind counts what one kind of client does.
type kind struct {
	full, resumed int // handshakes
	reused        int // requests on a connection that was there
	failed        int
}

// tally counts everything. All methods may be called from any goroutine.
type tally struct {
	start time.Time
	loud  bool // print progress

	mu       sync.Mutex // guards the rest
	kinds    map[string]*kind
	wrong    map[fault]int
	samples  []string
	excused  int            // faults seen while a writer was stopped between two pieces of a file for longer than it may
	stalled  int            // rotations in which that happened
	done     map[string]int // what else was done: rotations, faults injected
	refused  map[string]int // attempts of the withdrawn that failed as they must
	notDone  map[string]string
	delays   []time.Duration // from the end of writing until it was live everywhere
	swaps    int
	leftOver string
}

func newTally(loud bool) *tally {
	return &tally{start: time.Now(), loud: loud, kinds: map[string]*kind{}, wrong: map[fault]int{}, done: map[string]int{},
		refused: map[string]int{}, notDone: map[string]string{}}
}

// report counts a fault.
func (t *tally) report(f fault, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong[f]++
	text := fmt.Sprintf("%s %s: %s", time.Since(t.start).Round(time.Millisecond), f, fmt.Sprintf(format, args...))
	if len(t.samples) < 40 {
		t.samples = append(t.samples, text)
		if t.loud {
			fmt.Println(text)
		}
	}
}

// count changes the counts of one kind of client.
func (t *tally) count(name string, change func(*kind)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds[name] == nil {
		t.kinds[name] = new(kind)
	}
	change(t.kinds[name])
}

// did counts something that was done to the files.
func (t *tally) did(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done[what]++
}

// cannot notes what this machine does not allow.
func (t *tally) cannot(what string, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notDone[what] = why.Error()
}

// repelled counts an attempt that failed as it must.
func (t *tally) repelled(who string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused[who]++
}

func (t *tally) swapped() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.swaps++
}

func (t *tally) delay(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.delays = append(t.delays, d)
}

func (t *tally) stall(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stalled++
	t.excused += n
}

// sum returns how many handshakes and requests there have been.
func (t *tally) sum() (s kind) {
	for _, k := range t.kinds {
		s.full += k.full
		s.resumed += k.resumed
		s.reused += k.reused
		s.failed += k.failed
	}
	return s
}

// line says in one line how it goes.
func (t *tally) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sum()
	took := time.Since(t.start)
	text := fmt.Sprintf("%s: %d handshakes (%.0f/s), %d resumed, %d requests on open connections, %d swaps",
		took.Round(time.Second), s.full+s.resumed, float64(s.full+s.resumed)/took.Seconds(), s.resumed, s.reused, t.swaps)
	for _, f := range faults {
		text += fmt.Sprintf(", %d %s", t.wrong[f], f)
	}
	return text + ", excused " + fmt.Sprint(t.excused) + ". " + t.leftOver
}

// table shows everything.
func (t *tally) table() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "client\tfull handshakes\tresumed\trequests on open connections\tfailed")
	for _, name := range sorted(t.kinds) {
		k := t.kinds[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", name, k.full, k.resumed, k.reused, k.failed)
	}
	s := t.sum()
	fmt.Fprintf(w, "all, in %s\t%d\t%d\t%d\t%d\n", time.Since(t.start).Round(time.Second), s.full, s.resumed, s.reused, s.failed)
	fmt.Fprintln(w, "\nmust not happen\t")
	for _, f := range faults {
		fmt.Fprintf(w, "%s\t%d\n", f, t.wrong[f])
	}
	fmt.Fprintf(w, "\nexcused, in %d rotations whose writer was stopped\t%d\n", t.stalled, t.excused)
	fmt.Fprintf(w, "generations published\t%d\n", t.swaps)
	fmt.Fprintf(w, "live after, p50\t%s\np99\t%s\nat most\t%s\n", t.quantile(0.5), t.quantile(0.99), t.quantile(1))
	for _, table := range []map[string]int{t.refused, t.done} {
		fmt.Fprintln(w)
		for _, what := range sorted(table) {
			fmt.Fprintf(w, "%s\t%d\n", what, table[what])
		}
	}
	for _, what := range sorted(t.notDone) {
		if t.done["harm: "+what] == 0 {
			fmt.Fprintf(w, "NOT TESTED: %s\t%s\n", what, t.notDone[what])
		}
	}
	fmt.Fprintf(w, "\nleft after everything was closed\t%s\n", t.leftOver)
	w.Flush()
	return text.String() + strings.Join(t.samples, "\n")
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (t *tally) quantile(q float64) time.Duration {
	if len(t.delays) == 0 {
		return 0
	}
	slices.Sort(t.delays)
	return t.delays[int(q*float64(len(t.delays)-1))].Round(100 * time.Microsecond)
}

// say prints how it goes, in long mode.
func (t *tally) say() {
	if t.loud {
		fmt.Fprintln(os.Stdout, t.line())
	}
}
