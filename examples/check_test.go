package examples_test

// check_test.go type-checks the snippets of a document. A snippet that begins with a package clause is a program, and is
// taken as it is. Any other is a fragment: declarations or statements, which may leave out imports, use what earlier
// fragments of the same document declare and what the prelude has, and leave variables unused. One whose fence names a file
// is not checked but compared with it, for it is compiled there. So are the rows of a table that quote a file.

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// prelude declares what fragments may take for granted, unless their document declares it.
var prelude = map[string]string{
	"ctx":     "context.Context",
	"err":     "error",
	"handler": "http.Handler",
	"r":       "*reload.Reloader",
	"store":   "*reload.Store",
}

// check returns what is wrong with the code of d, each fault with document and line.
func check(d document, pkgs *packages) (faults []string) {
	c := &checker{path: d.path, pkgs: pkgs, fset: token.NewFileSet(), declared: map[string]bool{}}
	for _, s := range d.snippets {
		if s.source == "" {
			c.add(s)
		} else if err := isPartOf(filepath.Join("..", s.source), s.code); err != nil {
			c.fault(fmt.Errorf("%s:%d:1: %w", d.path, s.line, err))
		}
	}
	for _, r := range d.rows {
		if err := quotes(filepath.Join("..", filepath.Dir(d.path), r.source), r.codes); err != nil {
			c.fault(fmt.Errorf("%s:%d:1: %w", d.path, r.line, err))
		}
	}
	c.checkFragments()
	return c.faults
}

// isPartOf fails if the lines of a snippet do not follow each other in a file, but for their indent.
func isPartOf(file, code string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	source, wanted := strings.Split(string(content), "\n"), strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	for i, line := range source[:max(0, len(source)-len(wanted)+1)] {
		indent, found := strings.CutSuffix(line, wanted[0])
		part := slices.Clone(source[i : i+len(wanted)])
		for j := range part {
			part[j] = strings.TrimPrefix(part[j], indent)
		}
		if found && strings.TrimLeft(indent, "\t") == "" && slices.Equal(part, wanted) {
			return nil
		}
	}
	return fmt.Errorf("these lines are not in %s", filepath.Base(file))
}

// quotes fails unless each piece of code is part of a line of a file, and if there is none.
func quotes(file string, codes []string) error {
	content, err := os.ReadFile(file)
	if err == nil && len(codes) == 0 {
		err = fmt.Errorf("nothing is quoted from %s", filepath.Base(file))
	}
	for _, code := range codes {
		if err == nil && !strings.Contains(string(content), code) {
			err = fmt.Errorf("%s is not in %s", code, filepath.Base(file))
		}
	}
	return err
}

// checker collects the snippets of one document.
type checker struct {
	path   string
	pkgs   *packages
	fset   *token.FileSet
	faults []string

	declarations []string        // fragments, one a file
	declared     map[string]bool // names in them
	statements   []string        // fragments
}

// add sorts a snippet in. What parses as none of the three kinds is an error.
func (c *checker) add(s snippet) {
	here := fmt.Sprintf("//line %s:%d:1\n%s", c.path, s.line, s.code)
	if file, err := c.parse(here); err == nil {
		c.checkFiles(false, file)
		return
	}
	file, err := c.parse("package fragment\n" + here)
	if err == nil && slices.ContainsFunc(file.Decls, isLasting) {
		c.declarations = append(c.declarations, here)
		c.declare(file)
		return
	}
	if _, err2 := c.parse(function(here)); err2 == nil {
		c.statements = append(c.statements, here)
		return
	} else if !strings.HasPrefix(s.code, "import") && !strings.HasPrefix(s.code, "func") {
		err = err2 // more likely statements with a fault
	}
	if strings.HasPrefix(s.code, "package") {
		_, err = c.parse(here)
	}
	c.fault(err)
}

// fault notes an error of the parser, which may be several, or of the type checker.
func (c *checker) fault(err error) {
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		c.faults = append(c.faults, err.Error())
	}
	for _, one := range list {
		c.faults = append(c.faults, one.Error())
	}
}

// isLasting reports whether a declaration cannot be meant for the inside of a function.
func isLasting(d ast.Decl) bool {
	general, ok := d.(*ast.GenDecl)
	return !ok || general.Tok == token.IMPORT || general.Tok == token.TYPE
}

// function makes statements a function. Those of the next fragment may redeclare the variables of the ones before.
func function(fragments ...string) string {
	body := strings.Join(fragments, "\n{\n") + strings.Repeat("\n}", len(fragments)-1)
	return "package fragment\nfunc _() (_ error) {\n" + body + "\npanic(nil)\n}\n"
}

// declare notes the names that a file declares.
func (c *checker) declare(file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			c.declared[d.Name.Name] = c.declared[d.Name.Name] || d.Recv == nil
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					c.declared[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range s.Names {
						c.declared[name.Name] = true
					}
				}
			}
		}
	}
}

// checkFragments checks all fragments of the document as one package.
func (c *checker) checkFragments() {
	var sources []string
	for _, fragment := range c.declarations {
		sources = append(sources, "package fragment\n"+fragment)
	}
	if len(c.statements) > 0 {
		sources = append(sources, function(c.statements...))
	}
	if len(sources) == 0 {
		return
	}
	given := "package fragment\n"
	for name, kind := range prelude {
		if !c.declared[name] {
			given += "var " + name + " " + kind + "\n"
		}
	}
	var files []*ast.File
	for _, source := range append(sources, given) {
		file, err := c.parse(c.withImports(source))
		if err != nil {
			c.fault(err)
			return
		}
		files = append(files, file)
	}
	c.checkFiles(true, files...)
}

// withImports adds an import for each package that a fragment names without importing it. One too many does no harm.
func (c *checker) withImports(source string) string {
	file, err := c.parse(source)
	if err != nil {
		return source // to be reported by the caller
	}
	wanted := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := selector.X.(*ast.Ident); ok && c.pkgs.byName[x.Name] != "" && !c.declared[x.Name] && prelude[x.Name] == "" {
				wanted[x.Name] = c.pkgs.byName[x.Name]
			}
		}
		return true
	})
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		maps.DeleteFunc(wanted, func(name, known string) bool { return known == path || spec.Name != nil && spec.Name.Name == name })
	}
	imports := "package fragment; "
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		imports += fmt.Sprintf("import %s %q; ", name, wanted[name])
	}
	return imports + strings.TrimPrefix(source, "package fragment")
}

func (c *checker) parse(source string) (*ast.File, error) {
	return parser.ParseFile(c.fset, "", source, parser.SkipObjectResolution)
}

// checkFiles type-checks one package. Of a fragment it is no error that a variable or an import is not used.
func (c *checker) checkFiles(fragment bool, files ...*ast.File) {
	config := types.Config{Importer: c.pkgs.importer(c.fset, files), GoVersion: "go1.26"}
	config.Error = func(err error) {
		if found := new(types.Error); !errors.As(err, found) || !fragment || !found.Soft {
			c.fault(err)
		}
	}
	config.Check("snippet", c.fset, files, nil) // its error is the first that config.Error has seen
}
