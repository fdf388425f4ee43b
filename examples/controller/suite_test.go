package main

// suite_test.go runs the specs, and has what they share: a replica that runs, and clients of it.

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/seed45259946/reload/reloadtest"
)

const limit = 2 * time.Minute // of a spec, on a machine with other things to do

// asProgram in the environment makes the test binary the program: to link a second one of this size takes too long.
const asProgram = "RUN_AS_CONTROLLER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestController(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "controller")
}

var _ = BeforeSuite(func() {
	logger := slog.New(slog.NewTextHandler(GinkgoWriter, nil))
	slog.SetDefault(logger)
	log.SetLogger(logr.FromSlogHandler(logger.Handler()))
})

// newSettings makes a world, and what a replica in it is told.
func newSettings() (*world, settings) {
	GinkgoHelper()
	w, err := newWorld(GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.close)
	s, err := w.settings()
	Expect(err).NotTo(HaveOccurred())
	return w, s
}

// start runs a replica until the spec ends. It returns when the replica answers.
func start(ctx context.Context, s settings) *replica {
	GinkgoHelper()
	r, err := newReplica(ctx, s)
	Expect(err).NotTo(HaveOccurred())
	keep(ctx, r.run)
	awaitServers(ctx, s)
	return r
}

// keep runs something until the spec ends, without an error.
func keep(ctx context.Context, run func(context.Context) error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- run(running) }()
	DeferCleanup(func(ctx SpecContext) {
		stop()
		Eventually(ctx, ended).Should(Receive(BeNil()))
	}, NodeTimeout(limit))
}

// awaitServers waits until all that a manager serves is there.
func awaitServers(ctx context.Context, s settings) {
	GinkgoHelper()
	for _, address := range []string{hookAddress(s), s.manager.Metrics.BindAddress, s.manager.HealthProbeBindAddress} {
		Eventually(ctx, func() error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err == nil {
				err = conn.Close()
			}
			return err
		}).Should(Succeed())
	}
}

func hookAddress(s settings) string {
	return net.JoinHostPort(s.hooks.Host, strconv.Itoa(s.hooks.Port))
}

// visitorFrom returns a client that trusts the CA of the world, has a certificate of another, and keeps its connections.
func visitorFrom(ca *reloadtest.CA, w *world) *visitor {
	GinkgoHelper()
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
		RootCAs: w.ca.Pool(), Certificates: []tls.Certificate{ca.Issue(reloadtest.Options{}).TLS()},
	}}
	DeferCleanup(transport.CloseIdleConnections)
	return &visitor{http: &http.Client{Transport: transport}}
}

// leaf returns a function that asks for a page and returns the name in the leaf of the connection that brought it.
func (v *visitor) leaf(ctx context.Context, url string) func() (string, error) {
	return func() (string, error) {
		name, _, err := v.get(ctx, http.MethodGet, url, "")
		return name, err
	}
}

// page returns a function that asks for a page.
func (v *visitor) page(ctx context.Context, url string) func() (string, error) {
	return func() (string, error) {
		_, page, err := v.get(ctx, http.MethodGet, url, "")
		return page, err
	}
}

// status returns a function that asks for a page and returns its status.
func (v *visitor) status(ctx context.Context, url string) func() (int, error) {
	return func() (int, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return 0, err
		}
		response, err := v.http.Do(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return response.StatusCode, err
	}
}

// sample returns the value of one of our series of a component in a page of metrics.
func sample(page, name, component, labels string) int {
	GinkgoHelper()
	name = fmt.Sprintf("apoxy_%s{component=%q%s} ", name, component, labels)
	for line := range strings.Lines(page) {
		if value, found := strings.CutPrefix(line, name); found {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			Expect(err).NotTo(HaveOccurred())
			return int(n)
		}
	}
	Fail("there is no " + name)
	return 0
}
