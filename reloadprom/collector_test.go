package reloadprom_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadprom"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("Register", func() {
	It("registers with any number of registries, and twice with one", func() {
		for _, reg := range []prometheus.Registerer{prometheus.DefaultRegisterer, prometheus.NewRegistry(), prometheus.NewPedanticRegistry()} {
			Expect(reloadprom.Register(reg)).To(Succeed())
			Expect(reloadprom.Register(reg)).To(Succeed())
		}
		reload.DefaultMetrics("registered")
		Expect(testutil.GatherAndCount(prometheus.DefaultGatherer, "apoxy_tls_cert_reloads_total")).To(BeNumerically(">=", 2))
	})

	It("registers another namespace beside the first", func() {
		reg := prometheus.NewPedanticRegistry()
		Expect(reloadprom.Register(reg)).To(Succeed())
		Expect(reloadprom.Collector{Namespace: "edge"}.Register(reg)).To(Succeed())
		Expect(reloadprom.Collector{Namespace: "edge"}.Register(reg)).To(Succeed())
		reload.DefaultMetrics("namespaced")
		for _, namespace := range []string{"apoxy", "edge"} {
			Expect(testutil.GatherAndCount(reg, namespace+"_"+reloadprom.Pending)).To(BeNumerically(">=", 1))
		}
	})

	It("fails where somebody else has taken a name", func() {
		reg := prometheus.NewRegistry()
		theirs := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apoxy_" + reloadprom.Reloads, Help: "Another."}, []string{"component", "result"})
		Expect(reg.Register(theirs)).To(Succeed())
		Expect(reloadprom.Register(reg)).To(MatchError(ContainSubstring("apoxy_tls_cert_reloads_total")))
	})

	It("fails where somebody else has registered just the same", func() {
		reg := prometheus.NewRegistry()
		Expect(reg.Register(impostor{})).To(Succeed())
		Expect(reloadprom.Register(reg)).To(BeAssignableToTypeOf(prometheus.AlreadyRegisteredError{}))
	})
})

var _ = Describe("Collector", func() {
	It("passes the linter of Prometheus", func() {
		m := reload.DefaultMetrics("linted")
		m.ReloadAttempt(true)
		m.SetExpiry(time.Now().Add(time.Hour))
		Expect(testutil.CollectAndLint(reloadprom.Collector{})).To(BeEmpty())
	})

	It("has help texts and types", func() {
		reload.DefaultMetrics("helped").ReloadAttempt(true)
		page := scrape(context.Background(), handler())
		Expect(page).To(ContainSubstring("# HELP apoxy_tls_cert_reloads_total " + reloadprom.ReloadsHelp + "\n# TYPE apoxy_tls_cert_reloads_total counter\n"))
		Expect(page).To(ContainSubstring("# HELP apoxy_tls_cert_pending " + reloadprom.PendingHelp + "\n# TYPE apoxy_tls_cert_pending gauge\n"))
	})

	It("has both results from zero on, and no time that is not known", func() {
		reload.DefaultMetrics("new")
		Expect(series(scrape(context.Background(), handler()), "new")).To(Equal(map[string]string{
			`reloads_total{component="new",result="success"}`: "0",
			`reloads_total{component="new",result="failure"}`: "0",
			`pending{component="new"}`:                        "0",
			`degraded{component="new"}`:                       "0",
		}))
	})

	It("takes any component", func() {
		reload.DefaultMetrics("odd \xff \"\n\\")
		Expect(scrape(context.Background(), handler())).To(ContainSubstring(`component="odd � \"\n\\"`))
	})

	It("shows a rotation, a failure, its recovery and the end of a Reloader to who scrapes it", func(ctx SpecContext) {
		const name = "scraped"
		dir := GinkgoT().TempDir()
		ca := reloadtest.NewCA(reloadtest.Options{})
		volume, err := reloadtest.NewKubelet(dir, ca.Issue(reloadtest.Options{}).Files(ca))
		Expect(err).NotTo(HaveOccurred())
		r, err := reload.NewReloader(reload.FromDir(dir), name)
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- r.Start(running) }()

		server := httptest.NewServer(handler())
		defer server.Close()
		page := func() map[string]string { return series(get(ctx, server), name) }
		seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.Unix()), 'g', -1, 64) }
		is := func(succeeded, failed, pending int) types.GomegaMatcher {
			b := r.Bundle()
			return And(
				HaveKeyWithValue(`reloads_total{component="scraped",result="success"}`, fmt.Sprint(succeeded)),
				HaveKeyWithValue(`reloads_total{component="scraped",result="failure"}`, fmt.Sprint(failed)),
				HaveKeyWithValue(`expiry_seconds{component="scraped"}`, seconds(b.NotAfter)),
				HaveKeyWithValue(`not_before_timestamp_seconds{component="scraped"}`, seconds(b.NotBefore)),
				HaveKeyWithValue(`pending{component="scraped"}`, fmt.Sprint(pending)),
				HaveKeyWithValue(`degraded{component="scraped"}`, "0"),
			)
		}
		Eventually(ctx, page).Should(is(1, 0, 0))

		next := ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(72 * time.Hour)})
		Expect(volume.Update(next.Files(ca))).To(Succeed())
		Eventually(ctx, func() string { return r.Bundle().Fingerprint }).Should(Equal(next.Fingerprint()))
		Expect(page()).To(is(2, 0, 0))

		broken := next.Files(ca)
		broken["tls.key"] = ca.Issue(reloadtest.Options{}).KeyPEM
		Expect(volume.Update(broken)).To(Succeed())
		Expect(r.Reload(ctx)).To(MatchError(reload.ErrKeyMismatch))
		Expect(page()).To(is(2, 1, 1))
		Expect(volume.Update(next.Files(ca))).To(Succeed())
		Expect(r.Reload(ctx)).To(Succeed())
		Expect(page()).To(is(2, 1, 0))

		stop()
		Eventually(ctx, ended).Should(Receive(BeNil()))
		Expect(page()).To(And(
			HaveKeyWithValue(`reloads_total{component="scraped",result="success"}`, "2"),
			HaveKey(`last_success_timestamp_seconds{component="scraped"}`),
			Not(HaveKey(`expiry_seconds{component="scraped"}`)),
			HaveKeyWithValue(`pending{component="scraped"}`, "0"),
		))
	}, SpecTimeout(20*time.Second))
})

// impostor describes what a Collector does and is none.
type impostor struct{ prometheus.Collector }

func (impostor) Describe(out chan<- *prometheus.Desc) { reloadprom.Collector{}.Describe(out) }
func (impostor) Collect(chan<- prometheus.Metric)     {}

// handler serves a registry of its own.
func handler() http.Handler {
	GinkgoHelper()
	reg := prometheus.NewPedanticRegistry()
	Expect(reloadprom.Register(reg)).To(Succeed())
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// scrape returns the page of a handler.
func scrape(ctx context.Context, h http.Handler) string {
	GinkgoHelper()
	server := httptest.NewServer(h)
	defer server.Close()
	return get(ctx, server)
}

func get(ctx context.Context, server *httptest.Server) string {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := server.Client().Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	Expect(response).To(HaveHTTPStatus(http.StatusOK))
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return string(body)
}

// series returns the samples of a component, by name without what all names begin with.
func series(page, component string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(page) {
		name, value, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "apoxy_tls_cert_")), " ")
		if strings.Contains(name, `component="`+component+`"`) {
			all[name] = value
		}
	}
	return all
}
