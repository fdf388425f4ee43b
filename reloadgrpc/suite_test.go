package reloadgrpc_test

// suite_test.go runs the specs, leaves no goroutine behind, and gives fake time to those that ask for it.

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"
)

var suite *testing.T // synctest.Test needs the real one

func TestReloadgrpc(t *testing.T) {
	suite = t
	RegisterFailHandler(Fail)
	specs, report := GinkgoConfiguration()
	specs.RandomizeAllSpecs = true
	specs.FailOnPending = true
	specs.FailOnEmpty = true
	RunSpecs(t, "reloadgrpc", specs, report)
}

var _ = BeforeSuite(func() { gleak.IgnoreGinkgoParallelClient() })

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	DeferCleanup(func(ctx SpecContext) {
		Eventually(ctx, gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before))
	}, NodeTimeout(20*time.Second))
})

// inBubble runs one It with fake time; every goroutine it starts must end with it.
var inBubble = AroundNode(func(spec context.Context, body func(context.Context)) {
	synctest.Test(suite, func(t *testing.T) {
		defer GinkgoRecover()
		body(bubbleContext{t.Context(), spec})
	})
})

// bubbleContext ends with the bubble yet still identifies the spec to Ginkgo.
type bubbleContext struct {
	context.Context
	spec context.Context
}

func (c bubbleContext) Value(key any) any { return c.spec.Value(key) }

// pass lets d of fake time go by and everything due in it finish.
func pass(d time.Duration) { time.Sleep(d); synctest.Wait() }
