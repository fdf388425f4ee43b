package reload_test

// idle_bench_linux_test.go measures what watching costs while nothing rotates.

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// BenchmarkIdle keeps many bundles at the default resync of a minute, each in a directory of its own, and reports what one
// of them costs: processor time in each second, memory (heap and stacks) and goroutines.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{1, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dirs := make([]string, n)
			ca := reloadtest.NewCA(reloadtest.Options{})
			files := ca.Issue(reloadtest.Options{}).Files(ca)
			for i := range dirs {
				dirs[i] = filepath.Join(b.TempDir(), fmt.Sprint(i))
				succeed(b, os.Mkdir(dirs[i], 0o755))
				_, err := reloadtest.NewKubelet(dirs[i], files)
				succeed(b, err)
			}
			before, goroutines := inUse(), runtime.NumGoroutine()
			stop := watchAll(b, dirs)
			defer stop()
			memory, more := inUse()-before, runtime.NumGoroutine()-goroutines
			began, busy := time.Now(), processorTime(b)
			for b.Loop() {
				time.Sleep(time.Second)
			}
			each := func(total float64) float64 { return total / float64(n) }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(each(float64((processorTime(b)-busy).Nanoseconds())/time.Since(began).Seconds()), "cpu-ns/s/bundle")
			b.ReportMetric(each(float64(memory)), "B/bundle")
			b.ReportMetric(each(float64(more)), "goroutines/bundle")
		})
	}
}

// BenchmarkForeignEvent writes a file that is none of a bundle's into the directory of n bundles, and into one that nobody
// watches: what it costs more is the price of a neighbour.
func BenchmarkForeignEvent(b *testing.B) {
	for _, n := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("bundles=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			ca := reloadtest.NewCA(reloadtest.Options{})
			_, err := reloadtest.NewPlain(dir, ca.Issue(reloadtest.Options{}).Files(ca))
			succeed(b, err)
			dirs := make([]string, n)
			for i := range dirs {
				dirs[i] = dir
			}
			stop := watchAll(b, dirs)
			defer stop()
			neighbour := filepath.Join(dir, "access.log")
			busy, events := processorTime(b), 0
			for b.Loop() {
				succeed(b, os.WriteFile(neighbour, []byte{byte(events)}, 0o600))
				events++
				if events%64 == 0 {
					time.Sleep(time.Millisecond) // else the kernel's queue overflows
				}
			}
			b.ReportMetric(float64((processorTime(b)-busy).Nanoseconds())/float64(events), "cpu-ns/write")
		})
	}
}

// watchAll has a reloader for each directory, and returns when all have looked.
func watchAll(b *testing.B, dirs []string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	all := make([]*reload.Reloader, len(dirs))
	for i, dir := range dirs {
		r, err := reload.NewReloader(reload.FromDir(dir), "bench", func(o *reload.WatchOptions) { o.Logger = slog.New(slog.DiscardHandler) })
		succeed(b, err)
		all[i] = r
		running.Go(func() { r.Start(ctx) })
	}
	for _, r := range all {
		for r.Status().Degraded != "" {
			time.Sleep(time.Millisecond)
		}
	}
	return func() { cancel(); running.Wait() }
}

// inUse returns the memory that the heap and the stacks take, after a collection.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and cleanups let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// processorTime returns what this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	succeed(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
