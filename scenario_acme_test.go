package reload_test

// scenario_acme_test.go has what is special about the clients that fetch certificates.

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("A certificate", Label("fs"), func() {
	var dir string
	BeforeEach(func() { dir = GinkgoT().TempDir() })

	// rotate replaces the files the way r does, and calls at before the step whose name begins with verb.
	rotate := func(r reloadtest.Rotator, g gen, after string, do func()) {
		GinkgoHelper()
		Expect(r.Write(dir, g.files, func(step string) error {
			if strings.HasPrefix(step, after) {
				do()
			}
			return nil
		})).To(Succeed())
	}
	lineage := func(name string) string { return filepath.Join(dir, "live", "localhost", name+".pem") }

	It("of certbot that keeps its key goes live with the chain.pem of its generation", func(ctx SpecContext) {
		certbot := reloadtest.Certbot()
		first := newChained(reloadtest.Options{})
		Expect(certbot.Write(dir, first.files, nil)).To(Succeed())
		s := watch(ctx, reload.Paths{Cert: lineage("cert"), Key: lineage("privkey"), CA: lineage("chain")}).calmly()
		for range 3 {
			next := newChained(reloadtest.Options{Signer: first.Key})
			rotate(certbot, next, "link cert.pem", func() { s.hint(ctx) })
			s.swapsTo(ctx, next.split())
		}
	}, atMost)

	It("of certbot whose archive is touched is no event", func(ctx SpecContext) {
		certbot := reloadtest.Certbot()
		old, g := newGen().withoutCA(), newGen().withoutCA()
		Expect(certbot.Write(dir, old.files, nil)).To(Succeed())
		s := watch(ctx, reload.Paths{Cert: lineage("fullchain"), Key: lineage("privkey")}).calmly()
		Expect(certbot.Write(dir, g.files, nil)).To(Succeed())
		s.swapsTo(ctx, g)

		before := time.Now()
		archived := filepath.Join(dir, "archive", "localhost")
		Expect(os.Chmod(filepath.Join(archived, "fullchain1.pem"), 0o600)).To(Succeed())
		Expect(os.Remove(filepath.Join(archived, "privkey1.pem"))).To(Succeed())
		Expect(os.Chmod(filepath.Join(archived, "fullchain2.pem"), 0o600)).To(Succeed())
		s.looks(ctx, before)
		s.stays(ctx, g)
	}, atMost)

	DescribeTable("that waits for its key, or for which a key waits, is held back without a complaint",
		func(ctx SpecContext, r reloadtest.Rotator, after string) {
			old, fresh := newGen(), newGen()
			Expect(r.Write(dir, old.files, nil)).To(Succeed())
			cert, key, ca := r.Paths(dir)
			s := watch(ctx, reload.Paths{Cert: cert, Key: key, CA: ca}).calmly()
			rotate(r, fresh, after, func() {
				Eventually(ctx, func() error { return s.Status().Pending }).Should(MatchError(reload.ErrKeyMismatch))
				s.keeps(old.asBy(r))
				Expect(s.Check(nil)).To(Succeed())
			})
			s.swapsTo(ctx, fresh.asBy(r))
		},
		Entry("lego", reloadtest.Lego(), "write localhost.issuer.crt", atMost),
		Entry("acme.sh", reloadtest.AcmeSh(), "append fullchain.pem", atMost),
		Entry("step ca rekey", reloadtest.StepCA(), "write svc.crt", atMost),
		Entry("spiffe-helper", reloadtest.SpiffeHelper(), "write svid.pem", atMost),
		Entry("vault agent", reloadtest.VaultAgent(), "rename tls.crt", atMost),
		Entry("ansible, key first", reloadtest.Ansible(), "rename server-key.pem", atMost),
		Entry("certbot", reloadtest.Certbot(), "link privkey.pem", atMost),
	)

	It("that comes seconds after its key goes live then, and the wait costs one warning", func(ctx SpecContext) {
		ansible := reloadtest.Ansible()
		old, fresh := newGen(), newGen()
		Expect(ansible.Write(dir, old.files, nil)).To(Succeed())
		cert, key, ca := ansible.Paths(dir)
		s := watch(ctx, reload.Paths{Cert: cert, Key: key, CA: ca})
		rotate(ansible, fresh, "chmod server-key.pem", func() {
			Eventually(ctx, s.warnings).ShouldNot(BeEmpty())
			s.keeps(old)
		})
		s.swapsTo(ctx, fresh)
		Expect(s.warnings()).To(ConsistOf("reload failed, keeping previous keypair"))
		Expect(s.tally.failures()).To(Equal(1))
	}, atMost)

	It("of step, renewed with its key, goes live alone", func(ctx SpecContext) {
		step := reloadtest.StepCA()
		old := newGen().withoutCA()
		Expect(step.Write(dir, old.files, nil)).To(Succeed())
		cert, key, _ := step.Paths(dir)
		s := watch(ctx, reload.Paths{Cert: cert, Key: key}).calmly()
		fresh := old.sameKey().withoutCA()
		Expect(step.Write(dir, fresh.files, nil)).To(Succeed())
		s.swapsTo(ctx, fresh)
	}, atMost)

	It("of acme.sh to which its chain is appended goes live with it", func(ctx SpecContext) {
		acme := reloadtest.AcmeSh()
		old := newGen().withoutCA()
		Expect(acme.Write(dir, old.files, nil)).To(Succeed())
		cert, key, _ := acme.Paths(dir)
		s := watch(ctx, reload.Paths{Cert: cert, Key: key}).calmly()
		fresh := old.sameKey().withoutCA()
		rotate(acme, fresh, "write fullchain.pem", func() {
			s.hint(ctx) // a leaf alone, valid, with the right key
			s.keeps(old)
		})
		s.swapsTo(ctx, fresh)
	}, atMost)
})

// newChained is a generation whose CA file is its intermediate alone.
func newChained(o reloadtest.Options) gen {
	above := reloadtest.NewCA(reloadtest.Options{}).Intermediate(reloadtest.Options{})
	return genOf(above.Issue(o), above)
}

// split is g as certbot's cert.pem and chain.pem have it: the leaf alone, and the rest as a CA file.
func (g gen) split() gen {
	leaf := *g.Keypair
	leaf.Chain = leaf.Chain[:1]
	return gen{&leaf, g.files, g.cas}
}
