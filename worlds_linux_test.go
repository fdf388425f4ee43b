package reload_test

// worlds_linux_test.go runs specs in processes with mounts and limits of their own, for which it takes no root.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// world is what is special about such a process, and the label of the specs that are to run in it.
type world string

const (
	mountWorld world = "mounts" // it mounts what it likes
	limitWorld world = "limits" // it lowers the limits of inotify
)

// inhabited tells a process which world it is in.
const inhabited = "RELOAD_WORLD"

var _ = Describe("In processes with mounts and limits of their own", Label("fs"), func() {
	It("everything holds", func(ctx SpecContext) {
		worlds := []world{mountWorld, limitWorld}
		atOnce(len(worlds), func(i int) { worlds[i].visit(ctx) })
	}, SpecTimeout(3*time.Minute))
})

// describe is Describe for specs that exist in w alone.
func (w world) describe(text string, body func()) bool {
	return os.Getenv(inhabited) != string(w) || Describe(text, Label("fs", string(w)), body)
}

// visit runs what w describes. Where the machine does not allow any of it the spec is skipped, and says why.
func (w world) visit(ctx SpecContext) {
	enter := func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), inhabited+"="+string(w))
		cmd.SysProcAttr = w.attributes()
	}
	probe := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^$")
	enter(probe)
	if out, err := probe.CombinedOutput(); err != nil {
		Skip("NOT TESTED: no process with its own " + string(w) + " here: " + err.Error() + " " + string(out))
	}
	for line := range strings.Lines(rerun(ctx, string(w), enter)) {
		if strings.Contains(line, "[SKIPPED] ") {
			Skip("NOT TESTED: " + strings.TrimSpace(line))
		}
	}
}

// attributes make a process that is born into w.
func (w world) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if w == mountWorld {
		attr.Cloneflags = syscall.CLONE_NEWNS
		if os.Getuid() == 0 {
			return attr
		}
	}
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	return attr
}

// What mountWorld mounts, nobody else is to see.
func init() {
	if os.Getenv(inhabited) == string(mountWorld) {
		if err := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
			panic(err)
		}
	}
}

// allowed skips the spec where the machine forbids what it needs.
func allowed(err error) {
	GinkgoHelper()
	for _, forbidden := range []error{syscall.EPERM, syscall.EACCES, syscall.ENODEV, syscall.ENOENT} {
		if errors.Is(err, forbidden) {
			Skip(err.Error())
		}
	}
	Expect(err).NotTo(HaveOccurred())
}

// mount mounts source, or a new file system of that kind, on target until the end of the spec.
func mount(source, target, kind string, flags uintptr, data string) {
	GinkgoHelper()
	allowed(syscall.Mount(source, target, kind, flags, data))
	DeferCleanup(func() { syscall.Unmount(target, syscall.MNT_DETACH) })
}

// unmount ends a mount, once nobody is reading there.
func unmount(ctx context.Context, target string) {
	GinkgoHelper()
	Eventually(ctx, func() error { return syscall.Unmount(target, 0) }).Should(Succeed())
}

// bind mounts one directory, or one file, on another.
func bind(source, target string) {
	GinkgoHelper()
	mount(source, target, "", syscall.MS_BIND, "")
}

// limit sets a limit of inotify for limitWorld.
func limit(what string, n int) {
	GinkgoHelper()
	allowed(os.WriteFile("/proc/sys/user/max_inotify_"+what, fmt.Append(nil, n), 0))
}
