package main

// manager_test.go looks at the servers of a manager from outside.

import (
	"net/http"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/client-go/rest"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("a manager", func() {
	It("shows webhooks and metrics the live leaf, also to clients that keep their connections", func(ctx SpecContext) {
		w, s := newSettings()
		start(ctx, s)
		v := visitorFrom(w.ca, w)
		review := `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}`
		hook := func() (string, error) {
			leaf, page, err := v.get(ctx, http.MethodPost, "https://"+hookAddress(s)+"/admit", review)
			Expect(page).To(ContainSubstring(`"allowed":true`))
			return leaf, err
		}
		metrics := v.leaf(ctx, "https://"+s.manager.Metrics.BindAddress+"/metrics")
		Expect(hook()).To(Equal("serving-1"))
		Expect(metrics()).To(Equal("serving-1"))

		Expect(w.rotate()).To(Succeed())
		Eventually(ctx, hook).Should(Equal("serving-2"))
		Eventually(ctx, metrics).Should(Equal("serving-2"))
	}, SpecTimeout(limit))

	It("is rid of the clients of a CA that was withdrawn", func(ctx SpecContext) {
		w, s := newSettings()
		start(ctx, s)
		url := "https://" + s.manager.Metrics.BindAddress + "/metrics"
		old := visitorFrom(w.ca, w).status(ctx, url)
		Expect(old()).To(Equal(http.StatusOK))

		ca := reloadtest.NewCA(reloadtest.Options{})
		files := w.issue(servingMount, 2)
		files[reload.SecretCAFile] = ca.PEM()
		Expect(w.serving.Update(files)).To(Succeed())
		Eventually(ctx, visitorFrom(ca, w).status(ctx, url)).Should(Equal(http.StatusOK))
		Expect(old()).To(Equal(http.StatusForbidden)) // on the connection that it has
		_, err := old()
		Expect(err).To(HaveOccurred())
	}, SpecTimeout(limit))

	It("shows a rotation and a failure to whom scrapes it", func(ctx SpecContext) {
		w, s := newSettings()
		start(ctx, s)
		page := visitorFrom(w.ca, w).page(ctx, "https://"+s.manager.Metrics.BindAddress+"/metrics")
		before, err := page()
		Expect(err).NotTo(HaveOccurred())
		// counts matches what has been counted since then, which is by process.
		counts := func(succeeded, failed, pending int) types.GomegaMatcher {
			reloads := func(page, result string) int {
				return sample(page, "tls_cert_reloads_total", "serving", `,result="`+result+`"`)
			}
			return SatisfyAll(
				WithTransform(func(now string) int { return reloads(now, "success") - reloads(before, "success") }, Equal(succeeded)),
				WithTransform(func(now string) int { return reloads(now, "failure") - reloads(before, "failure") }, Equal(failed)),
				WithTransform(func(now string) int { return sample(now, "tls_cert_pending", "serving", "") }, Equal(pending)),
			)
		}
		Expect(before).To(And(counts(0, 0, 0), ContainSubstring("apoxy_tls_cert_expiry_seconds{component=\"serving\"}")))

		Expect(w.rotate()).To(Succeed())
		Eventually(ctx, page).Should(counts(1, 0, 0))

		broken := w.issue(servingMount, 3)
		broken[reload.SecretKeyFile] = w.ca.Issue(reloadtest.Options{}).KeyPEM
		Expect(w.serving.Update(broken)).To(Succeed())
		Eventually(ctx, page).Should(counts(1, 1, 1)) // a failure is counted once it has lasted

		Expect(w.serving.Update(w.issue(servingMount, 4))).To(Succeed())
		Eventually(ctx, page).Should(counts(2, 1, 0))
	}, SpecTimeout(limit))

	It("is not ready while the live leaf has expired", func(ctx SpecContext) {
		w, s := newSettings()
		expired := w.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(-time.Minute)})
		Expect(w.serving.Update(expired.Files(w.ca))).To(Succeed())
		start(ctx, s)
		v := visitorFrom(w.ca, w)
		probes := "http://" + s.manager.HealthProbeBindAddress
		Expect(v.status(ctx, probes+"/readyz/tls")()).To(Equal(http.StatusInternalServerError))
		Expect(v.status(ctx, probes+"/healthz")()).To(Equal(http.StatusOK))

		Expect(w.rotate()).To(Succeed())
		Eventually(ctx, v.status(ctx, probes+"/readyz/tls")).Should(Equal(http.StatusOK))
	}, SpecTimeout(limit))

	It("waits for a keypair instead of showing one of its own", func(ctx SpecContext) {
		w, s := newSettings()
		mount := filepath.Join(w.mounts, "late")
		Expect(os.Mkdir(mount, 0o755)).To(Succeed())
		serving, err := reload.NewReloader(reload.FromDir(mount), "late", func(o *reload.WatchOptions) { o.AwaitFiles = true })
		Expect(err).NotTo(HaveOccurred())
		mgr, err := newManager(&rest.Config{Host: w.cluster.target().String()}, serving, s.hooks, s.manager)
		Expect(err).NotTo(HaveOccurred())
		keep(ctx, mgr.Start)
		awaitServers(ctx, s)
		metrics := visitorFrom(w.ca, w).leaf(ctx, "https://"+s.manager.Metrics.BindAddress+"/metrics")
		_, err = metrics()
		Expect(err).To(MatchError(ContainSubstring("tls: ")))

		_, err = reloadtest.NewKubelet(mount, w.issue("late", 1))
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, metrics).Should(Equal("late-1"))
	}, SpecTimeout(limit))
})
