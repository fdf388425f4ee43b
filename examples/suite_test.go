// Package examples_test checks that the Go snippets in the documents of the repository compile.
package examples_test

// suite_test.go runs the specs.

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestSnippets(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "snippets")
}
