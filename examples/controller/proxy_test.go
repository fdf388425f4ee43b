package main

// proxy_test.go has a Secret whose mount lags behind.

import (
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
)

var _ = Describe("the proxy", func() {
	// series returns what has been counted of its identity in this process.
	series := func() reload.Series {
		for _, s := range reload.AllSeries() {
			if s.Component == "proxy" {
				return s
			}
		}
		return reload.Series{}
	}
	pending := func() int { return series().Pending }

	It("begins with the Secret, is not swapped back by an older mount, and follows it once it changes", func(ctx SpecContext) {
		w, s := newSettings() // the Secret is at 2, its mount at 1
		before := series().Succeeded
		start(ctx, s)
		identity := visitorFrom(w.ca, w).page(ctx, "http://"+s.proxy.Addr().String())
		Eventually(ctx, pending).Should(Equal(1)) // the mount has been looked at
		Expect(identity()).To(Equal("proxy-2"))

		Expect(w.rotate()).To(Succeed()) // the mount is at 2
		Eventually(ctx, pending).Should(BeZero())
		Expect(identity()).To(Equal("proxy-2"))
		Expect(series().Succeeded).To(Equal(before))

		Expect(w.rotate()).To(Succeed()) // at 3
		Eventually(ctx, identity).Should(Equal("proxy-3"))
		Expect(series().Succeeded).To(Equal(before + 1))
	}, SpecTimeout(limit))

	It("follows a mount back, once it changes", func(ctx SpecContext) {
		w, s := newSettings()
		start(ctx, s)
		identity := visitorFrom(w.ca, w).page(ctx, "http://"+s.proxy.Addr().String())
		Eventually(ctx, pending).Should(Equal(1))
		Expect(w.proxy.Update(w.issue(proxyMount, 0))).To(Succeed())
		Eventually(ctx, identity).Should(Equal("proxy-0"))
	}, SpecTimeout(limit))

	It("keeps what is in the Secret where that is not mounted", func(ctx SpecContext) {
		w, s := newSettings()
		Expect(os.RemoveAll(w.proxy.Dir)).To(Succeed())
		start(ctx, s)
		Expect(visitorFrom(w.ca, w).page(ctx, "http://"+s.proxy.Addr().String())()).To(Equal("proxy-2"))
	}, SpecTimeout(limit))
})
