package main_test

// bench_test.go runs each measurement for as short as it goes: what it says of speed means nothing, what it says of this
// library's mistakes does.

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
)

// brief is an effort of seconds.
var brief = []string{
	"-rounds=1", "-round=1ms", "-handshakes=2", "-rotations=2", "-storms=3", "-loads=1", "-bundles=1,20", "-idle=100ms", "-patience=20s",
}

// few are peers that do not take long to fail.
const few = "reload,certwatcher,static,atomic,naive"

const limit = SpecTimeout(10 * time.Minute) // of a spec, on a machine with other things to do

var program string

func TestBench(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "bench")
}

var _ = BeforeSuite(func() {
	var err error
	program, err = gexec.Build("github.com/seed45259946/reload/bench")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(gexec.CleanupBuildArtifacts)
})

var _ = DescribeTable("bench prints a table in which this library does no wrong",
	func(ctx SpecContext, measurement, peers string, wrong ...string) {
		bench := exec.CommandContext(ctx, program, append(brief, "-tables="+measurement, "-peers="+peers)...)
		bench.Stderr = GinkgoWriter
		output, err := bench.Output()
		Expect(err).NotTo(HaveOccurred())
		GinkgoWriter.Printf("%s", output)

		rows := cells(string(output))
		Expect(len(rows)).To(BeNumerically(">", 2), "no rows")
		columns := rows[0]
		for _, row := range rows[2:] {
			Expect(row).To(HaveLen(len(columns)))
			Expect(row).NotTo(ContainElement(BeEmpty()))
			for _, column := range wrong {
				i := slices.Index(columns, column)
				Expect(i).To(BeNumerically(">", 0), "no column %s", column)
				if row[0] == "reload" {
					Expect(row[i]).To(MatchRegexp(`^0( of |$)`), column)
				}
			}
		}
	},
	Entry("of GetCertificate", limit, "getcertificate", "", "allocations"),
	Entry("of handshakes", limit, "handshakes", ""),
	Entry("of rotation", limit, "rotation", few, "missed"),
	Entry("of a storm", limit, "storm", few, "failed", "short chain", "wrong chain", "missed"),
	Entry("of finding nothing changed", limit, "resync", ""),
	Entry("of many bundles", limit, "scale", few, "not served"),
	Entry("of loading", limit, "load", ""),
	Entry("of weight", limit, "weight", "reload"),
)

// cells returns those of a table of Markdown.
func cells(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			var row []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				row = append(row, strings.TrimSpace(cell))
			}
			rows = append(rows, row)
		}
	}
	return rows
}
