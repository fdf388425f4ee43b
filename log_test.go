package reload_test

// What is logged, and what never is. What is said of expiry is in expiry_test.go.

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("The log", func() {
	It("has one line for a swap, with component, path, fingerprint, serial number and expiry", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		out := &transcript{}
		r := s.started(ctx, out.json)
		out.forget()
		k := s.rotate()
		s.settled()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		Expect(out.String()).To(MatchJSON(fmt.Sprintf(`{
			"time": "2000-01-01T00:00:00.2Z", "level": "INFO", "msg": "keypair reloaded",
			"component": "site", "cert": %q,
			"bundle": {"fingerprint": %q, "serial": "%x", "not_after": "2000-01-02T00:00:00Z"}
		}`, s.path("tls.crt"), k.Fingerprint(), k.Leaf.SerialNumber)))
	}, SpecTimeout(30*time.Second))

	It("has no component where there is none", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		out := &transcript{}
		s.watch(ctx, reload.NewStore(), out.json)
		pass(time.Second)
		Expect(out.String()).To(ContainSubstring("keypair loaded"))
		Expect(out.String()).NotTo(ContainSubstring("component"))
	}, SpecTimeout(30*time.Second))

	It("that nobody reads, so that a line in it blocks, holds up nobody but the next look", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		out, in := io.Pipe()
		defer out.Close()
		go out.Read(make([]byte, 1<<10)) // the line of the first load
		r := s.started(ctx, func(o *reload.WatchOptions) { o.Logger = slog.New(slog.NewTextHandler(in, nil)) })
		k := s.rotate()
		s.settled()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()), "it is live already")
		Expect(r.Status().Generation).To(BeEquivalentTo(2))
		Expect(r.Check(nil)).To(Succeed())
		hurried, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		Expect(r.Reload(hurried)).To(MatchErrorStrictly(context.DeadlineExceeded))
		go io.Copy(io.Discard, out)
		Expect(r.Reload(ctx)).To(Succeed())
	}, SpecTimeout(30*time.Second))

	It("warns when a chain or a CA file becomes shorter, which is what a file cut between two blocks looks like", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.ca.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{})
		s.put(k.Files(s.ca))
		r := s.started(ctx)
		leaf, _ := pem.Decode(k.CertPEM)
		s.write("tls.crt", pem.EncodeToMemory(leaf))
		s.settled()
		Expect(r.Bundle().Cert.Certificate).To(HaveLen(1))
		Expect(s.log.said()).To(Equal([]string{"keypair loaded", "keypair reloaded", "chain or CA file has become shorter"}))
		Expect(s.log.last()["chain"]).To(BeEquivalentTo(1))
		Expect(s.log.last()["cas"]).To(BeEquivalentTo(1))
	}, SpecTimeout(30*time.Second))

	It("goes to slog.Default where there is no other", func(ctx SpecContext) {
		out := &transcript{}
		was := slog.Default()
		DeferCleanup(func() { slog.SetDefault(was) })
		slog.SetDefault(slog.New(slog.NewTextHandler(out, nil)))
		s := newSite()
		s.rotate()
		s.reloader(func(o *reload.WatchOptions) { o.Logger = nil })
		Expect(out.String()).To(ContainSubstring("keypair loaded"))
	}, SpecTimeout(30*time.Second))

	for _, format := range []string{"text", "json"} {
		It("holds no key material, whatever is in the files: "+format, inBubble, func(ctx SpecContext) {
			s := newSite()
			secrets := newSecrets()
			out := &transcript{}
			meter := &tally{}
			handler := out.json
			if format == "text" {
				handler = out.text
			}
			k := secrets.of(s.issue())
			s.put(k.Files(s.ca))
			var r *reload.Reloader
			r = s.started(ctx, handler, func(o *reload.WatchOptions) {
				o.Metrics = meter
				o.OnSwap = func(b *reload.Bundle) { panic(b) }
				o.Validate = func(b *reload.Bundle) error {
					if r == nil || b.Cert.Leaf.SerialNumber.Bit(0) == 0 {
						return nil
					}
					return fmt.Errorf("not this one: %v %+v %#v", b, *b, b)
				}
			})
			for _, states := range [][]reloadtest.Files{
				s.states(secrets), s.keys(secrets),
			} {
				for _, f := range states {
					s.put(f)
					s.look()
					pass(3 * time.Second)
					out.Write(fmt.Appendln(nil, r.Reload(ctx), pendingOf(r)))
					_, err := reload.LoadBundle(reload.FromDir(s.dir))
					out.Write(fmt.Appendln(nil, err))
					_, err = reload.BundleFromPEM(f["tls.crt"], f["tls.key"], f["ca.crt"])
					out.Write(fmt.Appendln(nil, err))
					s.put(secrets.of(s.issue()).Files(s.ca))
					s.settled()
				}
			}
			out.Write(fmt.Appendf(nil, "%v %+v %#v %v", r.Bundle(), *r.Bundle(), r.Status(), reload.AllSeries()))
			Expect(out.String()).To(ContainSubstring("callback panicked"))
			Expect(out.String()).To(ContainSubstring("reload failed"))
			secrets.mustNotBeIn(out.String())
		}, SpecTimeout(time.Minute))
	}

	It("of one watcher is quiet at Info while ten thousand handshakes meet a fault on disk", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		s.write("tls.key", s.issue().KeyPEM)
		s.look()
		for range 10000 {
			_, err := r.GetCertificate(nil)
			Expect(err).NotTo(HaveOccurred())
		}
		synctest.Wait()
		Expect(s.log.said()).To(Equal([]string{"keypair loaded"}))
	}, SpecTimeout(30*time.Second))
})

