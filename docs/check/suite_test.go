// Package check_test checks what the pages of docs say that no compiler does: alert rules, dashboard, manifests, and the names
// of metrics and log lines. It is no part of the workspace, since what it compiles takes minutes:
//
//	GOWORK=off go -C docs/check test ./...
package check_test

// suite_test.go runs the specs.

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestDocs(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "docs")
}

// page returns a file of docs. It is called while the tree of specs is built, so it panics.
func page(name string) []byte {
	content, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		panic(err)
	}
	return content
}
