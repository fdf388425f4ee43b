package examples_test

// markdown_test.go finds the documents and the Go code in them: snippets and table rows.

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// document is a markdown file with the Go code in it.
type document struct {
	path     string // from the root of the repository, with slashes
	snippets []snippet
	rows     []row
}

// snippet is what stands in one fence.
type snippet struct {
	line   int    // of its first line in the document
	source string // file, from the root of the repository, that it claims to be part of; empty if it claims nothing
	code   string
}

// row is a line of a table whose first cell is a link to a Go file. What the second cell has in backquotes is from there.
type row struct {
	line   int
	source string // as linked: from the directory of the document
	codes  []string
}

// documents returns every markdown file below root, in order. Hidden directories and testdata are not looked into.
func documents(root string) (all []document, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(entry.Name(), ".") && path != root
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (hidden || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path, err = filepath.Rel(root, path)
		all = append(all, parse(filepath.ToSlash(path), string(content)))
		return err
	})
	return all, err
}

// parse finds the code in a document.
func parse(path, markdown string) document {
	return document{path, snippetsIn(markdown), rowsIn(markdown)}
}

// fence is a line that begins a fenced block, or ends one: indent, marks, language, source.
var fence = regexp.MustCompile("^( *)(```+|~~~+) *([^ `]*) *([^ `]*)")

// snippetsIn returns what stands in fences marked as Go.
func snippetsIn(markdown string) (all []snippet) {
	var open []string // the fence we are in
	for i, line := range strings.Split(markdown, "\n") {
		line = strings.TrimSuffix(line, "\r")
		mark := fence.FindStringSubmatch(line)
		switch {
		case open == nil && mark != nil:
			open = mark
			if mark[3] == "go" {
				all = append(all, snippet{line: i + 2, source: mark[4]})
			}
		case open != nil && mark != nil && strings.HasPrefix(mark[2], open[2]) && strings.TrimSpace(line) == mark[2]:
			open = nil
		case open != nil && open[3] == "go":
			indent := len(line) - len(strings.TrimLeft(line, " "))
			all[len(all)-1].code += line[min(indent, len(open[1])):] + "\n"
		}
	}
	return all
}

var (
	linked = regexp.MustCompile(`^\| *\[[^]]*\]\(([^)]+\.go)\)[^|]*\|([^|]*)\|`)
	code   = regexp.MustCompile("`[^`]+`")
)

// rowsIn returns the rows of tables that quote a Go file.
func rowsIn(markdown string) (all []row) {
	for i, line := range strings.Split(markdown, "\n") {
		if cells := linked.FindStringSubmatch(line); cells != nil {
			r := row{line: i + 1, source: cells[1]}
			for _, quoted := range code.FindAllString(cells[2], -1) {
				r.codes = append(r.codes, strings.Trim(quoted, "`"))
			}
			all = append(all, r)
		}
	}
	return all
}
