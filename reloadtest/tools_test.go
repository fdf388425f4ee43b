package reloadtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload/reloadtest"
)

// The stand-ins are held against the tools themselves where these are installed: to a directory watch, both must look
// the same. $src has the files of the next generation, the working directory those of the live one.
var _ = Describe("A stand-in looks like the tool", Label("tools"), func() {
	if runtime.GOOS != "linux" {
		return
	}
	// The files that configuration or the tool gives their names; all others are temporary.
	known := []string{"tls.crt", "tls.key", "ca.crt", "tls.crt~", "tls.key~", "ca.crt~", "4913", "current", "releases"}
	name := func(name string) string {
		if slices.Contains(known, name) {
			return name
		}
		return "temp"
	}

	DescribeTable("in its events",
		func(ctx SpecContext, r reloadtest.Rotator, tool, script string) {
			if version, err := exec.CommandContext(ctx, tool, "--version").Output(); err != nil ||
				!strings.Contains(string(version), "GNU") && !strings.Contains(string(version), "Vi IMproved") {
				Skip("no GNU " + tool)
			}
			if tool == "vim" && os.Getuid() != 0 {
				Skip("vim changes more attributes for others than root")
			}
			ours, theirs := GinkgoT().TempDir(), GinkgoT().TempDir()
			src := GinkgoT().TempDir()
			for name, data := range generation(2) {
				writeFile(filepath.Join(src, name), string(data))
			}
			if tool == "mv" && strings.Contains(script, "$src/$f") {
				src = onAnotherFileSystem(ctx, src)
			}
			Expect(r.Write(ours, generation(1), nil)).To(Succeed())
			Expect(r.Write(theirs, generation(1), nil)).To(Succeed())

			got := eventsOf(ctx, ours, name, func() { Expect(r.Write(ours, generation(2), nil)).To(Succeed()) })
			want := eventsOf(ctx, theirs, name, func() {
				cmd := exec.CommandContext(ctx, "sh", "-ec", "umask 022; "+script)
				cmd.Dir, cmd.Env = theirs, append(os.Environ(), "src="+src)
				out, err := cmd.CombinedOutput()
				Expect(err).NotTo(HaveOccurred(), string(out))
			})
			Expect(got).To(Equal(want))
		},
		Entry("cp", reloadtest.Copy(), "cp", `cp $src/* .`),
		Entry("install -m", reloadtest.Install(), "install", `install -m 644 $src/* .`),
		Entry("tar x", reloadtest.Untar(), "tar", `(cd $src; tar c *) | tar xp`),
		Entry("sed -i", reloadtest.SedInPlace(), "sed", `sed -i s/A/A/ *`),
		Entry("mv from another file system", reloadtest.MoveAcross(), "mv",
			`for f in tls.key tls.crt ca.crt; do mv $src/$f .; done`),
		Entry("ln -sfn", reloadtest.FlipLn(), "ln",
			`mkdir releases/2; cp $src/* releases/2; ln -sfn releases/2 current`),
		Entry("mv -T", reloadtest.Flip(), "mv",
			`mkdir releases/2; cp $src/* releases/2; ln -s releases/2 current.tmp; mv -T current.tmp current`),
		Entry("vim backupcopy=auto", reloadtest.VimRename(), "vim", vim("writebackup backupskip= backupcopy=auto")),
		Entry("vim backupcopy=yes", reloadtest.VimCopy(), "vim", vim("writebackup backupskip= backupcopy=yes")),
		Entry("vim without backup", reloadtest.VimInPlace(), "vim", vim("nobackup nowritebackup")),
	)
})

// vim returns a script that writes each file once with these settings, without a swap file.
func vim(settings string) string {
	return `for f in tls.crt tls.key ca.crt; do vim -n -es -u NONE -c 'set nocompatible ` + settings + `' -c wq $f; done`
}

// onAnotherFileSystem copies dir to memory, or skips the spec where that is the same file system.
func onAnotherFileSystem(ctx SpecContext, dir string) string {
	GinkgoHelper()
	const memory = "/dev/shm"
	device := func(path string) string {
		out, err := exec.CommandContext(ctx, "stat", "-c", "%d", path).Output()
		if err != nil {
			Skip("no device number of " + path)
		}
		return string(out)
	}
	if device(memory) == device(dir) {
		Skip("no other file system")
	}
	there, err := os.MkdirTemp(memory, "reloadtest")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, there)
	Expect(os.CopyFS(there, os.DirFS(dir))).To(Succeed())
	return there
}
