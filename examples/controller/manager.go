package main

// manager.go gives a manager of controller-runtime its certificate: webhooks, metrics and probes.

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadprom"
)

// newManager makes a manager whose webhook server and metrics server show the live leaf of serving and admit those whom
// its live CA file vouches for. Where they listen, and everything else, is in options.
func newManager(api *rest.Config, serving *reload.Reloader, hooks webhook.Options, options manager.Options) (manager.Manager, error) {
	hooks.TLSOpts = []func(*tls.Config){verifyClients, serving.ConfigureServer}
	options.WebhookServer = webhook.NewServer(hooks)
	options.Metrics.SecureServing = true
	options.Metrics.TLSOpts = []func(*tls.Config){verifyClients, serving.ConfigureServer}
	options.Metrics.FilterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		return func(_ logr.Logger, next http.Handler) (http.Handler, error) { return serving.Drain(next), nil }, nil
	}

	mgr, err := manager.New(api, options)
	if err != nil {
		return nil, err
	}
	mgr.GetWebhookServer().Register("/admit", serving.Drain(&admission.Webhook{Handler: admission.HandlerFunc(admit)}))
	return mgr, errors.Join(
		mgr.Add(serving), // on every replica: a Reloader needs no leader election
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("tls", serving.Check),
		reloadprom.Register(metrics.Registry),
	)
}

// verifyClients has a server ask for a certificate. The CAs that it verifies it against are those of the Reloader.
func verifyClients(config *tls.Config) { config.ClientAuth = tls.RequireAndVerifyClientCert }

// admit allows everything: what a webhook does is not what this is about.
func admit(context.Context, admission.Request) admission.Response { return admission.Allowed("") }
