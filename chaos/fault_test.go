//go:build linux

package chaos_test

// fault_test.go spoils files, directories and what the system has to give, and undoes it.

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
	"github.com/seed45259946/reload/reloadtest"
)

// harm does some harm to a side, lets it last a while, and undoes it. Nothing of it is to be seen meanwhile, and the
// state that was on disk is still live afterwards.
func (w *world) harm(ctx context.Context, sd *side) {
	harms := []struct {
		name string
		do   func(context.Context, *side) error
	}{
		{"file removed", spoil(os.Remove)},
		{"file emptied", spoil(func(path string) error { return os.Truncate(path, 0) })},
		{"file cut inside a block", spoil(cutInside)},
		{"file replaced by a directory", spoil(inItsPlace(func(path string) error { return os.Mkdir(path, 0o755) }))},
		{"file replaced by a FIFO", spoil(inItsPlace(func(path string) error { return syscall.Mkfifo(path, 0o600) }))},
		{"file replaced by a link to itself", spoil(inItsPlace(func(path string) error { return os.Symlink(filepath.Base(path), path) }))},
		{"file made unreadable", unreadable},
		{"directory made unreadable", unsearchable},
		{"directory renamed away and back", renamedAway},
		{"directory removed and made anew", func(ctx context.Context, sd *side) error { rest(ctx, rand.N(time.Second)); return sd.anew() }},
		{"key of another pair", w.mismatched},
		{"expired keypair", w.expired},
		{"keypair not yet valid", w.notYetValid},
		{"reads hung", hung},
		{"disk full", w.diskFull},
		{"flood of foreign files", flooding},
		{"queue of notifications overflowed", overflow},
		{"another follower came and went", w.visit},
	}
	harm := harms[rand.IntN(len(harms))]
	if err := harm.do(ctx, sd); err != nil {
		w.t.cannot(harm.name, err)
	} else {
		w.t.did("harm: " + harm.name)
	}
	sd.await(context.WithoutCancel(ctx))
}

// lasting is how long a harm lasts: mostly not long, sometimes longer than the grace of a fault.
func lasting(ctx context.Context) {
	d := rand.N(400 * time.Millisecond)
	if rand.IntN(4) == 0 {
		d = rand.N(4 * time.Second)
	}
	rest(ctx, d)
}

// file returns one of the three, as it is at the end of its path.
func (sd *side) file() (path string, data []byte, err error) {
	paths := []string{sd.paths.Cert, sd.paths.Key, sd.paths.CA}
	if path, err = filepath.EvalSymlinks(paths[rand.IntN(len(paths))]); err == nil {
		data, err = os.ReadFile(path)
	}
	return path, data, err
}

// spoil makes a harm of something that is done to a file.
func spoil(do func(path string) error) func(context.Context, *side) error {
	return func(ctx context.Context, sd *side) error {
		path, data, err := sd.file()
		if err == nil {
			err = do(path)
			lasting(ctx)
			err = errors.Join(err, restore(path, data))
		}
		return err
	}
}

// restore puts data where the file was.
func restore(path string, data []byte) error {
	temp := path + ".restored"
	return errors.Join(os.WriteFile(temp, data, 0o600), removeUnlessFile(path), os.Rename(temp, path))
}

func removeUnlessFile(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().IsRegular() {
		return nil
	}
	return os.Remove(path)
}

func inItsPlace(put func(path string) error) func(path string) error {
	return func(path string) error { return errors.Join(os.Remove(path), put(path)) }
}

// cutInside cuts a file in the middle of its first block, where nothing could take it for whole.
func cutInside(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, int64(bytes.Index(data, []byte("-----END"))/2+30))
}

var (
	errModes   = errors.New("this process overrules file modes")
	errOutside = errors.New("no process with limits of its own")
)

func unreadable(ctx context.Context, sd *side) error {
	path, _, err := sd.file()
	if err != nil {
		return err
	}
	return withoutMode(ctx, path)
}

func unsearchable(ctx context.Context, sd *side) error { return withoutMode(ctx, sd.dir) }

func withoutMode(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0); err != nil {
		return err
	}
	defer os.Chmod(path, info.Mode().Perm())
	if f, err := os.Open(path); err == nil {
		f.Close()
		return errModes
	}
	lasting(ctx)
	return nil
}

func renamedAway(ctx context.Context, sd *side) error {
	if err := os.Rename(sd.dir, sd.dir+".gone"); err != nil {
		return err
	}
	lasting(ctx)
	return os.Rename(sd.dir+".gone", sd.dir)
}

// mismatched puts a key beside a certificate that it is not of, by a rename.
func (w *world) mismatched(ctx context.Context, sd *side) error {
	path, err := filepath.EvalSymlinks(sd.paths.Key)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	other := w.stranger.Issue(reloadtest.Options{})
	sd.decoy(other)
	err = restore(path, other.KeyPEM)
	lasting(ctx)
	return errors.Join(err, restore(path, data))
}

// expired puts an expired pair on disk.
func (w *world) expired(ctx context.Context, sd *side) error {
	return w.outOfDate(ctx, sd, reloadtest.Options{NotAfter: time.Now().Add(-time.Minute)})
}

func (w *world) notYetValid(ctx context.Context, sd *side) error {
	return w.outOfDate(ctx, sd, reloadtest.Options{NotBefore: time.Now().Add(time.Hour)})
}

func (w *world) outOfDate(ctx context.Context, sd *side, o reloadtest.Options) error {
	ca, _ := w.caOf(sd)
	k := (*ca).Issue(o)
	sd.decoy(k)
	was := sd.state
	sd.state.pair = k
	err := sd.steadily()
	sd.state = was
	lasting(ctx)
	if sd.steadily() != nil {
		err = errors.Join(err, sd.anew())
	}
	return err
}

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
	if !sd.small {
		return nil
	}
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
