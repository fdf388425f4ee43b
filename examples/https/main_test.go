package main_test

// main_test.go runs the program as a person does and reads what it prints.

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/seed45259946/reload/examples/internal/program"

	"github.com/seed45259946/reload/reloadtest"
)

// Sessions and their output are given to Eventually alone, the context after it: given both, it formats the second, to
// see that it is no duration, and that races with what is written to it.

func TestHTTPS(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "https")
}

var _ = program.Built("https")

var _ = Describe("the demonstration", func() {
	DescribeTable("shows generations go by without a failure and leaves no files behind",
		func(ctx SpecContext, args ...string) {
			temp := GinkgoT().TempDir()
			s := program.Start(temp, append(args, "-every", "200ms", "-for", "4s")...)
			Eventually(s).WithContext(ctx).Should(gexec.Exit(0))

			out := string(s.Out.Contents())
			Expect(out).To(HavePrefix("Serving https://127.0.0.1:"))
			Expect(out).To(ContainSubstring("curl --cacert " + temp))
			Expect(out).To(MatchRegexp(`(?m)^[\d:.]{12}    1  [0-9a-f]{12}  [\d:]{8}  TLS 1.3  full$`))
			Expect(out).To(MatchRegexp(`(?m)^[\d:.]{12}    2  [0-9a-f]{12}  [\d:]{8}  TLS 1.3  resumed$`))
			handshakes, generations, failures := summary(out)
			Expect(handshakes).To(BeNumerically(">", 2*generations-1))
			Expect(generations).To(BeNumerically(">=", 3))
			Expect(failures).To(BeZero())
			Expect(string(s.Err.Contents())).To(BeEmpty())
			Expect(os.ReadDir(temp)).To(BeEmpty())
		},
		Entry("by default", SpecTimeout(program.Limit)),
		Entry("with clients verified", SpecTimeout(program.Limit), "-verify"),
	)

	It("ends at once when it is interrupted", func(ctx SpecContext) {
		temp := GinkgoT().TempDir()
		s := program.Start(temp, "-every", "1h")
		Eventually(s.Out).WithContext(ctx).Should(gbytes.Say("resumed"))
		s.Interrupt()
		Eventually(s).WithContext(ctx).WithTimeout(20 * time.Second).Should(gexec.Exit(0))
		Expect(s.Out).To(gbytes.Say("failures: 0\n$"))
		Expect(os.ReadDir(temp)).To(BeEmpty())
	}, SpecTimeout(program.Limit))

	It("leaves no files behind when nobody reads on", func(ctx SpecContext) {
		temp := GinkgoT().TempDir()
		read, write, err := os.Pipe()
		Expect(err).NotTo(HaveOccurred())
		cmd := exec.CommandContext(ctx, program.Path, "-every", "1s")
		cmd.Env, cmd.Stdout = append(os.Environ(), "TMPDIR="+temp), write
		Expect(cmd.Start()).To(Succeed())
		Expect(write.Close()).To(Succeed())
		Expect(io.ReadFull(read, make([]byte, 1))).To(Equal(1))
		Expect(read.Close()).To(Succeed())

		Expect(cmd.Wait()).To(MatchError("exit status 1"))
		Expect(os.ReadDir(temp)).To(BeEmpty())
	}, SpecTimeout(program.Limit))
})

