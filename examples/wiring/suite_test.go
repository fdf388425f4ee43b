package wiring_test

// suite_test.go runs the specs, and has the rotation that all of them are about.

import (
	"log/slog"
	"testing"
	"time"

	ginmode "github.com/gin-gonic/gin"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9/logging"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

const limit = 2 * time.Minute // of a spec, on a machine with other things to do

func TestWiring(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(limit)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ginmode.SetMode(ginmode.ReleaseMode)
	logging.Disable()
	RunSpecs(t, "wiring")
}

// rotation is a Reloader on files that are replaced once, all of them: the leaf, its key, and the CA file.
type rotation struct {
	*reload.Reloader
	cas    [2]*reloadtest.CA // before and after
	leaves [2]*reloadtest.Keypair
	volume *reloadtest.Kubelet
}

func newRotation() *rotation {
	GinkgoHelper()
	o := &rotation{}
	for i := range o.cas {
		o.cas[i] = reloadtest.NewCA(reloadtest.Options{})
		o.leaves[i] = o.cas[i].Issue(reloadtest.Options{})
	}
	var err error
	o.volume, err = reloadtest.NewKubelet(GinkgoT().TempDir(), o.leaves[0].Files(o.cas[0]))
	Expect(err).NotTo(HaveOccurred())
	o.Reloader, err = reload.NewReloader(reload.FromDir(o.volume.Dir), "wiring")
	Expect(err).NotTo(HaveOccurred())
	return o
}

// rotate returns when the second generation is live.
func (o *rotation) rotate(ctx SpecContext) {
	GinkgoHelper()
	Expect(o.volume.Update(o.leaves[1].Files(o.cas[1]))).To(Succeed())
	Expect(o.Reload(ctx)).To(Succeed())
}
