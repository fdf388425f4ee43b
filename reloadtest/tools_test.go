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
	known := []string{"tls.crt", "tls.key", "ca.crt", "tls.crt~", "tls.key~", "ca.crt~", "4913", "current", "releases",
		"tls", "tls.new", "tls.old"}
	name := func(name string) string {
		if slices.Contains(known, name) || strings.HasSuffix(name, ".pem") {
			return name
		}
		return "temp"
	}

	// For programs that are not installed where tests run, what was seen of them stands in. Each line is of one file.
	DescribeTable("in the events on record",
		func(ctx SpecContext, r reloadtest.Rotator, watched string, want ...string) {
			dir := GinkgoT().TempDir()
			padded := func(n int) reloadtest.Files {
				f := generation(n)
				for name, data := range f {
					f[name] = append(data, strings.Repeat("\n", 4096-len(data))...)
				}
				return f
			}
			Expect(r.Write(dir, padded(1), nil)).To(Succeed())
			got := eventsOf(ctx, filepath.Join(dir, watched), name, func() {
				Expect(r.Write(dir, padded(2), nil)).To(Succeed())
			})
			Expect(strings.Join(got, ", ")).To(Equal(strings.Join(want, ", ")))
		},
		Entry("certbot", reloadtest.Certbot(), "live/localhost",
			"CREATE previous_cert.pem, CREATE previous_privkey.pem, CREATE previous_chain.pem, CREATE previous_fullchain.pem",
			"REMOVE cert.pem, CREATE cert.pem", "REMOVE privkey.pem, CREATE privkey.pem",
			"REMOVE chain.pem, CREATE chain.pem", "REMOVE fullchain.pem, CREATE fullchain.pem",
			"REMOVE previous_cert.pem, REMOVE previous_privkey.pem, REMOVE previous_chain.pem, REMOVE previous_fullchain.pem"),
		Entry("vault agent", reloadtest.VaultAgent(), ".",
			"CREATE temp, WRITE temp, CHMOD temp, RENAME temp, CREATE tls.crt, CHMOD tls.crt",
			"CREATE temp, WRITE temp, CHMOD temp, RENAME temp, CREATE tls.key, CHMOD tls.key",
			"CREATE temp, WRITE temp, CHMOD temp, RENAME temp, CREATE ca.crt, CHMOD ca.crt"),
		Entry("ansible copy", reloadtest.Ansible(), "tls",
			"CREATE server-key.pem, CHMOD server-key.pem", "CREATE server.pem, CHMOD server.pem",
			"CREATE ca.pem, CHMOD ca.pem"),
		Entry("rsync", reloadtest.Rsync(), ".",
			"CREATE temp, CHMOD temp, WRITE temp, CHMOD temp, RENAME temp, CREATE ca.crt",
			"CREATE temp, CHMOD temp, WRITE temp, CHMOD temp, RENAME temp, CREATE tls.crt",
			"CREATE temp, CHMOD temp, WRITE temp, CHMOD temp, RENAME temp, CREATE tls.key"),
		Entry("rsync --inplace", reloadtest.RsyncInPlace(), ".",
			"WRITE ca.crt, CHMOD ca.crt, WRITE tls.crt, CHMOD tls.crt, WRITE tls.key, CHMOD tls.key"),
		Entry("directory swap", reloadtest.SwapDirs(), ".",
			"CREATE tls.new, RENAME tls, CREATE tls.old, RENAME tls.new, CREATE tls, REMOVE tls.old"),
		Entry("mmap, the length staying the same: nothing at all", mmap(), "."),
	)

	DescribeTable("in its events",
		func(ctx SpecContext, r reloadtest.Rotator, tool, script string) {
			if version, err := exec.CommandContext(ctx, tool, "--version").Output(); err != nil ||
				!strings.Contains(string(version), "GNU") && !strings.Contains(string(version), "Vi IMproved") {
				Skip("no GNU " + tool)
			}
			if (tool == "vim" || tool == "tar") && os.Getuid() != 0 {
				Skip(tool + " sets other attributes if it is not root")
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
		Entry("tar x", reloadtest.Untar(), "tar", `(cd $src; tar c *) | tar x`),
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

// mmap returns a rotator of Linux, by name so that the specs compile elsewhere.
func mmap() reloadtest.Rotator {
	all := reloadtest.Rotators()
	return all[slices.IndexFunc(all, func(r reloadtest.Rotator) bool { return r.Name == "mmap" })]
}

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
