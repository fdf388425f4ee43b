// Package reloadprom exports the series of package reload to Prometheus.
//
//	err := reloadprom.Register(prometheus.DefaultRegisterer)
//
// Whatever has counted with [reload.DefaultMetrics], as every Reloader does unless told otherwise, is exported with the
// label component: apoxy_tls_cert_reloads_total, apoxy_tls_cert_expiry_seconds and the others whose names are constants
// here. What each means, and what to do about it, is in docs/operations.md of the repository; alert rules and a dashboard are
// beside it.
package reloadprom
