package reload_test

// descriptors_linux_test.go counts what the kernel holds for the process: no spec with real files leaves any of it behind.

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = BeforeEach(func() {
	if slices.Contains(CurrentSpecReport().Labels(), "fs") {
		before := openFiles()
		DeferCleanup(func(ctx SpecContext) {
			Eventually(ctx, openFiles).Should(BeNumerically("<=", before), "open files")
			Expect(inotifyInUse()).To(BeZero())
		}, NodeTimeout(10*time.Second))
	}
})

// openFiles counts the descriptors of the process, but for those of the runtime's own.
func openFiles() (n int) {
	for _, link := range descriptorLinks() {
		if link != "anon_inode:[eventpoll]" && link != "anon_inode:[eventfd]" {
			n++
		}
	}
	return n
}

// inotifyUse is what the process has of inotify, which is scarce.
type inotifyUse struct{ instances, watches int }

func inotifyInUse() (use inotifyUse) {
	for fd, link := range descriptorLinks() {
		if link == "anon_inode:inotify" {
			use.instances++
			info, _ := os.ReadFile(filepath.Join("/proc/self/fdinfo", fd))
			use.watches += bytes.Count(info, []byte("\ninotify wd:"))
		}
	}
	return use
}

// descriptorLinks returns what every open file is.
func descriptorLinks() map[string]string {
	links := map[string]string{}
	entries, err := os.ReadDir("/proc/self/fd")
	Expect(err).NotTo(HaveOccurred())
	for _, e := range entries {
		// One that is gone by now was that of the directory.
		if link, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil && !strings.HasSuffix(link, "/fd") {
			links[e.Name()] = link
		}
	}
	return links
}
