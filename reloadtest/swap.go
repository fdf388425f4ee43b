// swap.go has the rotators that replace a whole directory, by a link to it or by its name.

package reloadtest

import (
	"os"
	"path/filepath"
	"strconv"
)

// SecretVolume is a volume that the kubelet or a CSI driver writes; see [Kubelet] for the steps, and for more to set.
func SecretVolume() Rotator { return volume("kubelet", Kubelet{}) }

// SecretVolumeFSGroup is [SecretVolume] in a pod with an fsGroup.
func SecretVolumeFSGroup() Rotator { return volume("kubelet with fsGroup", Kubelet{FSGroup: true}) }

// SecretVolumeWindows is [SecretVolume] on a Windows node: for a moment the files are missing.
func SecretVolumeWindows() Rotator { return volume("kubelet on Windows", Kubelet{Windows: true}) }

func volume(name string, k Kubelet) Rotator {
	return Rotator{
		Name: name, Cert: certFile, Key: keyFile, CA: caFile, Atomic: true,
		steps: func(dir string, f Files) ([]step, error) {
			volume := k
			volume.Dir, volume.Windows = dir, k.Windows || needsUnswap
			return volume.update(f)
		},
	}
}

// Flip is a deployment into releases/N, kept, and current -> releases/N made under another name and renamed over
// (ln -s, mv -T). Steps: mkdir; write for each file; link, rename.
func Flip() Rotator {
	return release("flip by mv -T", func(target, current string) []step {
		temp := current + ".tmp"
		return []step{symlink(target, temp), rename(temp, current)}
	})
}

// FlipLn is [Flip] by GNU ln -sfn: the same with a random name. Steps: mkdir; write for each file; link, rename.
func FlipLn() Rotator {
	return release("flip by ln -sfn", func(target, current string) []step {
		temp := filepath.Join(filepath.Dir(current), "Cu"+random())
		return []step{symlink(target, temp), rename(temp, current)}
	})
}

// FlipBusyBox is [Flip] by the ln -sfn of BusyBox, macOS and the BSDs, which unlinks first: for a moment there is no
// current. Steps: mkdir; write for each file; unlink, link.
func FlipBusyBox() Rotator {
	return release("flip by unlink", func(target, current string) []step {
		return []step{unlink(current), symlink(target, current)}
	})
}

// FlipFirst is [Flip] in the wrong order: current points to the new release before its files, key first, are written.
// Steps: mkdir, link, rename; truncate and write for each file.
func FlipFirst() Rotator {
	r := Flip()
	r.Name, r.Atomic = "flip before writing", false
	r.steps = func(dir string, f Files) ([]step, error) {
		target, current := nextRelease(dir), filepath.Join(dir, "current")
		steps := []step{mkdir(filepath.Join(dir, target))}
		steps = append(steps, on(current, symlink(target, current+".tmp"), rename(current+".tmp", current))...)
		for _, name := range f.ordered(keyFirst...) {
			path := filepath.Join(dir, target, name)
			steps = append(steps, on(path, inPlace(path, f[name])...)...)
		}
		return steps, nil
	}
	return r
}

func release(name string, relink func(target, current string) []step) Rotator {
	return Rotator{
		Name: name, Cert: "current/tls.crt", Key: "current/tls.key", CA: "current/ca.crt", Atomic: true,
		steps: func(dir string, f Files) ([]step, error) {
			target, current := nextRelease(dir), filepath.Join(dir, "current")
			steps := fillDir(filepath.Join(dir, target), f)
			return append(steps, on(current, relink(target, current)...)...), nil
		},
	}
}

// nextRelease returns the directory of the next release, relative to dir.
func nextRelease(dir string) string {
	for n := 1; ; n++ {
		target := filepath.Join("releases", strconv.Itoa(n))
		if !exists(filepath.Join(dir, target)) {
			return target
		}
	}
}

// SwapDirs replaces the directory tls itself: tls.new is filled, tls renamed to tls.old, tls.new to tls, tls.old removed.
// Between the renames there is no tls. Steps: mkdir; write for each file; rename tls, rename tls.new, cleanup.
func SwapDirs() Rotator {
	return wholeDir("directory swap", func(live, fresh string) []step {
		old := live + ".old"
		var steps []step
		if exists(live) {
			steps = on(live, step{"rename", func() error {
				if err := os.RemoveAll(old); err != nil { // of a rotation that was stopped
					return err
				}
				return os.Rename(live, old)
			}})
		}
		steps = append(steps, on(fresh, rename(fresh, live))...)
		return append(steps, on(old, step{"cleanup", func() error { return os.RemoveAll(old) }})...)
	})
}

// wholeDir completes a rotator that fills a fresh directory and then exchanges it for the live one.
func wholeDir(name string, exchange func(live, fresh string) []step) Rotator {
	return Rotator{
		Name: name, Cert: "tls/tls.crt", Key: "tls/tls.key", CA: "tls/ca.crt", Atomic: true,
		steps: func(dir string, f Files) ([]step, error) {
			live, fresh := filepath.Join(dir, "tls"), filepath.Join(dir, "tls.new")
			return append(fillDir(fresh, f), exchange(live, fresh)...), nil
		},
	}
}

// fillDir makes the steps that make dir, empty even if a rotation that was stopped has left it, and write f into it.
func fillDir(dir string, f Files) []step {
	steps := []step{mkdir(dir)}
	for _, name := range f.ordered() {
		path := filepath.Join(dir, name)
		steps = append(steps, on(path, step{"write", func() error { return os.WriteFile(path, f[name], modeOf(path)) }})...)
	}
	return steps
}

func mkdir(dir string) step {
	return on(dir, step{"mkdir", func() error {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		return os.MkdirAll(dir, 0o755)
	}})[0]
}
