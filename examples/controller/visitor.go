package main

// visitor.go is the other side of the demonstration: it looks at a replica from all sides, time and again.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/seed45259946/reload/reloadtest"
)

// visitor asks a replica what an API server, a Prometheus and a user of its proxy ask it.
type visitor struct {
	out                  io.Writer
	http                 *http.Client // keeps its connections
	hook, metrics, proxy string       // URLs
	client               client
	watch                watch.Interface
	watching             string // user that the watch is open for
	events               int    // that have come through it

	visited, failed int
}

// newVisitor makes a visitor whom the CA vouches for, and opens a watch with the client of the replica.
func newVisitor(ctx context.Context, w *world, c client, s settings, out io.Writer) (*visitor, error) {
	watch, err := c.watchSecrets(context.WithoutCancel(ctx), s.namespace)
	if err != nil {
		return nil, err
	}
	identity := w.ca.Issue(reloadtest.Options{Name: "visitor"}).TLS()
	v := &visitor{
		out: out, client: c, watch: watch,
		http: &http.Client{Timeout: grace, Transport: &http.Transport{
			ForceAttemptHTTP2: true,
			TLSClientConfig:   &tls.Config{RootCAs: w.ca.Pool(), Certificates: []tls.Certificate{identity}},
		}},
		hook:    "https://" + net.JoinHostPort(s.hooks.Host, strconv.Itoa(s.hooks.Port)) + "/admit",
		metrics: "https://" + s.manager.Metrics.BindAddress + "/metrics",
		proxy:   "http://" + s.proxy.Addr().String(),
	}
	return v, v.hear(<-watch.ResultChan()) // the Secret as it is
}

// visits the replica until ctx is done, or nobody reads what it writes any more. A visit under way is finished.
func (v *visitor) visits(ctx context.Context, pause time.Duration) error {
	defer v.http.CloseIdleConnections()
	next := time.NewTicker(pause)
	defer next.Stop()
	if err := v.print("time", "webhook", "metrics", "reloads", "API server", "open watch", "events", "proxy"); err != nil {
		return err
	}
	begun := time.Now()
	for {
		seen, err := v.visit(context.WithoutCancel(ctx))
		if starting := v.visited == 0 && err != nil && time.Since(begun) < grace; !starting {
			if err := v.show(seen, err); err != nil {
				return err
			}
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// show prints what came of a visit.
func (v *visitor) show(seen []any, err error) error {
	v.visited++
	now := time.Now().Format("15:04:05.000")
	if err != nil {
		v.failed++
		_, err = fmt.Fprintf(v.out, "%-12s  failed: %v\n", now, err)
		return err
	}
	return v.print(append([]any{now}, seen...)...)
}

// print writes one line of the table.
func (v *visitor) print(columns ...any) error {
	_, err := fmt.Fprintf(v.out, "%-12v  %-10v  %-10v  %7v  %-11v  %-11v  %6v  %v\n", columns...)
	return err
}

// succeeded is the number of reloads of the serving keypair, the first load included.
var succeeded = regexp.MustCompile(`(?m)^apoxy_tls_cert_reloads_total\{component="serving",result="success"\} (\d+)$`)

// visit returns what the visitor sees of the replica, for one line of the table.
func (v *visitor) visit(ctx context.Context) ([]any, error) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	review := `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}`
	hook, _, err := v.get(ctx, http.MethodPost, v.hook, review)
	if err != nil {
		return nil, err
	}
	metrics, page, err := v.get(ctx, http.MethodGet, v.metrics, "")
	if err != nil {
		return nil, err
	}
	reloads := succeeded.FindStringSubmatch(page)
	if reloads == nil {
		return nil, errors.New("there are no metrics of the serving keypair")
	}
	user, err := v.client.whoAmI(ctx)
	if err != nil {
		return nil, err
	}
	if err := v.listen(); err != nil {
		return nil, err
	}
	_, outside, err := v.get(ctx, http.MethodGet, v.proxy, "")
	return []any{hook, metrics, reloads[1], user, v.watching, v.events, outside}, err
}

// listen takes the events that have come, without waiting for more.
func (v *visitor) listen() error {
	for {
		select {
		case event := <-v.watch.ResultChan():
			if err := v.hear(event); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// hear notes whom the API server takes for the one who watches. The zero event is what a closed channel has.
func (v *visitor) hear(event watch.Event) error {
	secret, ok := event.Object.(*corev1.Secret)
	if !ok {
		return errors.New("the watch has ended")
	}
	v.watching = secret.Labels[watcherLabel]
	v.events++
	return nil
}

// get asks for a page. It returns the name in the leaf of the connection that brought it, if it is one of TLS, and the page.
func (v *visitor) get(ctx context.Context, method, url, body string) (leaf, page string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := v.http.Do(request)
	if err != nil {
		return "", "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	if response.TLS != nil {
		leaf = response.TLS.PeerCertificates[0].Subject.CommonName
	}
	return leaf, string(content), err
}
