package reload_test

// scenario_kubelet_test.go has the volumes of Kubernetes: Secret, ConfigMap, projected, and CSI drivers that copy them.

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("A kubelet volume", Label("fs"), func() {
	var dir string
	BeforeEach(func() { dir = filepath.Join(GinkgoT().TempDir(), "tls") })

	volume := func(g gen) *reloadtest.Kubelet {
		GinkgoHelper()
		k, err := reloadtest.NewKubelet(dir, g.files)
		Expect(err).NotTo(HaveOccurred())
		return k
	}
	It("that swaps ..data goes live without settling, the fourth time like the first", func(ctx SpecContext) {
		k := volume(newGen())
		s := watch(ctx, reload.FromDir(dir), hardlySettles).calmly()
		for _, g := range newGens(3) {
			Expect(k.Update(g.files)).To(Succeed())
			s.swapsAtOnceTo(ctx, g)
		}
	}, atMost)

	It("that is chowned before the swap, for an fsGroup, is looked at and not published", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		k := volume(old)
		k.FSGroup = true
		s := watch(ctx, reload.FromDir(dir), hardlySettles).calmly()
		before := time.Now()
		k.Step = func(step string) error {
			if step == reloadtest.StepFSGroup {
				s.looks(ctx, before)
				s.keeps(old)
			}
			return nil
		}
		Expect(k.Update(fresh.files)).To(Succeed())
		s.swapsAtOnceTo(ctx, fresh)
	}, atMost)

	It("that gets ca.crt goes live with it; that loses it keeps it, and says so", func(ctx SpecContext) {
		fresh, last := newGen(), newGen()
		k := volume(newGen().withoutCA())
		s := watch(ctx, reload.FromDir(dir))
		Expect(k.Update(fresh.files)).To(Succeed())
		s.swapsTo(ctx, fresh)

		Expect(k.Update(last.withoutCA().files)).To(Succeed())
		Eventually(ctx, func() error { return s.Status().Pending }).Should(MatchError(os.ErrNotExist))
		Expect(s.Reload(ctx)).To(MatchError(ContainSubstring("trust roots: open " + filepath.Join(dir, "ca.crt"))))
		s.keeps(fresh)

		Expect(k.Update(last.files)).To(Succeed())
		s.swapsTo(ctx, last)
	}, atMost)

	It("that first shows ca.crt a while after the swap goes live with it", func(ctx SpecContext) {
		fresh := newGen()
		k := volume(newGen().withoutCA())
		s := watch(ctx, reload.FromDir(dir)).calmly()
		k.Step = func(step string) error {
			if step == reloadtest.StepSwap {
				s.hint(ctx)
			}
			return nil
		}
		Expect(k.Update(fresh.files)).To(Succeed())
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("of a Windows node, without ..data for a moment, goes live once", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		k := volume(old)
		k.Windows = true
		s := watch(ctx, reload.FromDir(dir)).calmly()
		k.Step = func(step string) error {
			if step == reloadtest.StepUnswap {
				Eventually(ctx, func() error { return s.Status().Pending }).Should(MatchError(os.ErrNotExist))
				s.keeps(old)
			}
			return nil
		}
		Expect(k.Update(fresh.files)).To(Succeed())
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("with the same payload is no event", func(ctx SpecContext) {
		g := newGen()
		k := volume(g)
		s := watch(ctx, reload.FromDir(dir)).calmly()
		Expect(k.Update(g.files)).To(Succeed())
		s.stays(ctx, g)
	}, atMost)

	It("that is killed between two steps goes live with the next update", func(ctx SpecContext) {
		old := newGen()
		k := volume(old)
		s := watch(ctx, reload.FromDir(dir)).calmly()
		for _, last := range []string{
			reloadtest.StepMkdir, reloadtest.StepPayload, reloadtest.StepTempRef, reloadtest.StepSwap,
		} {
			fresh, killed := newGen(), newGen()
			k.Step = func(step string) error {
				if step == last {
					return os.ErrDeadlineExceeded
				}
				return nil
			}
			Expect(k.Update(killed.files)).NotTo(Succeed())
			if last == reloadtest.StepSwap {
				s.swapsTo(ctx, killed)
			}
			k.Step = nil
			Expect(k.Update(fresh.files)).To(Succeed())
			s.swapsTo(ctx, fresh)
		}
	}, atMost)

	It("swapped back to back is never seen torn, and the last swap wins", func(ctx SpecContext) {
		gens := newGens(20)
		byLeaf := map[string]gen{}
		for _, g := range gens {
			byLeaf[g.Fingerprint()] = g
		}
		k := volume(gens[0])
		s := watch(ctx, reload.FromDir(dir)).calmly()
		const swaps = 60
		for i := range swaps {
			Expect(k.Update(gens[i%(len(gens)-1)].files)).To(Succeed())
			if chain := handshake(s.GetCertificate); i%10 == 0 {
				Expect(chain).To(HaveLen(2))
			}
		}
		last := gens[len(gens)-1]
		Expect(k.Update(last.files)).To(Succeed())
		for done := false; !done; {
			var b *reload.Bundle
			Eventually(ctx, s.swaps).Should(Receive(&b))
			Expect(b).To(beWhole(byLeaf[b.Fingerprint]))
			s.count++
			done = last.is(b)
		}
		s.stays(ctx, last)
	}, atMost)

	It("for the keypair and another for the CA are two swaps, each to files that were there together", func(ctx SpecContext) {
		old, fresh := newGen(), newGen()
		other := filepath.Join(GinkgoT().TempDir(), "ca")
		pair := volume(old.withoutCA())
		ca, err := reloadtest.NewKubelet(other, reloadtest.Files{"ca.crt": old.files["ca.crt"]})
		Expect(err).NotTo(HaveOccurred())
		p := reload.FromDir(dir)
		p.CA = filepath.Join(other, "ca.crt")
		s := watch(ctx, p).calmly()

		mixed := genOf(fresh.Keypair, old.cas...)
		Expect(pair.Update(fresh.withoutCA().files)).To(Succeed())
		s.swapsTo(ctx, mixed)
		Expect(ca.Update(reloadtest.Files{"ca.crt": fresh.files["ca.crt"]})).To(Succeed())
		s.swapsTo(ctx, fresh)

		last := newGen() // both at once
		Expect(pair.Update(last.withoutCA().files)).To(Succeed())
		Expect(ca.Update(reloadtest.Files{"ca.crt": last.files["ca.crt"]})).To(Succeed())
		s.swapsTo(ctx, last)
	}, atMost)
})
