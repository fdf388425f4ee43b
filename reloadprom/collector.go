package reloadprom

// collector.go turns the series of the process into metrics, anew for each scrape.

import (
	"cmp"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed45259946/reload"
)

// DefaultNamespace is what the names of all metrics begin with unless a [Collector] says otherwise.
const DefaultNamespace = "apoxy"

// Names, without namespace, and help texts. Every metric has the label component; Reloads has the label result too, which is
// "success" or "failure". A time is a Unix time in seconds.
const (
	Reloads     = "tls_cert_reloads_total"
	ReloadsHelp = "Reloads of a keypair that succeeded, and distinct faults that kept one from going live."

	Expiry     = "tls_cert_expiry_seconds"
	ExpiryHelp = "NotAfter of the live leaf that expires first, as a Unix time."

	NotBefore     = "tls_cert_not_before_timestamp_seconds"
	NotBeforeHelp = "NotBefore of the live leaf that expires first, as a Unix time."

	LastSuccess     = "tls_cert_last_success_timestamp_seconds"
	LastSuccessHelp = "When a reload last succeeded, as a Unix time."

	Pending     = "tls_cert_pending"
	PendingHelp = "Keypairs whose files on disk are not live."

	Degraded     = "tls_cert_degraded"
	DegradedHelp = "Keypairs whose files may change without being noticed at once, or at all."
)

// Collector is a [prometheus.Collector] of everything that [reload.AllSeries] has. It keeps nothing itself, so that any
// number of registries may have one. The zero Collector is ready to use.
type Collector struct {
	// Namespace is what the names begin with; empty is [DefaultNamespace].
	Namespace string
}

// Register registers the zero [Collector] with reg, such as [prometheus.DefaultRegisterer] or the registry of
// controller-runtime. It is no error if reg has one already.
func Register(reg prometheus.Registerer) error { return Collector{}.Register(reg) }

// Register registers c with reg. It is no error if reg has one of the same namespace already; it is one if some other
// collector has taken a name.
func (c Collector) Register(reg prometheus.Registerer) error {
	err := reg.Register(c)
	var taken prometheus.AlreadyRegisteredError
	if errors.As(err, &taken) {
		if _, ours := taken.ExistingCollector.(Collector); ours {
			return nil
		}
	}
	return err
}

// descriptions are the metrics of one collector.
type descriptions struct {
	reloads, expiry, notBefore, lastSuccess, pending, degraded *prometheus.Desc
}

func (c Collector) descriptions() descriptions {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		name = prometheus.BuildFQName(cmp.Or(c.Namespace, DefaultNamespace), "", name)
		return prometheus.NewDesc(name, help, append([]string{"component"}, labels...), nil)
	}
	return descriptions{
		reloads:     describe(Reloads, ReloadsHelp, "result"),
		expiry:      describe(Expiry, ExpiryHelp),
		notBefore:   describe(NotBefore, NotBeforeHelp),
		lastSuccess: describe(LastSuccess, LastSuccessHelp),
		pending:     describe(Pending, PendingHelp),
		degraded:    describe(Degraded, DegradedHelp),
	}
}

// Describe implements [prometheus.Collector].
func (c Collector) Describe(out chan<- *prometheus.Desc) {
	d := c.descriptions()
	for _, desc := range []*prometheus.Desc{d.reloads, d.expiry, d.notBefore, d.lastSuccess, d.pending, d.degraded} {
		out <- desc
	}
}

// Collect implements [prometheus.Collector]. A time that is not known is left out: zero would be 1970, long expired.
func (c Collector) Collect(out chan<- prometheus.Metric) {
	d := c.descriptions()
	for _, s := range reload.AllSeries() {
		count := func(n uint64, result string) {
			out <- prometheus.MustNewConstMetric(d.reloads, prometheus.CounterValue, float64(n), s.Component, result)
		}
		gauge := func(desc *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, s.Component)
		}
		moment := func(desc *prometheus.Desc, t time.Time) {
			if !t.IsZero() {
				gauge(desc, float64(t.UnixMilli())/1000)
			}
		}
		count(s.Succeeded, "success")
		count(s.Failed, "failure")
		moment(d.expiry, s.NotAfter)
		moment(d.notBefore, s.NotBefore)
		moment(d.lastSuccess, s.LastSuccess)
		gauge(d.pending, float64(s.Pending))
		gauge(d.degraded, float64(s.Degraded))
	}
}
