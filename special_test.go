//go:build unix

package reload_test

// special_test.go has the kinds of files, permissions and descriptors that Unix has.

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
)

// nobody is the user without rights.
const nobody = 65534

func specialFiles() []TableEntry {
	entries := []TableEntry{
		Entry("a FIFO that nobody writes to", func(dir string) string {
			path := filepath.Join(dir, "file")
			Expect(syscall.Mkfifo(path, 0o600)).To(Succeed())
			return path
		}, "is not a regular file (p---------)"),
		Entry("a socket", func(string) string {
			dir, err := os.MkdirTemp("", "") // sockets have short names
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(os.RemoveAll, dir)
			path := filepath.Join(dir, "file")
			l, err := net.Listen("unix", path)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(l.Close)
			return path
		}, "is not a regular file (S---------)"),
		Entry("a device", func(string) string { return os.DevNull }, "is not a regular file (Dc---------)"),
		Entry("a link to a device without end", linkTo("/dev/zero"), "is not a regular file (Dc---------)"),
	}
	if runtime.GOOS == "linux" {
		entries = append(entries,
			Entry("a path that is too long for the system, though not for a walk", func(dir string) string {
				place(dir, "file", combined)
				return dir + strings.Repeat("/../"+filepath.Base(dir), 4096/len("/../"+filepath.Base(dir))) + "/file"
			}, "file name too long"),
			Entry("a file that cannot be read", func(string) string { return "/proc/self/mem" }, "input/output error"),
			Entry("a file whose size is not what is in it", func(string) string { return "/proc/self/status" }, "changed while it was read"),
			Entry("a pipe by its descriptor", func(string) string {
				r, w, err := os.Pipe()
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(r.Close)
				DeferCleanup(w.Close)
				return fmt.Sprintf("/proc/self/fd/%d", r.Fd())
			}, "no such file or directory"))
	}
	return entries
}

var _ = Describe("Permissions", func() {
	// Root may read everything, so as root these are run again as somebody else.
	asOther := func() {
		if os.Geteuid() == 0 {
			Skip("this is root")
		}
	}

	DescribeTable("that forbid to read a file are an error", Label("unprivileged"),
		func(role string) {
			asOther()
			p, path := pathsWith(role, func(dir string) string {
				path := place(dir, "file", combined)
				Expect(os.Chmod(path, 0)).To(Succeed())
				return path
			})
			for _, p.CAOnly = range []bool{true, false} {
				_, err := reload.LoadBundle(p)
				Expect(err).To(MatchError("reload: " + role + ": open " + path + ": permission denied"))
				Expect(err).To(MatchError(os.ErrPermission))
			}
		},
		Entry("certificate", "certificate"), Entry("key", "key"), Entry("trust roots", "trust roots"),
	)

	DescribeTable("that forbid to search a directory are an error", Label("unprivileged"),
		func(role string) {
			asOther()
			p, path := pathsWith(role, func(dir string) string {
				path := place(dir, "file", combined)
				Expect(os.Chmod(dir, 0o600)).To(Succeed())
				DeferCleanup(os.Chmod, dir, os.FileMode(0o700))
				return path
			})
			for _, p.CAOnly = range []bool{true, false} {
				_, err := reload.LoadBundle(p)
				Expect(err).To(MatchError("reload: " + role + ": open " + path + ": permission denied"))
			}
		},
		Entry("certificate", "certificate"), Entry("key", "key"), Entry("trust roots", "trust roots"),
	)

	It("to search a directory are enough, to list it is not needed", Label("unprivileged"), func() {
		asOther()
		p := placePair(fullchain, privkey, fixture("accept/ca.pem"))
		dir := filepath.Dir(p.Cert)
		Expect(os.Chmod(dir, 0o111)).To(Succeed())
		DeferCleanup(os.Chmod, dir, os.FileMode(0o700))
		_, err := os.ReadDir(dir)
		Expect(err).To(MatchError(os.ErrPermission))
		b, err := reload.LoadBundle(p)
		Expect(err).NotTo(HaveOccurred())
		Expect(b.ClientCAs).NotTo(BeNil())
	})

	It("are those of the user", func(ctx SpecContext) {
		if os.Geteuid() != 0 {
			Skip("not root: the specs above have run as " + fmt.Sprint(os.Geteuid()))
		}
		tmp, err := os.MkdirTemp("", "") // one of GinkgoT's would lie in a directory that is root's alone
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, tmp)
		Expect(os.Chown(tmp, nobody, nobody)).To(Succeed())
		as := func(cmd *exec.Cmd) {
			cmd.Path = "/proc/self/exe" // the directory of the test binary is root's alone
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		probe := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^$")
		as(probe)
		if out, err := probe.CombinedOutput(); err != nil {
			Skip(fmt.Sprintf("NOT TESTED: this root cannot become another user: %v %s", err, out))
		}
		rerun(ctx, "unprivileged", as)
	}, SpecTimeout(time.Minute))
})

var _ = Describe("Descriptors", func() {
	It("are all closed, whatever the outcome", func() {
		if runtime.GOOS != "linux" {
			Skip("no /proc")
		}
		good := placePair(fullchain, privkey, fixture("accept/ca.pem"))
		bad, missing, huge := good, good, good
		bad.Key, missing.CA, missing.CAOnly = good.Cert, "/gone/ca.crt", true
		huge.Key = sparse(1 << 30)(GinkgoT().TempDir())
		open := func() int {
			descriptors, err := os.ReadDir("/proc/self/fd")
			Expect(err).NotTo(HaveOccurred())
			return len(descriptors)
		}
		before := open()
		for range 20 {
			for _, p := range []reload.Paths{good, bad, missing, huge} {
				reload.LoadBundle(p)
			}
		}
		Expect(open()).To(BeNumerically("<", before+10), "others may open a few")
	})
})
