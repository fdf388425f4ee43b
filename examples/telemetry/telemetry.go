// Package telemetry shows how to export the series of package reload to OpenTelemetry: one callback, to be copied.
package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed45259946/reload"
)

// Register has meter observe reloads and expiry of every component, until the registration is unregistered.
func Register(meter metric.Meter) (metric.Registration, error) {
	reloads, err := meter.Int64ObservableCounter("apoxy.tls.cert.reloads",
		metric.WithUnit("{reload}"), metric.WithDescription("Reloads of a keypair, by result."))
	if err != nil {
		return nil, err
	}
	expiry, err := meter.Int64ObservableGauge("apoxy.tls.cert.expiry",
		metric.WithUnit("s"), metric.WithDescription("When the live leaf expires, as a Unix time."))
	if err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, s := range reload.AllSeries() {
			component, result := attribute.Key("component").String(s.Component), attribute.Key("result")
			o.ObserveInt64(reloads, int64(s.Succeeded), metric.WithAttributes(component, result.String("success")))
			o.ObserveInt64(reloads, int64(s.Failed), metric.WithAttributes(component, result.String("failure")))
			if !s.NotAfter.IsZero() {
				o.ObserveInt64(expiry, s.NotAfter.Unix(), metric.WithAttributes(component))
			}
		}
		return nil
	}, reloads, expiry)
}
