package reloadprom_test

// suite_test.go runs the specs.

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestReloadprom(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "reloadprom")
}
