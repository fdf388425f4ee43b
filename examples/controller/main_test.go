package main

// main_test.go runs the program as a person does and reads what it prints.

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
)

var _ = Describe("the demonstration", func() {
	// run starts the program. Its temporary files go to temp.
	run := func(temp string, args ...string) *gexec.Session {
		GinkgoHelper()
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temp)
		s, err := gexec.Start(cmd, GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(s.Kill)
		return s
	}

	It("shows rotations on all sides without a failure and leaves no files behind", func(ctx SpecContext) {
		temp := GinkgoT().TempDir()
		s := run(temp, "-every", "1s", "-for", "10s")
		Eventually(s).WithContext(ctx).Should(gexec.Exit(0))
		out := string(s.Out.Contents())
		Expect(out).To(MatchRegexp(`(?m)^[\d:.]{12}  serving-1   serving-1         1  upstream-1   upstream-1        1  proxy-2$`))
		Expect(out).To(MatchRegexp(`(?m)^[\d:.]{12}  serving-[2-9] .* upstream-[2-9] +upstream-1 +[2-9]  proxy-[2-9]$`))
		summary := regexp.MustCompile(`rotations: (\d+), visits: \d+, failures: 0\n$`).FindStringSubmatch(out)
		Expect(summary).To(HaveLen(2))
		Expect(strconv.Atoi(summary[1])).To(BeNumerically(">=", 2))
		Expect(string(s.Err.Contents())).To(BeEmpty())
		Expect(os.ReadDir(temp)).To(BeEmpty())
	}, SpecTimeout(limit))

	It("ends when it is interrupted", func(ctx SpecContext) {
		temp := GinkgoT().TempDir()
		s := run(temp, "-every", "1h")
		Eventually(s.Out).WithContext(ctx).Should(gbytes.Say("serving-1"))
		s.Interrupt()
		Eventually(s).WithContext(ctx).Should(gexec.Exit(0))
		Expect(s.Out).To(gbytes.Say("failures: 0\n$"))
		Expect(os.ReadDir(temp)).To(BeEmpty())
	}, SpecTimeout(limit))

	DescribeTable("refuses a command line that it does not understand",
		func(ctx SpecContext, message string, args ...string) {
			s := run(GinkgoT().TempDir(), args...)
			Eventually(s).WithContext(ctx).Should(gexec.Exit(2))
			Expect(s.Err).To(gbytes.Say(message))
		},
		Entry("an argument", SpecTimeout(limit), `unexpected argument "x"`, "x"),
		Entry("no time", SpecTimeout(limit), "-every must be positive", "-every", "0"),
	)
})
