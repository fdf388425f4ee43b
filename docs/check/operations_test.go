package check_test

// operations_test.go compares operations.md with the code: log lines by their messages and levels, metrics by their names.

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("operations.md", func() {
	text := string(page("operations.md"))

	It("names every metric, and no other", func() {
		named := map[string]bool{}
		for _, name := range regexp.MustCompile(`apoxy_[a-z_]+`).FindAllString(text, -1) {
			named[name] = true
			Expect(labels).To(HaveKey(name))
		}
		Expect(named).To(HaveLen(len(labels)))
	})

	It("has every line that is logged, with its level, and no other", func() {
		documented := map[string]string{}
		for _, row := range regexp.MustCompile("(?m)^\\| (DEBUG|INFO|WARN|ERROR) \\| `([^`]+)` \\|").FindAllStringSubmatch(text, -1) {
			documented[row[2]] += row[1]
		}
		logged := messages()
		// These have their level, or their message, from a variable.
		Expect(logged).To(HaveKeyWithValue("leaf expires soon", ""))
		logged["leaf expires soon"] = "INFO"
		for _, message := range []string{"keypair loaded", "keypair reloaded", "outgoing CAs are no longer trusted"} {
			Expect(logged).To(HaveKeyWithValue(message, ""))
			logged[message] = "INFO"
		}
		Expect(documented).To(Equal(logged))
	})
})

// messages returns what the library logs, with the level where the call says it.
func messages() map[string]string {
	GinkgoHelper()
	all := map[string]string{}
	files, err := filepath.Glob("../../*.go")
	Expect(err).NotTo(HaveOccurred())
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		file, err := parser.ParseFile(token.NewFileSet(), path, source, 0)
		Expect(err).NotTo(HaveOccurred())
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				method, ok := n.Fun.(*ast.SelectorExpr)
				if !ok {
					break
				}
				switch method.Sel.Name {
				case "Debug", "Info", "Warn", "Error":
					if message, ok := literal(n.Args); ok && isLog(method.X) {
						all[message] += strings.ToUpper(method.Sel.Name)
					}
				case "Log", "serve":
					if message, ok := literal(n.Args); ok {
						all[message] += ""
					}
				}
			case *ast.AssignStmt:
				if name, ok := n.Lhs[0].(*ast.Ident); ok && name.Name == "message" {
					if message, ok := literal(n.Rhs); ok {
						all[message] += ""
					}
				}
			}
			return true
		})
	}
	return all
}

// isLog reports whether x is a logger: log, or the field log of something.
func isLog(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "log"
	case *ast.SelectorExpr:
		return x.Sel.Name == "log"
	}
	return false
}

// literal returns the first string literal among expressions.
func literal(all []ast.Expr) (string, bool) {
	for _, expr := range all {
		if lit, ok := expr.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			return text, err == nil
		}
	}
	return "", false
}