// states are damaged and misplaced files, with keys in all places.
func (s *site) states(secrets *secrets) []reloadtest.Files {
	a, b := secrets.of(s.issue()), secrets.of(s.issue())
	half := len(a.KeyPEM) / 2
	mangled := bytes.ReplaceAll(a.KeyPEM, []byte("-----"), []byte("----"))
	odd := bytes.ReplaceAll(a.KeyPEM, []byte("PRIVATE KEY"), []byte(base64.StdEncoding.EncodeToString(a.KeyPEM[40:80])))
	return []reloadtest.Files{
		{"tls.crt": a.CertPEM, "tls.key": b.KeyPEM},
		{"tls.crt": a.KeyPEM, "tls.key": a.CertPEM},
		{"tls.crt": a.CertPEM, "tls.key": a.KeyPEM[:half]},
		{"tls.crt": a.CertPEM, "tls.key": a.KeyPEM[half:]},
		{"tls.crt": a.CertPEM, "tls.key": mangled},
		{"tls.crt": a.CertPEM, "tls.key": odd},
		{"tls.crt": append(bytes.Clone(a.CertPEM), odd...), "tls.key": a.KeyPEM},
		{"tls.crt": a.CertPEM, "tls.key": append(bytes.Clone(a.KeyPEM), b.KeyPEM...)},
		{"tls.crt": a.CertPEM, "tls.key": bytes.ReplaceAll(a.KeyPEM, []byte("\n"), nil)},
		{"tls.crt": a.CertPEM, "tls.key": a.KeyPEM, "ca.crt": a.KeyPEM},
		{"tls.crt": a.CertPEM, "tls.key": a.KeyPEM, "ca.crt": mangled},
		{"tls.crt": append(bytes.Clone(a.CertPEM), a.KeyPEM...), "tls.key": append(bytes.Clone(a.KeyPEM), a.CertPEM...)},
	}
}

// keys are sound pairs of every key type that is made quickly.
func (s *site) keys(secrets *secrets) (all []reloadtest.Files) {
	for _, kind := range []reloadtest.KeyType{reloadtest.ECDSAP384, reloadtest.Ed25519, reloadtest.RSA2048} {
		k := secrets.of(s.ca.Issue(reloadtest.Options{Key: kind}))
		all = append(all, k.Files(s.ca))
		encrypted := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: derOf(k)})
		ssh := pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: derOf(k)})
		legacy := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: derOf(k), Headers: map[string]string{
			"Proc-Type": "4,ENCRYPTED", "DEK-Info": base64.StdEncoding.EncodeToString(derOf(k)[:48]),
		}})
		for _, key := range [][]byte{encrypted, ssh, legacy} {
			all = append(all, reloadtest.Files{"tls.crt": k.CertPEM, "tls.key": key})
		}
	}
	return all
}

// secrets knows every private key of a spec.
type secrets struct{ keys []*reloadtest.Keypair }

func newSecrets() *secrets { return &secrets{} }

func (s *secrets) of(k *reloadtest.Keypair) *reloadtest.Keypair {
	s.keys = append(s.keys, k)
	return k
}

// mustNotBeIn fails if any sixteen characters of any key, in base64, hex or as numbers, or a PEM marker are in text.
func (s *secrets) mustNotBeIn(text string) {
	GinkgoHelper()
	Expect(strings.Contains(text, "-----")).To(BeFalse(), "a PEM marker")
	squeezed := strings.ToLower(text)
	for _, k := range s.keys {
		body := strings.Join(strings.Split(strings.TrimSpace(string(k.KeyPEM)), "\n")[1:], "")
		body, _, _ = strings.Cut(body, "-----")
		for i := 0; i+16 <= len(body); i++ {
			if strings.Contains(text, body[i:i+16]) {
				Fail("key material, in base64")
			}
		}
		der := derOf(k)
		for _, secret := range [][]byte{der[40:48], der[len(der)/2:][:8]} { // inside the secret part of every key type
			Expect(strings.Contains(squeezed, hex.EncodeToString(secret))).To(BeFalse(), "key material, in hex")
			Expect(strings.Contains(text, strings.Trim(fmt.Sprint(secret), "[]"))).To(BeFalse(), "key material, as numbers")
		}
	}
}

func derOf(k *reloadtest.Keypair) []byte {
	block, _ := pem.Decode(k.KeyPEM)
	return block.Bytes
}

// transcript collects what is written.
type transcript struct {
	mu  sync.Mutex
	all bytes.Buffer
}

var _ io.Writer = (*transcript)(nil)

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}

func (t *transcript) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.Reset()
}

var all = &slog.HandlerOptions{Level: slog.LevelDebug - 4}

func (t *transcript) json(o *reload.WatchOptions) { o.Logger = slog.New(slog.NewJSONHandler(t, all)) }
func (t *transcript) text(o *reload.WatchOptions) { o.Logger = slog.New(slog.NewTextHandler(t, all)) }
