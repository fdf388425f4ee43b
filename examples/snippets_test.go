package examples_test

// snippets_test.go says what readers may expect of a snippet: it compiles.

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var pkgs *packages

var _ = BeforeSuite(func() {
	var err error
	pkgs, err = knownPackages()
	Expect(err).NotTo(HaveOccurred())
})

var _ = Describe("every Go snippet compiles", func() {
	all, err := documents("..") // of the whole repository
	if err != nil {
		panic(err)
	}
	for _, d := range all {
		if len(d.snippets) > 0 || len(d.rows) > 0 {
			It("in "+d.path, func() { Expect(check(d, pkgs)).To(BeEmpty()) })
		}
	}

	It("and there are documents to look at", func() {
		Expect(all).To(ContainElement(WithTransform(func(d document) string { return d.path }, Equal("README.md"))))
	})
})

var _ = Describe("the check of snippets", func() {
	DescribeTable("accepts what a reader can use",
		func(markdown string) { Expect(check(parse("a.md", markdown), pkgs)).To(BeEmpty()) },
		Entry("a program", "```go\npackage main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }\n```\n"),
		Entry("statements without imports", "```go\ngo r.Start(ctx)\nhttp.Handle(\"/\", handler)\n```\n"),
		Entry("a variable that is not used", "```go\nr, err := reload.NewReloader(reload.FromDir(\"/tls\"), \"x\")\nif err != nil {\n\treturn err\n}\n```\n"),
		Entry("what an earlier fragment declares", "```go\nn := 1\n```\nand\n```go\nvar m int = n\nn := \"again\"\n```\nand\n```go\n_ = n + \"x\"\n```\n"),
		Entry("declarations, in any order", "```go\nfunc (m mine) SetExpiry(t time.Time) {}\n```\n~~~go\ntype mine struct{}\n~~~\n```go\nmine{}.SetExpiry(time.Now())\n```\n"),
		Entry("its own meaning of a common name", "```go\nvar store = 1\nfunc f() int { return store }\n```\n"),
		Entry("a function literal that is returned", "```go\nreturn fmt.Errorf(\"no\")\n```\n"),
		Entry("a fence in a list", "1. do\n\n   ```go\n   n := `a\n     b`\n   ```\n"),
		Entry("part of a file", "```go examples/suite_test.go\nRegisterFailHandler(Fail)\nRunSpecs(t, \"snippets\")\n```\n"),
		Entry("a table that quotes a file", "| test | code |\n|---|---|\n| [ours](examples/suite_test.go) 1 | `RunSpecs(t, ` or `Fail` | `what(ever)` |\n| [other](a.txt) | `what` |\n"),
		Entry("another language", "```sh\ngo test work\n```\n```go-not\n?\n```\n"),
	)

	DescribeTable("names document and line of what does not compile",
		func(markdown, message string) {
			Expect(check(parse("docs/a.md", markdown), pkgs)).To(ContainElement(HavePrefix(message)))
		},
		Entry("in a program", "# A\n\n```go\npackage main\n\nimport \"fmt\"\n\nfunc main() {}\n```\n", `docs/a.md:6:8: "fmt" imported and not used`),
		Entry("an import that is not to be had", "```go\npackage main\n\nimport _ \"example.com/none\"\n\nfunc main() {}\n```\n", `docs/a.md:4:10: could not import example.com/none (`),
		Entry("in a fragment", "```go\nok := 1\n```\n\n~~~go\n\nr.Begin(ctx)\n~~~\n", "docs/a.md:7:3: r.Begin undefined"),
		Entry("an unknown name", "```go\nwhat.Ever()\n```\n", "docs/a.md:2:1: undefined: what"),
		Entry("in declarations", "```go\nfunc f() int {}\n```\n", "docs/a.md:2:15: missing return"),
		Entry("an ellipsis", "```go\nr, err := reload.NewReloader(…)\n```\n", "docs/a.md:2:30: illegal character"),
		Entry("what is not in the file", "```go examples/suite_test.go\nRegisterFailHandler(Fail)\nfoo()\n```\n", "docs/a.md:2:1: these lines are not in suite_test.go"),
		Entry("what is longer than the file", "```go LICENSE\n"+strings.Repeat("\n", 1000)+"```\n", "docs/a.md:2:1: these lines are not in LICENSE"),
		Entry("a file that is not there", "```go examples/none.go\nfoo()\n```\n", "docs/a.md:2:1: open "),
		Entry("a table that quotes what is not in the file", "| a | b |\n|---|---|\n| [ours](../examples/suite_test.go) | `foo()` | |\n", "docs/a.md:3:1: foo() is not in suite_test.go"),
		Entry("a table that quotes no file", "| [ours](../examples/none.go) | `foo()` |\n", "docs/a.md:1:1: open "),
		Entry("a table that quotes nothing", "| [ours](../examples/suite_test.go) | foo |\n", "docs/a.md:1:1: nothing is quoted from suite_test.go"),
		Entry("a program cut short", "```go\npackage main\n\nfunc main() {\n```\n", "docs/a.md:4:15: expected '}'"),
	)
})
