package migrating_test

// migrating_test.go proves that what is quoted as the before does what it is quoted for, and the after no less.

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/credentials"

	"github.com/seed45259946/reload/examples/wiring/migrating"
	"github.com/seed45259946/reload/reloadtest"
)

const limit = 2 * time.Minute // of a spec, on a machine with other things to do

func TestMigrating(t *testing.T) {
	RegisterFailHandler(Fail)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	RunSpecs(t, "migrating")
}

// start begins to serve the keypair in dir and returns what has one side of a connection be the server.
type start func(ctx context.Context, dir string) func(net.Conn) error

var _ = Describe("a server", func() {
	DescribeTable("shows the leaf in the files, and with reload the next one too",
		func(ctx SpecContext, begin start, reloads bool) {
			ca := reloadtest.NewCA(reloadtest.Options{})
			old, next := ca.Issue(reloadtest.Options{}), ca.Issue(reloadtest.Options{})
			files, err := reloadtest.NewPlain(GinkgoT().TempDir(), old.Files(ca))
			Expect(err).NotTo(HaveOccurred())
			run, stop := context.WithCancel(context.Background())
			DeferCleanup(stop)
			server := begin(run, files.Dir)

			serial := func() (string, error) {
				a, b := net.Pipe()
				defer a.Close()
				go func() { defer b.Close(); _ = server(b) }()
				c := tls.Client(a, &tls.Config{
					RootCAs: ca.Pool(), ServerName: "localhost", MaxVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
					Certificates: []tls.Certificate{ca.Issue(reloadtest.Options{}).TLS()},
				})
				if err := c.HandshakeContext(ctx); err != nil {
					return "", err
				}
				return c.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
			}
			Eventually(ctx, serial).Should(Equal(old.Leaf.SerialNumber.String()))
			if reloads {
				Expect(files.Rename(next.Files(ca))).To(Succeed())
				Eventually(ctx, serial).Should(Equal(next.Leaf.SerialNumber.String()))
			}
		},
		Entry("LoadX509KeyPair", SpecTimeout(limit), start(func(_ context.Context, dir string) func(net.Conn) error {
			s, err := migrating.LoadedOnce(dir+"/tls.crt", dir+"/tls.key")
			return over(s.TLSConfig, err)
		}), false),
		Entry("reload", SpecTimeout(limit), start(func(ctx context.Context, dir string) func(net.Conn) error {
			s, err := migrating.Reloaded(ctx, dir+"/tls.crt", dir+"/tls.key")
			return over(s.TLSConfig, err)
		}), true),
		Entry("certman", SpecTimeout(limit), start(func(_ context.Context, dir string) func(net.Conn) error {
			return over(migrating.Certman(dir+"/tls.crt", dir+"/tls.key"))
		}), false),
		Entry("reload after certman", SpecTimeout(limit), start(func(ctx context.Context, dir string) func(net.Conn) error {
			return over(migrating.CertmanAfter(ctx, dir+"/tls.crt", dir+"/tls.key"))
		}), true),
		Entry("certinel", SpecTimeout(limit), start(func(ctx context.Context, dir string) func(net.Conn) error {
			return over(migrating.Certinel(ctx, new(errgroup.Group), dir+"/tls.crt", dir+"/tls.key"))
		}), false),
		Entry("reload after certinel", SpecTimeout(limit), start(func(ctx context.Context, dir string) func(net.Conn) error {
			return over(migrating.CertinelAfter(ctx, new(errgroup.Group), dir+"/tls.crt", dir+"/tls.key"))
		}), true),
		Entry("pemfile", SpecTimeout(limit), start(func(_ context.Context, dir string) func(net.Conn) error {
			return with(migrating.PEMFile(dir))
		}), false),
		Entry("reload after pemfile", SpecTimeout(limit), start(func(ctx context.Context, dir string) func(net.Conn) error {
			return with(migrating.PEMFileAfter(ctx, dir))
		}), true),
	)
})

func over(config *tls.Config, err error) func(net.Conn) error {
	GinkgoHelper()
	if errors.Is(err, syscall.EMFILE) {
		Skip("certman takes an inotify instance for itself, and the system has none left")
	}
	Expect(err).NotTo(HaveOccurred())
	return func(c net.Conn) error { return tls.Server(c, config).Handshake() }
}

func with(creds credentials.TransportCredentials, err error) func(net.Conn) error {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return func(c net.Conn) error {
		_, _, err := creds.ServerHandshake(c)
		return err
	}
}