var _ = Describe("serving files", func() {
	var (
		ca    *reloadtest.CA
		old   *reloadtest.Keypair
		files *reloadtest.Plain
		dir   string
	)

	BeforeEach(func() {
		ca = reloadtest.NewCA(reloadtest.Options{})
		old = ca.Issue(reloadtest.Options{})
		dir = GinkgoT().TempDir()
		var err error
		files, err = reloadtest.NewPlain(dir, old.Files(ca))
		Expect(err).NotTo(HaveOccurred())
	})

	// serving starts the program and returns where it serves.
	serving := func(ctx SpecContext, args ...string) (*gexec.Session, string) {
		GinkgoHelper()
		s := program.Start(GinkgoT().TempDir(), args...)
		Eventually(s.Out).WithContext(ctx).Should(gbytes.Say("Serving https://.* with .*\n"))
		return s, regexp.MustCompile(`https://[^ ]+`).FindString(string(s.Out.Contents()))
	}

	// client returns one that makes a connection for each request, unless that is changed.
	client := func(identity ...tls.Certificate) *http.Client {
		return &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), Certificates: identity},
		}}
	}

	DescribeTable("follows a rotation without failing a handshake, until it is told to end",
		func(ctx SpecContext, end os.Signal, keepAlives bool) {
			s, url := serving(ctx, "-dir", dir)
			c := client()
			c.Transport.(*http.Transport).DisableKeepAlives = !keepAlives
			Expect(leafAt(ctx, c, url)).To(Equal(old.Fingerprint()))

			next := ca.Issue(reloadtest.Options{})
			Expect(files.Rename(next.Files(ca))).To(Succeed())
			for leaf := old.Fingerprint(); leaf != next.Fingerprint(); {
				var err error
				leaf, err = leafAt(ctx, c, url)
				Expect(err).NotTo(HaveOccurred())
				Expect(leaf).To(BeElementOf(old.Fingerprint(), next.Fingerprint()))
			}
			s.Signal(end)
			Eventually(s).WithContext(ctx).WithTimeout(20 * time.Second).Should(gexec.Exit(0))
		},
		Entry("by Ctrl-C, with a client that makes a connection for each request", SpecTimeout(program.Limit), os.Interrupt, false),
		Entry("by SIGTERM, with a client that keeps its connection", SpecTimeout(program.Limit), syscall.SIGTERM, true),
	)

	It("looks at the files on SIGHUP", func(ctx SpecContext) {
		s, url := serving(ctx, "-metrics", "-cert", filepath.Join(dir, "tls.crt"), "-key", filepath.Join(dir, "tls.key"))
		c := client()
		looked := func() time.Time {
			GinkgoHelper()
			var status struct {
				LastLook time.Time `json:"last_look"`
			}
			body, err := get(ctx, c, url+"/status")
			Expect(err).NotTo(HaveOccurred())
			Expect(json.Unmarshal(body, &status)).To(Succeed())
			return status.LastLook
		}
		for range 2 { // the first may be the look that every start begins with
			before := looked()
			Eventually(ctx, func() time.Time { s.Signal(syscall.SIGHUP); return looked() }).Should(BeTemporally(">", before))
		}
		s.Interrupt()
		Eventually(s).WithContext(ctx).Should(gexec.Exit(0))
	}, SpecTimeout(program.Limit))

	It("shows its series and its status", func(ctx SpecContext) {
		s, url := serving(ctx, "-dir", dir, "-metrics")
		c := client()
		Expect(get(ctx, c, url+"/metrics")).To(BeEquivalentTo(fmt.Sprintf(`# HELP apoxy_tls_cert_reloads_total Reloads of a keypair.
# TYPE apoxy_tls_cert_reloads_total counter
apoxy_tls_cert_reloads_total{component="https",result="success"} 1
apoxy_tls_cert_reloads_total{component="https",result="failure"} 0
# HELP apoxy_tls_cert_expiry_seconds When the live leaf expires, as a Unix time.
# TYPE apoxy_tls_cert_expiry_seconds gauge
apoxy_tls_cert_expiry_seconds{component="https"} %d
`, old.Leaf.NotAfter.Unix())))

		Expect(os.Remove(filepath.Join(dir, "tls.key"))).To(Succeed())
		Eventually(ctx, func() ([]byte, error) { return get(ctx, c, url+"/status") }).Should(And(
			ContainSubstring(`"generation":1,"fingerprint":"`+old.Fingerprint()+`"`),
			ContainSubstring(`"pending":"reload: key: open `)))
		s.Interrupt()
		Eventually(s).WithContext(ctx).Should(gexec.Exit(0))
	}, SpecTimeout(program.Limit))

	It("admits only clients of the CA when it is to verify them", func(ctx SpecContext) {
		s, url := serving(ctx, "-dir", dir, "-verify")
		// What the client hears of it depends on whether the alert or the end of the connection reaches it first.
		_, err := get(ctx, client(), url)
		Expect(err).To(HaveOccurred())
		Eventually(s.Err).WithContext(ctx).Should(gbytes.Say("client didn't provide a certificate"))
		Expect(leafAt(ctx, client(ca.Issue(reloadtest.Options{}).TLS()), url)).To(Equal(old.Fingerprint()))
		s.Interrupt()
		Eventually(s).WithContext(ctx).Should(gexec.Exit(0))
	}, SpecTimeout(program.Limit))

	DescribeTable("says what it cannot do",
		func(ctx SpecContext, code int, message string, args ...string) {
			s := program.Start(GinkgoT().TempDir(), args...)
			Eventually(s).WithContext(ctx).Should(gexec.Exit(code))
			Expect(s.Err).To(gbytes.Say(message))
			Expect(s.Out.Contents()).To(BeEmpty())
		},
		Entry("files that are missing", SpecTimeout(program.Limit), 1, "https: reload: certificate: open .*/nowhere/tls.crt: no such file", "-dir", "nowhere"),
		Entry("a certificate without its key", SpecTimeout(program.Limit), 2, "-cert and -key come together\nUsage of https:", "-cert", "tls.crt"),
		Entry("a CA alone", SpecTimeout(program.Limit), 2, "-ca needs -cert and -key, or -dir\nUsage of https:", "-ca", "ca.crt"),
		Entry("an argument", SpecTimeout(program.Limit), 2, `unexpected argument "cert.pem"`, "cert.pem"),
		Entry("no interval", SpecTimeout(program.Limit), 2, "-every must be positive", "-every", "0s"),
	)

	It("refuses to verify clients without a CA", func(ctx SpecContext) {
		Expect(os.Remove(filepath.Join(dir, "ca.crt"))).To(Succeed())
		s := program.Start(GinkgoT().TempDir(), "-dir", dir, "-verify")
		Eventually(s).WithContext(ctx).Should(gexec.Exit(1))
		Expect(s.Err).To(gbytes.Say("https: reload: no CA file to verify clients with\n"))
	}, SpecTimeout(program.Limit))
})

// summary reads the last line of the demonstration.
func summary(out string) (handshakes, generations, failures int) {
	GinkgoHelper()
	found := regexp.MustCompile(`\nhandshakes: (\d+), generations seen: (\d+), failures: (\d+)\n$`).FindStringSubmatch(out)
	Expect(found).NotTo(BeNil(), out)
	for i, n := range []*int{&handshakes, &generations, &failures} {
		var err error
		*n, err = strconv.Atoi(found[i+1])
		Expect(err).NotTo(HaveOccurred())
	}
	return
}

// get asks for a page.
func get(ctx SpecContext, c *http.Client, url string) ([]byte, error) {
	body, _, err := do(ctx, c, url)
	return body, err
}

// leafAt asks for a page and returns the fingerprint of the leaf that was presented.
func leafAt(ctx SpecContext, c *http.Client, url string) (string, error) {
	_, state, err := do(ctx, c, url)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(state.PeerCertificates[0].Raw)
	return hex.EncodeToString(sum[:]), nil
}

func do(ctx SpecContext, c *http.Client, url string) ([]byte, *tls.ConnectionState, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	response, err := c.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return body, response.TLS, err
}
