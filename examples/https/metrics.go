package main

// metrics.go shows Prometheus what the library counts, without a framework.

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/seed45259946/reload"
)

// serveMetrics writes the series of the process in Prometheus' text format.
func serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	all, escape := reload.AllSeries(), strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace

	const reloads = "apoxy_tls_cert_reloads_total"
	fmt.Fprintf(w, "# HELP %s Reloads of a keypair.\n# TYPE %[1]s counter\n", reloads)
	for _, s := range all {
		fmt.Fprintf(w, "%s{component=\"%s\",result=\"success\"} %d\n", reloads, escape(s.Component), s.Succeeded)
		fmt.Fprintf(w, "%s{component=\"%s\",result=\"failure\"} %d\n", reloads, escape(s.Component), s.Failed)
	}
	const expiry = "apoxy_tls_cert_expiry_seconds"
	fmt.Fprintf(w, "# HELP %s When the live leaf expires, as a Unix time.\n# TYPE %[1]s gauge\n", expiry)
	for _, s := range all {
		if !s.NotAfter.IsZero() {
			fmt.Fprintf(w, "%s{component=\"%s\"} %d\n", expiry, escape(s.Component), s.NotAfter.Unix())
		}
	}
}
