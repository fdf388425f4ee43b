package main_test

// main_test.go runs the program as a person does and reads what it prints.

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/seed45259946/reload/examples/internal/program"
)

// Sessions and their output are given to Eventually alone, the context after it: given both, it formats the second, to
// see that it is no duration, and that races with what is written to it.

func TestGRPC(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "grpc")
}

var _ = program.Built("grpc")

// line is what is printed for a connection: its number and the leaves.
var line = regexp.MustCompile(`(?m)^[\d:.]{12}  +(\d+)  ([0-9a-f]{12})  ([0-9a-f]{12})  \d+ messages$`)

var _ = Describe("the demonstration", func() {
	It("has each side see the other's new leaf on a new connection, while a stream lives on", func(ctx SpecContext) {
		temp := GinkgoT().TempDir()
		s := program.Start(temp, "-every", "200ms")
		for range 6 { // connections
			Eventually(s.Out).WithContext(ctx).Should(gbytes.Say("messages"))
		}
		s.Interrupt()
		Eventually(s).WithContext(ctx).Should(gexec.Exit(0))

		out := string(s.Out.Contents())
		Expect(out).To(HavePrefix("Serving gRPC at 127.0.0.1:"))
		Expect(string(s.Err.Contents())).To(BeEmpty())
		Expect(os.ReadDir(temp)).To(BeEmpty())

		seen := [2]map[string]bool{{}, {}}
		connections := line.FindAllStringSubmatch(out, -1)
		for i, columns := range connections {
			Expect(columns[1]).To(Equal(strconv.Itoa(i + 1)))
			seen[0][columns[2]], seen[1][columns[3]] = true, true
		}
		Expect(len(connections)).To(BeNumerically(">=", 3))
		Expect(len(seen[0]) + len(seen[1])).To(BeNumerically(">=", 4))
		calls, made, messages := summary(out)
		Expect(made).To(Equal(len(connections)))
		Expect(calls).To(BeNumerically(">=", made))
		Expect(messages).To(BeNumerically(">=", 3))
	}, SpecTimeout(program.Limit))

	It("ends after as long as it is told to", func(ctx SpecContext) {
		s := program.Start(GinkgoT().TempDir(), "-for", "100ms")
		Eventually(s).WithContext(ctx).Should(gexec.Exit(0))
	}, SpecTimeout(program.Limit))

	It("ends at once when it is interrupted", func(ctx SpecContext) {
		temp := GinkgoT().TempDir()
		s := program.Start(temp, "-every", "1h")
		Eventually(s.Out).WithContext(ctx).Should(gbytes.Say("messages"))
		s.Interrupt()
		Eventually(s).WithContext(ctx).WithTimeout(20 * time.Second).Should(gexec.Exit(0))
		_, connections, _ := summary(string(s.Out.Contents()))
		Expect(connections).To(Equal(1))
		Expect(os.ReadDir(temp)).To(BeEmpty())
	}, SpecTimeout(program.Limit))

	It("leaves no files behind when nobody reads on", func(ctx SpecContext) {
		temp := GinkgoT().TempDir()
		read, write, err := os.Pipe()
		Expect(err).NotTo(HaveOccurred())
		cmd := exec.CommandContext(ctx, program.Path, "-every", "200ms")
		cmd.Env, cmd.Stdout = append(os.Environ(), "TMPDIR="+temp), write
		Expect(cmd.Start()).To(Succeed())
		Expect(write.Close()).To(Succeed())
		Expect(io.ReadFull(read, make([]byte, 1))).To(Equal(1))
		Expect(read.Close()).To(Succeed())

		Expect(cmd.Wait()).To(MatchError("exit status 1"))
		Expect(os.ReadDir(temp)).To(BeEmpty())
	}, SpecTimeout(program.Limit))

	DescribeTable("says what it cannot do",
		func(ctx SpecContext, message string, args ...string) {
			s := program.Start(GinkgoT().TempDir(), args...)
			Eventually(s).WithContext(ctx).Should(gexec.Exit(2))
			Expect(s.Err).To(gbytes.Say(message))
			Expect(s.Out.Contents()).To(BeEmpty())
		},
		Entry("an argument", SpecTimeout(program.Limit), `unexpected argument "now"`, "now"),
		Entry("no interval", SpecTimeout(program.Limit), "-every must be positive", "-every", "0s"),
	)
})

// summary reads the last line.
func summary(out string) (calls, connections, messages int) {
	GinkgoHelper()
	found := regexp.MustCompile(`\ncalls: (\d+), connections: (\d+), messages of the one stream: (\d+)\n$`).FindStringSubmatch(out)
	Expect(found).NotTo(BeNil(), out)
	for i, n := range []*int{&calls, &connections, &messages} {
		var err error
		*n, err = strconv.Atoi(found[i+1])
		Expect(err).NotTo(HaveOccurred())
	}
	return
}
