//go:build linux

package chaos_test

// rotation_test.go brings a state of a side to disk, by a writer in some mood, and decides when that is over.

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/seed45259946/reload/reloadtest"
)

// rotate has the side say s, and returns when it is live and every operation that began before has ended: false when that
// does not come to pass, or the round is over.
func (w *world) rotate(ctx context.Context, sd *side, s state) bool {
	both := s.pair != sd.state.pair && !slices.Equal(s.cas, sd.state.cas)
	sd.intend(s)
	j := sd.hire(both)
	w.t.did("rotation by " + j.writer.Name)
	sd.mu.Lock()
	sd.partial = j.partial
	sd.mu.Unlock()

	err := j.do(ctx, sd)
	if errors.Is(err, errKilled) {
		w.t.did("writer killed in the middle")
		rest(ctx, rand.N(time.Second))
		err = sd.layout.write(sd, j.writer, nil)
	}
	if err != nil { // what harm has left behind, or the end of the round
		err = sd.anew()
	}
	if err != nil {
		w.t.report(failed, "%s: nothing could be written: %v", sd.name, err)
		return false
	}
	live := sd.await(context.WithoutCancel(ctx))
	w.flights.settle()
	w.settleHeld(sd, j.clock.longest > partialPause)
	return live && ctx.Err() == nil
}

// job is one rotation by one writer.
type job struct {
	writer  reloadtest.Rotator
	partial bool
	pause   time.Duration // after each step, at most
	stopAt  int           // the step after which it takes a long rest; negative for none
	killAt  int           // the step that is the last; negative for none
	clock   stopwatch
}

// hire finds somebody to write what sd is to say.
//
// Where both the keypair and the CAs are other ones, there is no file that is as it was, and a part of the last one is taken
// for the whole after a single settle: that is no job for a writer who leaves parts behind, unless CAs are written apart.
func (sd *side) hire(both bool) *job {
	j := &job{pause: rand.N(partialStep), stopAt: -1, killAt: -1}
	for {
		j.writer = sd.layout.any()
		j.partial = slices.Contains(partialWriters, j.writer.Name)
		unheard := j.writer.Name == "mmap" && sd.resync > 5*time.Second
		if !unheard && !(both && j.partial && j.writer.CA != "") {
			break
		}
	}
	if !j.partial {
		switch rand.IntN(8) {
		case 0:
			j.stopAt = rand.IntN(8)
		case 1:
			j.killAt = rand.IntN(8)
		}
	}
	return j
}

var errKilled = errors.New("killed")

// do writes.
func (j *job) do(ctx context.Context, sd *side) error {
	steps := 0
	j.clock.last = time.Now()
	defer func() { j.clock.step() }()
	return sd.layout.write(sd, j.writer, func(string) error {
		j.clock.step()
		steps++
		switch steps - 1 {
		case j.killAt:
			return errKilled
		case j.stopAt:
			return rest(ctx, rand.N(longRest))
		default:
			return rest(ctx, rand.N(j.pause+1))
		}
	})
}

// settleHeld decides what becomes of faults seen while a partial writer was at work.
func (w *world) settleHeld(sd *side, stalled bool) {
	sd.mu.Lock()
	held := sd.held
	wasPartial := sd.partial
	sd.partial, sd.held = false, nil
	sd.mu.Unlock()
	if wasPartial && stalled {
		w.t.stall(len(held))
		return
	}
	for _, report := range held {
		report()
	}
}

// anew removes everything and lays it out again.
func (sd *side) anew() error {
	sd.t.did("directory removed and made anew")
	away := sd.dir + ".away"
	if err := os.Rename(sd.dir, away); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := errors.Join(os.RemoveAll(away), os.MkdirAll(sd.dir, 0o755)); err != nil { // it may be what fills the disk
		return err
	}
	return sd.steadily()
}
