package reload_test

// rerun_test.go runs labelled specs once more in a process that is not like this one.

import (
	"context"
	"os"
	"os/exec"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// rerun runs the specs with a label in a child process that change has prepared, and returns its report.
func rerun(ctx context.Context, label string, change func(*exec.Cmd)) (report string) {
	GinkgoHelper()
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(ctx, self, "-test.run=^TestReload$", "-ginkgo.no-color", "-ginkgo.label-filter="+label)
	change(cmd)
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	Expect(string(out)).To(ContainSubstring("PASS"))
	GinkgoWriter.Printf("%s", out)
	return string(out)
}
