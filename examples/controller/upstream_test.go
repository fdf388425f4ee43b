package main

// upstream_test.go rotates both ends of the connection to the API server.

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("the client of the API server", func() {
	It("has the new identity and the new roots at once, while a watch goes on", func(ctx SpecContext) {
		w, s := newSettings()
		r := start(ctx, s)
		Expect(r.client.whoAmI(ctx)).To(Equal("upstream-1"))
		open, err := r.client.watchSecrets(ctx, "default")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(open.Stop)
		// seen receives an event, and returns who watches and what the Secret is.
		seen := func() (string, string) {
			GinkgoHelper()
			var event watch.Event
			Eventually(ctx, open.ResultChan()).Should(Receive(&event))
			secret, ok := event.Object.(*corev1.Secret)
			Expect(ok).To(BeTrue(), "%T", event.Object)
			return secret.Labels[watcherLabel], string(secret.Data[reload.SecretCertFile])
		}
		who, _ := seen()
		Expect(who).To(Equal("upstream-1"))

		// Nobody trusts the first CA any more, on either side.
		w.ca = reloadtest.NewCA(reloadtest.Options{})
		Expect(w.cluster.present(w.issue("api", 2))).To(Succeed())
		Expect(w.upstream.Update(w.issue(upstreamMount, 2))).To(Succeed())
		Expect(r.upstream.Reload(ctx)).To(Succeed())
		Expect(r.client.whoAmI(ctx)).To(Equal("upstream-2"))

		next := w.issue(proxyMount, 3)
		w.cluster.put(next)
		who, cert := seen()
		Expect(who).To(Equal("upstream-1"))
		Expect(cert).To(Equal(string(next[reload.SecretCertFile])))
	}, SpecTimeout(limit))

	DescribeTable("goes to the host it is told, over TLS where that says so",
		func(in rest.Config, host string) {
			w, _ := newSettings()
			identity, err := reload.NewReloader(reload.FromDir(w.upstream.Dir), "upstream")
			Expect(err).NotTo(HaveOccurred())
			out, err := follow(&in, identity)
			Expect(err).NotTo(HaveOccurred())
			Expect(out.Host).To(Equal(host))
			Expect(out.BearerToken).To(Equal(in.BearerToken))
			_, err = newClient(out)
			Expect(err).NotTo(HaveOccurred())
		},
		Entry("with a scheme", rest.Config{Host: "https://10.0.0.1:6443", BearerToken: "t"}, "https://10.0.0.1:6443"),
		Entry("without, and TLS files", rest.Config{Host: "10.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAFile: "ca"}}, "https://10.0.0.1:6443"),
	)
})
