//go:build linux

package chaos_test

// resources_test.go counts what must be given back.

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

var discard = slog.New(slog.DiscardHandler)

// inotifyUse is what this process has of inotify.
type inotifyUse struct{ instances, watches int }

func inotifyInUse() (use inotifyUse) {
	for fd, link := range descriptors() {
		if link == "anon_inode:inotify" {
			use.instances++
			info, _ := os.ReadFile(filepath.Join("/proc/self/fdinfo", fd))
			use.watches += bytes.Count(info, []byte("\ninotify wd:"))
		}
	}
	return use
}

// descriptors returns what every open file is.
func descriptors() map[string]string {
	links := map[string]string{}
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		// One that is gone by now was that of the directory.
		if link, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil && !strings.HasSuffix(link, "/fd") {
			links[e.Name()] = link
		}
	}
	return links
}

// resources is how much of what a process has.
type resources struct {
	goroutines, descriptors int
	inotifyUse
	heap uint64
}

func inUse() resources {
	var m runtime.MemStats
	for range 3 { // what has a clean-up goes with the second, what that held with the third
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return resources{runtime.NumGoroutine(), len(descriptors()), inotifyInUse(), m.HeapAlloc}
}

// atRest is what is in use when nothing ends any more by itself.
func atRest() resources {
	least := inUse()
	for same := 0; same < 10; same++ {
		rest(context.Background(), 100*time.Millisecond)
		now := inUse()
		if now.goroutines < least.goroutines || now.descriptors < least.descriptors {
			same = 0
		}
		least = now
	}
	return least
}

func (r resources) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d inotify instances, %d watches, heap %.1f MB",
		r.goroutines, r.descriptors, r.instances, r.watches, float64(r.heap)/1e6)
}

// moreThan says what r has more of than before, and nothing if it is no more. The heap has a margin.
func (r resources) moreThan(before resources, heapMargin uint64) bool {
	return r.goroutines > before.goroutines || r.descriptors > before.descriptors || r.instances > before.instances ||
		r.watches > before.watches || r.heap > before.heap+heapMargin
}
