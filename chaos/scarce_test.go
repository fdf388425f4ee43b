//go:build linux

package chaos_test

// scarce_test.go takes away what the system has to give: answers, room on the disk, notifications.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/seed45259946/reload"
)

// hung mounts a FUSE file system over the directory that nobody serves: every call for it hangs until its end.
func hung(ctx context.Context, sd *side) error {
	if os.Getenv(place) != settled {
		return errOutside
	}
	device, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device)
	if err := syscall.Mount("dead", sd.dir, "fuse", 0, data); err != nil {
		syscall.Close(device)
		return err
	}
	short, cancel := context.WithTimeout(ctx, rand.N(7*time.Second))
	defer cancel()
	sd.reloader.Reload(short)
	syscall.Close(device)
	return syscall.Unmount(sd.dir, syscall.MNT_DETACH)
}

// diskFull has a rotation run into a file system that is full, and done again when it is not.
func (w *world) diskFull(ctx context.Context, sd *side) error {
	filler := filepath.Join(sd.top, "filler")
	f, err := os.Create(filler)
	if err != nil {
		return err
	}
	defer os.Remove(filler)
	for chunk := make([]byte, 4096); err == nil; _, err = f.Write(chunk) {
	}
	f.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	ca, _ := w.caOf(sd)
	sd.intend(state{pair: w.issue(*ca), cas: sd.state.cas})
	err = sd.steadily()
	lasting(ctx)
	if err := os.Remove(filler); err != nil {
		return err
	}
	if err == nil || sd.steadily() == nil {
		return nil
	}
	return sd.anew()
}

const smallSize = 512 << 10

// maybeSmall mounts a small file system on the top directory of every other side.
func (sd *side) maybeSmall() error {
	if rand.IntN(2) == 0 {
		return nil
	}
	if os.Getenv(place) != settled {
		sd.t.cannot("disk full", errOutside)
		return nil
	}
	if err := os.MkdirAll(sd.top, 0o755); err != nil {
		return err
	}
	err := syscall.Mount("small", sd.top, "tmpfs", 0, fmt.Sprint("size=", smallSize))
	if err != nil {
		sd.t.cannot("disk full", err)
	}
	sd.small = err == nil
	return nil
}

func (sd *side) unmount() {
	if sd.small {
		syscall.Unmount(sd.top, syscall.MNT_DETACH)
	}
}

// flooding makes and removes foreign files beside the ones that count.
func flooding(ctx context.Context, sd *side) error {
	dir := filepath.Dir(sd.paths.Cert)
	until := time.Now().Add(rand.N(time.Second))
	for i := 0; ctx.Err() == nil && time.Now().Before(until); i++ {
		path := filepath.Join(dir, fmt.Sprint("foreign", i%100))
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Remove(path)); err != nil {
			return err
		}
	}
	return nil
}

// flooded tells a process of the test binary to stop its parent, touch the files in a directory until the queue of
// inotify is full, and let it go on.
const flooded = "RELOAD_CHAOS_FLOOD"

func overflow(_ context.Context, sd *side) error {
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), place+"=", flooded+"="+filepath.Dir(sd.paths.Cert))
	return cmd.Run()
}

func flood(dir string) int {
	foreign := []string{filepath.Join(dir, "flood-a"), filepath.Join(dir, "flood-b")}
	for _, path := range foreign {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return 1
		}
		defer os.Remove(path)
	}
	if err := syscall.Kill(os.Getppid(), syscall.SIGSTOP); err != nil {
		return 1
	}
	defer syscall.Kill(os.Getppid(), syscall.SIGCONT)
	for i := range 20_000 { // the queue holds 16384 (inotify(7)), none twice in a row
		if err := os.Chmod(foreign[i%2], 0o600); err != nil {
			return 1
		}
	}
	return 0
}

// visit has one more follower of the files, which ends in the middle of whatever goes on.
func (w *world) visit(ctx context.Context, sd *side) error {
	r, err := reload.NewReloader(sd.paths, "visitor", func(o *reload.WatchOptions) {
		o.Metrics, o.Logger = nil, discard
	})
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, rand.N(2*time.Second))
	defer cancel()
	return r.Start(short)
}

// starve takes inotify instances or watches away for a while, again and again, until ctx is done.
func starve(ctx context.Context, t *tally) {
	if os.Getenv(place) != settled {
		t.cannot("inotify exhausted", errOutside)
		return
	}
	for rest(ctx, time.Second+rand.N(15*time.Second)) == nil {
		what, n := "instances", 0
		if rand.IntN(2) == 0 {
			what, n = "watches", max(1, inotifyInUse().watches-rand.IntN(4))
		}
		path := "/proc/sys/user/max_inotify_" + what
		was, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(strconv.Itoa(n)), 0)
		}
		if err != nil {
			t.cannot("inotify exhausted", err)
			return
		}
		rest(ctx, rand.N(8*time.Second))
		if err := os.WriteFile(path, bytes.TrimSpace(was), 0); err != nil {
			t.report(failed, "inotify: %v", err)
		}
		t.did("harm: inotify " + what + " exhausted")
	}
}
