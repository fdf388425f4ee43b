package reload

// hear.go decides what to listen to for a set of files, and whether silence can be trusted.

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

const (
	// armLimit is how long a look waits for watches to be added before it goes on without. Bundles take turns at it, and on
	// a starved machine, where hundreds start at once, that took two seconds: no reason to complain.
	armLimit = 3 * time.Second
	// announceLimit is how late a notification may be.
	announceLimit = time.Second
)

// hearing says whether notifications are to be relied on.
type hearing struct {
	deaf        string    // why not; empty where they are
	unannounced bool      // a change was found that none had announced
	suspect     time.Time // when such a change was found, until a notification comes after all
}

// listening takes in what an observation says of notifications. A resync that finds a change without a notification is
// suspicious.
func (f *follower) listening(ear *listener, seen observation, why reason, now time.Time) {
	changed := seen.err == nil && f.liveContent != nil && *f.liveContent != seen.set.content
	if why == byTime && changed && f.idle() && f.hearing.deaf == "" && len(ear.wake) == 0 {
		f.hearing.suspect = now
	}
	f.hears(seen.deaf)
}

// suspicion gives up on notifications if none comes within announceLimit of such a change: they do not work here, whatever
// the file system says. A sandbox, a remote mount, an overlay are like that.
func (f *follower) suspicion(now time.Time) {
	if !f.hearing.suspect.IsZero() && now.Sub(f.hearing.suspect) > announceLimit {
		f.hearing.unannounced, f.hearing.suspect = true, time.Time{}
		f.hears(f.hearing.deaf)
	}
}

// hears notes why notifications are not to be relied on, and says when that changes.
func (f *follower) hears(deaf string) {
	if deaf == "" && f.hearing.unannounced {
		deaf = "a change was found that no notification had announced"
	}
	was := f.hearing.deaf
	f.hearing.deaf = deaf
	switch {
	case was == "" && deaf != "":
		f.log.Warn("notifications are not to be relied on, polling", "reason", deaf, "every", f.resync().String())
	case was != "" && deaf == "":
		f.log.Info("notifications are back")
	}
}

// idle reports whether the last look found all files live, and somebody has listened since.
func (f *follower) idle() bool { return f.liveFiles != nil }

// follow has l listen wherever the paths of set look up a name. It returns why that is not enough, if it is not.
func (l *listener) follow(ctx context.Context, set *fileSet) (deaf string) {
	deaf, ok := l.arms.do(ctx, armLimit, func() string {
		targets := set.targets()
		failed := l.watch(targets)
		if more := set.inUnwatchable(failed); len(more) > 0 {
			failed = l.watch(append(targets, more...))
		}
		return firstReason(failed, set)
	})
	if !ok {
		return "adding watches takes too long"
	}
	return deaf
}

// targets returns every directory in which a name is looked up, and every file that can change behind its directory. The
// root directory is watched only where the walk ends in it, or finds a link there: what is mounted there does not come and go
// by rename.
func (s *fileSet) targets() []target {
	var all []target
	at := map[string]int{}
	for _, f := range s.files {
		for i, look := range f.walk.lookups {
			ends := f.walk.err != nil && i == len(f.walk.lookups)-1
			link := s.seen[filepath.Join(look.dir, look.name)].target != ""
			if filepath.Dir(look.dir) == look.dir && !ends && !link {
				continue
			}
			n, known := at[look.dir]
			if !known {
				n = len(all)
				at[look.dir] = n
				all = append(all, target{look.dir, s.seen.identity(look.dir), nil})
			}
			if !slices.Contains(all[n].names, look.name) {
				all[n].names = append(all[n].names, look.name)
			}
		}
		if f.walk.err == nil && (f.mounted() || stampOf(f.walk.info).nlink > 1) {
			all = append(all, target{f.walk.file, s.seen.identity(f.walk.file), []string{""}})
		}
	}
	return all
}

// inUnwatchable returns the files whose own directory cannot be watched, such as one that may be searched but not read.
func (s *fileSet) inUnwatchable(failed map[string]error) []target {
	var more []target
	for _, f := range s.files {
		if f.walk.err == nil && failed[filepath.Dir(f.walk.file)] != nil {
			more = append(more, target{f.walk.file, s.seen.identity(f.walk.file), []string{""}})
		}
	}
	return more
}

// firstReason says why notifications are not to be relied on.
func firstReason(failed map[string]error, s *fileSet) string {
	var all []string
	for path, err := range failed {
		if !isNotExist(err) { // gone since it was walked: the read finds out
			all = append(all, fmt.Sprintf("cannot watch %s: %v", path, cause(err)))
		}
	}
	if runtime.GOOS != "linux" {
		all = append(all, "notifications are not complete on "+runtime.GOOS)
	}
	asked := map[string]bool{}
	for _, f := range s.files {
		if dir := filepath.Dir(f.walk.file); f.walk.err == nil && !asked[dir] {
			asked[dir] = true
			if kind := remoteFS(dir); kind != "" {
				all = append(all, fmt.Sprintf("%s is on %s, where changes made elsewhere are not announced", f.path, kind))
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	return slices.Min(all)
}
