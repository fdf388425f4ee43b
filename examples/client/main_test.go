package main

// main_test.go runs the program as a person does and reads what it prints.

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/seed45259946/reload/examples/internal/program"
)

func TestClient(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "client")
}

var _ = program.Built("client")

var _ = Describe("the demonstration", func() {
	It("shows the clients follow without a surprise, until it is interrupted, and leaves no files behind", func(ctx SpecContext) {
		temp := GinkgoT().TempDir()
		s := program.Start(temp, "-every", "500ms")
		for _, line := range []string{
			`^https://localhost:\d+ through a proxy at 127\.0\.0\.1:\d+, and a server of Redis' protocol at 127\.0\.0\.1:\d+\.\n`,
			`time          in the files  HTTPS, by proxy  driver, dialling  driver, one config\n`,
			`[\d:.]{12}  client 1      client 1         client 1          client 1\n`,
			`[\d:.]{12}  client 2      client 2         client `,
			`the servers have a leaf of another CA, and the client trusts no other\n`,
			`[\d:.]{12}  client 4      client 4         client `,
			`[\d:.]{12}  client 5      client 5         client `,
			`[\d:.]{12}  client (\d+)      client \d+         client (?:[4-9]|\d\d) +client (?:[4-9]|\d\d)\n`,
		} {
			// The context comes after Eventually: given both, it formats the session, and that races with its output.
			Eventually(s.Out).WithContext(ctx).Should(gbytes.Say(line))
		}
		s.Interrupt()
		Eventually(s).WithContext(ctx).Should(gexec.Exit(0))
		Expect(s.Out).To(gbytes.Say(`\nrotations: \d+, calls: \d+, connections through the proxy: \d+, surprises: 0\n$`))
		Expect(string(s.Err.Contents())).To(BeEmpty())
		Expect(os.ReadDir(temp)).To(BeEmpty())
	}, SpecTimeout(program.Limit))

	DescribeTable("says what it cannot do",
		func(ctx SpecContext, message string, args ...string) {
			s := program.Start(GinkgoT().TempDir(), args...)
			Eventually(s).WithContext(ctx).Should(gexec.Exit(2))
			Expect(s.Err).To(gbytes.Say(message))
		},
		Entry("an argument", SpecTimeout(program.Limit), `unexpected argument "now"\nUsage of client:`, "now"),
		Entry("no interval", SpecTimeout(program.Limit), "-every must be positive", "-every", "0s"),
	)
})
