// Package program builds a demonstration and runs it as a person does, for specs of what it prints.
package program

import (
	"os"
	"os/exec"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
)

// Limit bounds a spec, on a machine with other things to do.
const Limit = 2 * time.Minute

// Path is where the program is, once the suite runs.
var Path string

// flags are those that the program is built with; with -race where its specs are.
var flags []string

// Built has an example built before the suite runs. Call it once, where the specs are described.
func Built(name string) bool {
	return ginkgo.BeforeSuite(func() {
		var err error
		Path, err = gexec.Build("github.com/seed45259946/reload/examples/"+name, flags...)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		ginkgo.DeferCleanup(gexec.CleanupBuildArtifacts)
	})
}

// Start runs the program with temp as the directory of temporary files, and makes sure that it ends with the spec.
func Start(temp string, args ...string) *gexec.Session {
	ginkgo.GinkgoHelper()
	cmd := exec.Command(Path, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	s, err := gexec.Start(cmd, ginkgo.GinkgoWriter, ginkgo.GinkgoWriter)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(func() { s.Kill().Wait(Limit) })
	return s
}
