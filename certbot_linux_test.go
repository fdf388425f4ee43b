package reload_test

// certbot_linux_test.go has the real certbot renew against a real ACME server, pebble, while a server of ours is live. It
// takes both on the PATH and RELOAD_CERTBOT=1:
//
//	apt-get install certbot
//	go install github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.3
//	RELOAD_CERTBOT=1 go test -run TestReload -ginkgo.focus "real certbot" .

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("The real certbot", Label("fs"), func() {
	DescribeTable("renews five times: five swaps, and every handshake in between shows a whole chain",
		func(ctx SpecContext, keys ...string) {
			if os.Getenv("RELOAD_CERTBOT") == "" {
				Skip("RELOAD_CERTBOT is not set")
			}
			c := newCertbot(ctx)
			c.run(ctx, append([]string{"certonly", "--manual", "--manual-auth-hook", "/bin/true", "--cert-name", "site",
				"--agree-tos", "--register-unsafely-without-email", "-d", "site.example"}, keys...)...)
			live := filepath.Join(c.dir, "config", "live", "site")
			paths := reload.Paths{Cert: filepath.Join(live, "fullchain.pem"), Key: filepath.Join(live, "privkey.pem")}
			s := load(Default, paths)
			s.start(ctx)
			defer s.stop()
			served := handshakes(ctx, s.Reloader)
			for range 5 {
				c.run(ctx, append([]string{"renew", "--force-renewal"}, keys...)...)
				onDisk, err := reload.LoadBundle(paths)
				Expect(err).NotTo(HaveOccurred())
				var b *reload.Bundle
				Eventually(ctx, s.swaps).Should(Receive(&b))
				Expect(b.Fingerprint).To(Equal(onDisk.Fingerprint))
			}
			seen, failed := served()
			Expect(failed).To(BeEmpty())
			Expect(seen).To(HaveLen(6), "leaves shown, and how many certificates came with each")
			for _, chain := range seen {
				Expect(chain).To(Equal(2))
			}
			Expect(s.swaps).To(BeEmpty())
		},
		Entry("with a new key each time", SpecTimeout(5*time.Minute)),
		Entry("with the same key", "--reuse-key", SpecTimeout(5*time.Minute)),
	)
})

// certbot is an installation of its own, and the authority it talks to.
type certbot struct{ dir, url string }

// newCertbot starts an authority that takes everybody for the owner of every name.
func newCertbot(ctx context.Context) certbot {
	GinkgoHelper()
	c := certbot{dir: GinkgoT().TempDir()}
	ca := reloadtest.NewCA(reloadtest.Options{})
	Expect(reloadtest.NewPlain(c.dir, ca.Issue(reloadtest.Options{}).Files(ca))).Error().NotTo(HaveOccurred())
	address := vacant()
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": address, "managementListenAddress": vacant(), "httpPort": 5002, "tlsPort": 5001,
		"certificate": filepath.Join(c.dir, reload.SecretCertFile), "privateKey": filepath.Join(c.dir, reload.SecretKeyFile),
	}})
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(c.dir, "pebble.json")
	Expect(os.WriteFile(file, config, 0o600)).To(Succeed())
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	pebble := exec.CommandContext(running, "pebble", "-config", file)
	pebble.Env = append(os.Environ(), "PEBBLE_VA_ALWAYS_VALID=1", "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
	pebble.Stdout, pebble.Stderr = GinkgoWriter, GinkgoWriter
	Expect(pebble.Start()).To(Succeed())
	DeferCleanup(func() { stop(); pebble.Wait() })
	Eventually(ctx, func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err
	}).Should(Succeed())
	c.url = "https://" + address + "/dir"
	return c
}

// vacant is an address that nobody listened at a moment ago: the authority takes no listener.
func vacant() string {
	GinkgoHelper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer l.Close()
	return l.Addr().String()
}

// run runs certbot to its end.
func (c certbot) run(ctx context.Context, args ...string) {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, "certbot", append(args, "-n", "--server", c.url, "--no-random-sleep-on-renew",
		"--config-dir", filepath.Join(c.dir, "config"), "--work-dir", filepath.Join(c.dir, "work"), "--logs-dir", filepath.Join(c.dir, "logs"))...)
	cmd.Env = append(os.Environ(), "REQUESTS_CA_BUNDLE="+filepath.Join(c.dir, reload.SecretCAFile))
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
}

// handshakes goes on until the returned function is called, which says which leaves were shown with how many certificates,
// and what failed.
func handshakes(ctx context.Context, r *reload.Reloader) (end func() (chains map[string]int, failed []error)) {
	server := r.ServerConfig(nil)
	running, stop := context.WithCancel(ctx)
	chains, failed := map[string]int{}, []error{}
	var loop sync.WaitGroup
	loop.Go(func() {
		for running.Err() == nil {
			client := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
				leaf := fmt.Sprintf("%x", s.PeerCertificates[0].SerialNumber)
				if n, again := chains[leaf]; again && n != len(s.PeerCertificates) {
					return fmt.Errorf("a chain of %d, then of %d", n, len(s.PeerCertificates))
				}
				chains[leaf] = len(s.PeerCertificates)
				return nil
			}}
			if err := overPipe(client, server); err != nil {
				failed = append(failed, err)
			}
		}
	})
	return func() (map[string]int, []error) { stop(); loop.Wait(); return chains, failed }
}
