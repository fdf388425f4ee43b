//go:build linux

package chaos_test

// fault_test.go spoils files and directories, and undoes it.

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed45259946/reload/reloadtest"
)

// harm does some harm to a side, lets it last a while, and undoes it. Nothing of it is to be seen meanwhile, and the
// state that was on disk is still live afterwards. RELOAD_CHAOS_HARM leaves only those that have it in their name.
func (w *world) harm(ctx context.Context, sd *side) {
	harms := w.harms(sd)
	if only := os.Getenv("RELOAD_CHAOS_HARM"); only != "" {
		harms = slices.DeleteFunc(harms, func(h harm) bool { return !strings.Contains(h.name, only) })
	}
	if len(harms) == 0 {
		return
	}
	h := harms[rand.IntN(len(harms))]
	if err := h.do(ctx, sd); err != nil {
		w.t.cannot(h.name, err)
	} else {
		w.t.did("harm: " + h.name)
	}
	sd.await(context.WithoutCancel(ctx))
}

// harm is something that is done to a side and undone.
type harm struct {
	name string
	do   func(context.Context, *side) error
}

// harms returns those that can be done to sd.
func (w *world) harms(sd *side) []harm {
	all := []harm{
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
		{"key or certificate of another pair", w.mismatched},
		{"expired keypair", w.expired},
		{"keypair not yet valid", w.notYetValid},
		{"reads hung", hung},
		{"flood of foreign files", flooding},
		{"queue of notifications overflowed", overflow},
		{"another follower came and went", w.visit},
	}
	if sd.small {
		all = append(all, harm{"disk full", w.diskFull})
	}
	return all
}

// lasting is how long a harm lasts: often too short to settle, otherwise long enough to be believed and to be logged.
func lasting(ctx context.Context) {
	d := rand.N(400 * time.Millisecond)
	if rand.IntN(2) == 0 {
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

// mismatched puts the key, or the certificate, of another pair in the place of one, by a rename.
func (w *world) mismatched(ctx context.Context, sd *side) error {
	ca, _ := w.caOf(sd)
	other := w.issue(*ca)
	sd.decoy(other)
	path, is, was := sd.paths.Key, other.KeyPEM, sd.state.pair.KeyPEM
	if rand.IntN(2) == 0 {
		path, is, was = sd.paths.Cert, other.CertPEM, sd.state.pair.CertPEM
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	err = restore(path, is)
	lasting(ctx)
	return errors.Join(err, restore(path, was))
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
