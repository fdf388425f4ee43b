package examples_test

// packages_test.go knows the packages that snippets may import: those of the standard library, our own, and those that
// ours import.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/seed45259946/reload"

// heavy packages import what takes minutes to compile. Snippets do without that, or name the file that they are part of.
var heavy = regexp.MustCompile("^" + module + "/examples/(controller|wiring)(/|$)")

// packages is what the go command has told.
type packages struct {
	byName map[string]string // package name to the import path a fragment means by it
	export map[string]string // import path to the file with its types
	failed map[string]string // import path to why there is none
}

// listed is what go list tells of a package.
type listed struct {
	ImportPath, Name, Export string
	Standard                 bool
	Imports                  []string
	Error                    *struct{ Err string }
}

// knownPackages asks for names only: types cost a compilation.
func knownPackages() (*packages, error) {
	all, err := list("-deps", "std", "work")
	if err != nil {
		return nil, err
	}
	ours := map[string]bool{} // packages that we have or import
	for _, p := range all {
		if strings.HasPrefix(p.ImportPath, module) && !heavy.MatchString(p.ImportPath) {
			ours[p.ImportPath] = true
			for _, path := range p.Imports {
				ours[path] = true
			}
		}
	}
	// Of two packages with one name, a fragment means ours, or the one with the shorter path: crypto/rand, text/template.
	better := func(a, b string) bool {
		if ours[a] != ours[b] {
			return ours[a]
		}
		return len(a) < len(b)
	}
	known := &packages{map[string]string{}, map[string]string{}, map[string]string{}}
	for _, p := range all {
		visible := (p.Standard || ours[p.ImportPath]) && p.Name != "main" &&
			!slices.Contains(strings.Split(p.ImportPath, "/"), "internal") && !strings.HasPrefix(p.ImportPath, "vendor/")
		if before := known.byName[p.Name]; visible && (before == "" || better(p.ImportPath, before)) {
			known.byName[p.Name] = p.ImportPath
		}
	}
	return known, nil
}

// importer returns one that has the types of whatever files import.
func (p *packages) importer(fset *token.FileSet, files []*ast.File) types.Importer {
	var missing []string
	for _, file := range files {
		for _, spec := range file.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil && p.export[path] == "" && path != "unsafe" {
				missing = append(missing, path)
			}
		}
	}
	if len(missing) > 0 {
		p.compile(missing)
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if p.export[path] == "" {
			return nil, fmt.Errorf("%s", p.failed[path])
		}
		return os.Open(p.export[path])
	})
}

// compile has the go command write the types of packages and of all that they import.
func (p *packages) compile(paths []string) {
	all, err := list(append([]string{"-export", "-deps"}, paths...)...)
	for _, path := range paths {
		p.failed[path] = fmt.Sprint(err)
	}
	for _, l := range all {
		p.export[l.ImportPath] = l.Export
		if l.Error != nil {
			p.failed[l.ImportPath] = l.Error.Err
		}
	}
}

// list runs go list, with the flags of this test: what they have compiled is not compiled once more.
func list(args ...string) (all []listed, err error) {
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Name,Export,Standard,Imports,Error"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		switch err := d.Decode(&l); err {
		case nil:
			all = append(all, l)
		case io.EOF:
			return all, nil
		default:
			return nil, err
		}
	}
}
