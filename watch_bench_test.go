package reload_test

// watch_bench_test.go measures how long after the last file operation a rotation is live, beside a program that reads
// the files again at every handshake.

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

// BenchmarkRotation reports the median and the 99th percentile from the last operation of a writer to the new leaf being
// served, in microseconds, for this library and for one that reads both files at each of a stream of handshakes.
func BenchmarkRotation(b *testing.B) {
	for _, writer := range []struct {
		name string
		make func(b *testing.B, dir string, f reloadtest.Files) (rotate func(reloadtest.Files) error)
	}{
		{"kubelet", func(b *testing.B, dir string, f reloadtest.Files) func(reloadtest.Files) error {
			k, err := reloadtest.NewKubelet(dir, f)
			succeed(b, err)
			return k.Update
		}},
		{"rename", func(b *testing.B, dir string, f reloadtest.Files) func(reloadtest.Files) error {
			p, err := reloadtest.NewPlain(dir, f)
			succeed(b, err)
			return p.Rename
		}},
		{"in place", func(b *testing.B, dir string, f reloadtest.Files) func(reloadtest.Files) error {
			p, err := reloadtest.NewPlain(dir, f)
			succeed(b, err)
			return p.Write
		}},
	} {
		b.Run(writer.name, func(b *testing.B) { benchmarkRotation(b, writer.make) })
	}
}

func benchmarkRotation(b *testing.B, newWriter func(*testing.B, string, reloadtest.Files) func(reloadtest.Files) error) {
	ca := reloadtest.NewCA(reloadtest.Options{}).Intermediate(reloadtest.Options{})
	watched, reread := b.TempDir(), b.TempDir() // apart, so that neither keeps the other from the processor
	rotateWatched := newWriter(b, watched, ca.Issue(reloadtest.Options{}).Files())
	rotateReread := newWriter(b, reread, ca.Issue(reloadtest.Options{}).Files())
	r, err := reload.NewReloader(reload.FromDir(watched), "bench", func(o *reload.WatchOptions) { o.Logger = slog.New(slog.DiscardHandler) })
	succeed(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Start(ctx) }()
	defer func() { cancel(); succeed(b, <-ended) }()
	for r.Status().LastLook.Equal(r.Status().LastSwap) { // until Start has looked
		time.Sleep(time.Millisecond)
	}
	var ours, naive []time.Duration
	for b.Loop() {
		next := ca.Issue(reloadtest.Options{})
		naive = append(naive, afterRotation(b, rotateReread, next, func() bool {
			pair, err := tls.LoadX509KeyPair(filepath.Join(reread, reload.SecretCertFile), filepath.Join(reread, reload.SecretKeyFile))
			return err == nil && pair.Leaf.Equal(next.Leaf)
		}))
		next = ca.Issue(reloadtest.Options{})
		ours = append(ours, afterRotation(b, rotateWatched, next, func() bool {
			cert, err := r.GetCertificate(nil)
			return err == nil && cert.Leaf.Equal(next.Leaf)
		}))
	}
	slices.Sort(ours)
	slices.Sort(naive)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(percentile(ours, 50), "p50-µs")
	b.ReportMetric(percentile(ours, 99), "p99-µs")
	b.ReportMetric(percentile(naive, 50), "naive-p50-µs")
	b.ReportMetric(percentile(ours, 50)/percentile(naive, 50), "p50/naive")
}

// afterRotation rotates and returns how long after its last step the condition held.
func afterRotation(b *testing.B, rotate func(reloadtest.Files) error, next *reloadtest.Keypair, served func() bool) time.Duration {
	time.Sleep(100*time.Millisecond + rand.N(50*time.Millisecond)) // rotations have pauses between them
	succeed(b, rotate(next.Files()))
	written := time.Now()
	for !served() {
		time.Sleep(20 * time.Microsecond)
	}
	return time.Since(written)
}

func percentile(sorted []time.Duration, p int) float64 {
	return float64(sorted[len(sorted)*p/100].Nanoseconds()) / 1e3
}

func succeed(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkResync finds that nothing has changed, which is what nearly every look finds, beside a program that only opens
// and reads the same files.
func BenchmarkResync(b *testing.B) {
	dir := b.TempDir()
	ca := reloadtest.NewCA(reloadtest.Options{})
	_, err := reloadtest.NewKubelet(dir, ca.Issue(reloadtest.Options{}).Files(ca))
	succeed(b, err)
	hints := make(chan struct{})
	r, err := reload.NewReloader(reload.FromDir(dir), "bench", func(o *reload.WatchOptions) {
		o.Logger, o.Hints, o.PollOnly, o.Settle = slog.New(slog.DiscardHandler), hints, true, time.Nanosecond
	})
	succeed(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Start(ctx) }()
	defer func() { cancel(); succeed(b, <-ended) }()

	b.Run("reload", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			hints <- struct{}{} // is received once the look before it is over
		}
	})
	b.Run("reading", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, name := range []string{reload.SecretCertFile, reload.SecretKeyFile, reload.SecretCAFile} {
				_, err := os.ReadFile(filepath.Join(dir, name))
				succeed(b, err)
			}
		}
	})
}
