// suite_test.go runs the specs of the throw-away CA and the writers.

package reloadtest_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestReloadtest(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "reloadtest")
}
