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

func TestQUIC(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "quic")
}

var _ = program.Built("quic")

var _ = Describe("the demonstration", func() {
	It("shows each kind of rotation without a surprise, until it is interrupted, and leaves no files behind", func(ctx SpecContext) {
		temp := GinkgoT().TempDir()
		s := program.Start(temp, "-every", "100ms")
		for _, line := range []string{
			`A tunnel over QUIC to 127\.0\.0\.1:\d+, and pages at https://127\.0\.0\.1:\d+ over HTTP/2 and at https://127\.0\.0\.1:\d+ over HTTP/3\.\n`,
			`both ends have their first leaves\n`,
			`first tunnel  leaf [0-9a-f]{12}  echoes: message 2\n`,
			`new tunnel    leaf [0-9a-f]{12}  full handshake\n`,
			`HTTP/3        leaf [0-9a-f]{12}  full handshake: HTTP/3\.0 for client\n`,
			`the server has a new leaf\n`,
			`first tunnel  leaf [0-9a-f]{12}  echoes: message 3\n`,
			`returning     leaf [0-9a-f]{12}  resumed, 0-RTT; the leaf is that of its session\n`,
			`HTTP/3        leaf [0-9a-f]{12}  resumed: HTTP/3\.0 for client`,
			`HTTP/2        leaf [0-9a-f]{12}  full handshake: HTTP/2\.0 for client\n`,
			`the client trusts no other\n`,
			`returning     leaf [0-9a-f]{12}  full handshake\n`,
			`the client has a new leaf; sessions of the one before are not for it\n`,
			`returning     leaf [0-9a-f]{12}  full handshake\n`,
			`the server trusts another CA of clients\n`,
			`first tunnel  leaf [0-9a-f]{12}  echoes: message 6\n`,
			`new tunnel    refused: .*\n`,
			`returning     refused: .*\n`,
			`HTTP/3        refused: 403, client certificate is no longer trusted\n`,
			`HTTP/2        refused: 403, client certificate is no longer trusted\n`,
			`the client has a leaf of the new CA\n`,
			`first tunnel  leaf [0-9a-f]{12}  echoes: message 7\n`,
			`the server has a new leaf\n`,
		} {
			// The context comes after Eventually: given both, it formats the session, and that races with its output.
			Eventually(s.Out).WithContext(ctx).Should(gbytes.Say(line))
		}
		s.Interrupt()
		Eventually(s).WithContext(ctx).Should(gexec.Exit(0))
		Expect(s.Out).To(gbytes.Say(`\nrotations: \d+, messages through the first tunnel: \d+, surprises: 0\n$`))
		Expect(string(s.Err.Contents())).To(BeEmpty())
		Expect(os.ReadDir(temp)).To(BeEmpty())
	}, SpecTimeout(program.Limit))

	DescribeTable("says what it cannot do",
		func(ctx SpecContext, message string, args ...string) {
			s := program.Start(GinkgoT().TempDir(), args...)
			Eventually(s).WithContext(ctx).Should(gexec.Exit(2))
			Expect(s.Err).To(gbytes.Say(message))
		},
		Entry("an argument", SpecTimeout(program.Limit), `unexpected argument "now"\nUsage of quic:`, "now"),
		Entry("no interval", SpecTimeout(program.Limit), "-every must be positive", "-every", "0s"),
	)
})
