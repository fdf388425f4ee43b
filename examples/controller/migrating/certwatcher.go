// Package migrating has what docs/migrating.md quotes of controller-runtime: what a program did before, and what it does with
// reload.
package migrating

import (
	"crypto/tls"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/seed45259946/reload"
)

// Certwatcher is the before.
func Certwatcher(dir string) (webhook.Server, manager.Runnable, error) {
	watcher, err := certwatcher.New(dir+"/tls.crt", dir+"/tls.key")
	if err != nil {
		return nil, nil, err
	}
	return webhook.NewServer(webhook.Options{TLSOpts: []func(*tls.Config){
		func(c *tls.Config) { c.GetCertificate = watcher.GetCertificate },
	}}), watcher, nil
}

// Reloader is the after.
func Reloader(dir string) (webhook.Server, manager.Runnable, error) {
	keypair, err := reload.NewReloader(reload.FromDir(dir), "webhook")
	if err != nil {
		return nil, nil, err
	}
	return webhook.NewServer(webhook.Options{TLSOpts: []func(*tls.Config){keypair.ConfigureServer}}), keypair, nil
}
