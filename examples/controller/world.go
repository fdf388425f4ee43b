package main

// world.go plays cert-manager and the kubelet: it issues what a replica has mounted, and replaces it.

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/seed45259946/reload/reloadtest"
)

// world is all that is outside of a replica.
type world struct {
	cluster cluster
	outside outside

	ca                       *reloadtest.CA
	mounts                   string
	serving, upstream, proxy *reloadtest.Kubelet
	secret                   reloadtest.Files // what the mount of the Secret will be next: it lags behind

	generation int
	began      time.Time
}

// newWorld makes the first generation of everything, below the directory mounts.
func newWorld(mounts string) (*world, error) {
	w := &world{ca: reloadtest.NewCA(reloadtest.Options{Name: "throw-away CA"}), mounts: mounts, generation: 1, began: time.Now()}
	mount := func(name string) (*reloadtest.Kubelet, error) {
		return reloadtest.NewKubelet(filepath.Join(mounts, name), w.issue(name, 1))
	}
	var errs [3]error
	w.serving, errs[0] = mount(servingMount)
	w.upstream, errs[1] = mount(upstreamMount)
	w.proxy, errs[2] = mount(proxyMount)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	w.secret = w.issue(proxyMount, 2)
	return w, errors.Join(w.cluster.listen(w.issue("api", 1), w.secret), w.outside.listen(&w.outside, w.issue("outside", 1)))
}

// rotate replaces what is mounted. The Secret is one generation ahead of its mount, as while a kubelet has not seen it.
func (w *world) rotate() error {
	w.generation++
	mounted := w.secret
	w.secret = w.issue(proxyMount, w.generation+1)
	w.cluster.put(w.secret)
	return errors.Join(
		w.serving.Update(w.issue(servingMount, w.generation)),
		w.upstream.Update(w.issue(upstreamMount, w.generation)),
		w.proxy.Update(mounted),
	)
}

// issue makes the files of a generation. It was issued later than those before it, by their NotBefore.
func (w *world) issue(name string, generation int) reloadtest.Files {
	return w.ca.Issue(reloadtest.Options{
		Name:      fmt.Sprintf("%s-%d", name, generation),
		NotBefore: w.began.Add(time.Duration(generation)*time.Second - 24*time.Hour),
	}).Files(w.ca)
}

// close ends the servers.
func (w *world) close() error { return errors.Join(w.cluster.close(), w.outside.close()) }
