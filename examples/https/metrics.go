package main

// metrics.go shows what the library counts, to Prometheus and to people, without a framework.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seed45259946/reload"
)

// writeMetrics writes the series of the process in Prometheus' text format.
func writeMetrics(w http.ResponseWriter) {
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

// writeStatus writes the state of the keypair as JSON.
func writeStatus(w http.ResponseWriter, s reload.Status) {
	var pending string
	if s.Pending != nil {
		pending = s.Pending.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(struct {
		Generation   uint64    `json:"generation"`
		Fingerprint  string    `json:"fingerprint"`
		NotAfter     time.Time `json:"not_after,omitzero"`
		LastSwap     time.Time `json:"last_swap,omitzero"`
		LastLook     time.Time `json:"last_look,omitzero"`
		Pending      string    `json:"pending,omitempty"`
		PendingSince time.Time `json:"pending_since,omitzero"`
		Degraded     string    `json:"degraded,omitempty"`
		OverlapUntil time.Time `json:"overlap_until,omitzero"`
	}{s.Generation, s.Fingerprint, s.NotAfter, s.LastSwap, s.LastLook, pending, s.PendingSince, s.Degraded, s.OverlapUntil})
}
