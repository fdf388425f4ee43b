// kubelet.go writes a Kubernetes volume: the swap of the ..data symlink that Secret, ConfigMap, projected and most CSI
// volumes share.

package reloadtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The steps of [Kubelet.Update], in order, as [Kubelet.Step] hears of them.
const (
	StepMkdir   = "mkdir"   // the new timestamp directory exists, for its owner alone
	StepChmod   = "chmod"   // it is open to all
	StepPayload = "payload" // it holds all files
	StepFSGroup = "fsgroup" // group and mode of everything in the volume were set; only with FSGroup
	StepTempRef = "tempref" // ..data_tmp points to it
	StepUnswap  = "unswap"  // ..data is gone; only with Windows
	StepSwap    = "swap"    // ..data points to it: the new generation is published
	StepLinks   = "links"   // names new in this generation have their links; only if there are any
	StepUnlinks = "unlinks" // names dropped in this generation have lost theirs; only if there are any
	StepCleanup = "cleanup" // the old timestamp directory is gone; the end, so no hook follows it
)

const (
	dataLink = "..data"
	dataTemp = "..data_tmp"
)

// needsUnswap says that a link to a directory cannot be renamed over here.
const needsUnswap = runtime.GOOS == "windows"

// Kubelet is a volume as the kubelet and the CSI drivers that carry its routine write it: each generation in a timestamp
// directory of its own, ..data a symlink to the published one, and each visible name a symlink through ..data.
// Set the fields before Update; its methods are not for concurrent use.
type Kubelet struct {
	Dir string

	// FSGroup sets group and mode of everything in the volume before each switch, the generation still published
	// included, as for a pod with a securityContext.fsGroup. The group is the process's own.
	FSGroup bool

	// Windows removes ..data and makes it anew instead of renaming over it, so for a moment there is none, as on
	// Windows nodes. NewKubelet sets it there, where a directory link cannot be renamed over.
	Windows bool

	// Step is called between the steps of Update with the name of the one just done. An error ends the update there and
	// leaves the volume as it is, like a kubelet that is killed. Nil: no hook.
	Step func(step string) error
}

// NewKubelet makes the volume, dir and its parents included, with f as its first generation.
func NewKubelet(dir string, f Files) (*Kubelet, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("reloadtest: kubelet: %w", err)
	}
	k := &Kubelet{Dir: dir, Windows: needsUnswap}
	if err := k.Update(f); err != nil {
		return nil, err
	}
	return k, nil
}

// Update publishes f: the payload of the volume is then exactly f, and a name that f lacks loses its link. With the
// payload that is published already it writes nothing. A name may have directories in it ("client/tls.crt"), the link
// is then the first of them. Files are 0644, as with the default mode of a Secret volume. The old generation is removed
// at once, so a reader that resolved ..data before may find its files gone.
func (k *Kubelet) Update(f Files) error {
	steps, err := k.update(f)
	if err != nil {
		return fmt.Errorf("reloadtest: kubelet: %w", err)
	}
	return run("kubelet", steps, k.Step)
}

func (k *Kubelet) update(f Files) ([]step, error) {
	old, published, err := k.published()
	if err != nil {
		return nil, err
	}
	added, dropped := k.missingLinks(f), firstElements(published)
	for name := range firstElements(f) {
		delete(dropped, name)
	}
	links := step{StepLinks, func() error { return k.link(added) }}
	if old != "" && maps.EqualFunc(published, f, bytes.Equal) {
		return []step{links}, nil // an update that was stopped may have left some unmade
	}

	// The random number keeps the name unique when the clock stands still.
	now := time.Now().UTC().Format("..2006_01_02_15_04_05")
	dir := k.path(fmt.Sprintf("%s.%09d", now, rand.Uint32N(1e9)))
	steps := []step{
		{StepMkdir, func() error { return os.Mkdir(dir, 0o700) }},
		{StepChmod, func() error { return os.Chmod(dir, 0o755) }},
		{StepPayload, func() error { return writePayload(dir, f) }},
	}
	if k.FSGroup {
		steps = append(steps, step{StepFSGroup, k.setGroup})
	}
	steps = append(steps, k.swap(filepath.Base(dir))...)
	if len(added) > 0 {
		steps = append(steps, links)
	}
	if len(dropped) > 0 {
		steps = append(steps, step{StepUnlinks, func() error { return k.unlink(dropped) }})
	}
	if old != "" {
		steps = append(steps, step{StepCleanup, func() error { return os.RemoveAll(k.path(old)) }})
	}
	return steps, nil
}

// swap makes ..data point to target. Where an update that was stopped has left its ..data_tmp behind, the kubelet would
// fail; a stand-in that goes on is more useful.
func (k *Kubelet) swap(target string) []step {
	temp, data := k.path(dataTemp), k.path(dataLink)
	steps := []step{{StepTempRef, symlink(target, temp).do}}
	if !k.Windows {
		return append(steps, step{StepSwap, rename(temp, data).do})
	}
	return append(steps,
		step{StepUnswap, unlink(data).do},
		step{StepSwap, func() error {
			if err := os.Symlink(target, data); err != nil {
				return err
			}
			return os.Remove(temp)
		}})
}

// setGroup walks the volume as the kubelet does: everything changes its group, and everything but links its mode.
func (k *Kubelet) setGroup() error {
	return filepath.WalkDir(k.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := chown(path); err != nil {
			return err
		}
		switch {
		case entry.Type()&fs.ModeSymlink != 0:
			return nil
		case entry.IsDir():
			return os.Chmod(path, 0o775|fs.ModeSetgid)
		}
		return os.Chmod(path, 0o664)
	})
}

func (k *Kubelet) path(name string) string { return filepath.Join(k.Dir, name) }

// published returns the timestamp directory that ..data points to and its payload; both are empty in a new volume.
func (k *Kubelet) published() (dir string, f Files, err error) {
	dir, err = os.Readlink(k.path(dataLink))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	f = Files{}
	return dir, f, filepath.WalkDir(k.path(dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(k.path(dir), path)
		if err != nil {
			return err
		}
		f[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
}

// missingLinks returns the visible names of f that have no link yet.
func (k *Kubelet) missingLinks(f Files) map[string]bool {
	names := firstElements(f)
	for name := range names {
		if _, err := os.Readlink(k.path(name)); err == nil {
			delete(names, name)
		}
	}
	return names
}

func (k *Kubelet) link(names map[string]bool) error {
	for name := range names {
		if err := os.Symlink(filepath.Join(dataLink, name), k.path(name)); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kubelet) unlink(names map[string]bool) error {
	for name := range names {
		if err := unlinkAny(k.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// writePayload writes f below dir in random order, which is the kubelet's too.
func writePayload(dir string, f Files) error {
	for name, data := range f {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o644); err != nil { // the umask may have taken bits away
			return err
		}
	}
	return nil
}

// firstElements returns what of each name is visible in the volume directory.
func firstElements(f Files) map[string]bool {
	names := map[string]bool{}
	for name := range f {
		first, _, _ := strings.Cut(name, "/")
		names[first] = true
	}
	return names
}
