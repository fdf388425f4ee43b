//go:build linux

package chaos_test

// suite_test.go runs the suite, in a process with mounts and limits of its own, for as long as it is asked to.

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// shortRun is how long the storm lasts unless RELOAD_CHAOS says otherwise.
const shortRun = 12 * time.Second

// howLong returns how long the storm is to last, and whether that is the long mode.
func howLong() (d time.Duration, long bool) {
	d, err := time.ParseDuration(os.Getenv("RELOAD_CHAOS"))
	if err != nil {
		return shortRun, false
	}
	return d, true
}

func TestMain(m *testing.M) { os.Exit(inside(m.Run)) }

func TestChaos(t *testing.T) {
	RegisterFailHandler(Fail)
	specs, report := GinkgoConfiguration()
	specs.RandomizeAllSpecs = true
	specs.FailOnPending = true
	specs.FailOnEmpty = true
	specs.Timeout = limit() + time.Minute
	RunSpecs(t, "chaos", specs, report)
}

// limit is when the spec is given up. Whatever waits in it has bounds of its own, which are to strike first.
func limit() time.Duration {
	d, _ := howLong()
	return 2*d + 10*time.Minute
}
