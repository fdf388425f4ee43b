package telemetry_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/examples/telemetry"
)

func TestTelemetry(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "telemetry")
}

var _ = Describe("Register", func() {
	It("has a reader see counts and expiry, until it is unregistered", func(ctx SpecContext) {
		reader := metric.NewManualReader()
		registration, err := telemetry.Register(metric.NewMeterProvider(metric.WithReader(reader)).Meter("reload"))
		Expect(err).NotTo(HaveOccurred())
		// seen returns one line for each observation.
		seen := func() (lines []string) {
			GinkgoHelper()
			var all metricdata.ResourceMetrics
			Expect(reader.Collect(ctx, &all)).To(Succeed())
			for _, scope := range all.ScopeMetrics {
				for _, m := range scope.Metrics {
					var points []metricdata.DataPoint[int64]
					switch data := m.Data.(type) {
					case metricdata.Sum[int64]:
						Expect(data.IsMonotonic).To(BeTrue())
						points = data.DataPoints
					case metricdata.Gauge[int64]:
						points = data.DataPoints
					}
					for _, p := range points {
						attrs := ""
						for _, attr := range p.Attributes.ToSlice() {
							attrs += " " + attr.Value.AsString()
						}
						lines = append(lines, fmt.Sprint(m.Name, attrs, " ", p.Value))
					}
				}
			}
			return lines
		}

		m := reload.DefaultMetrics("web")
		Expect(seen()).To(ConsistOf("apoxy.tls.cert.reloads web success 0", "apoxy.tls.cert.reloads web failure 0"))
		m.ReloadAttempt(true)
		m.ReloadAttempt(false)
		m.SetExpiry(time.Unix(4102444800, 0))
		Expect(seen()).To(ConsistOf("apoxy.tls.cert.reloads web success 1", "apoxy.tls.cert.reloads web failure 1",
			"apoxy.tls.cert.expiry web 4102444800"))
		Expect(registration.Unregister()).To(Succeed())
		Expect(seen()).To(BeEmpty())
	}, SpecTimeout(10*time.Second))
})
