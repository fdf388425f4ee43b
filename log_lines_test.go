package reload_test

// Every event, and all that is logged of it. What is said of notifications is in hear_linux_test.go, of mounts in
// scenario_mounts_linux_test.go.

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("An event", func() {
	const live = " bundle.not_after=2000-01-02T00:00:00.000Z"
	DescribeTable("is told of in so many lines, once", inBubble,
		func(ctx SpecContext, happens func(context.Context, *site, *reload.Reloader), lines ...string) {
			s := newSite()
			s.put(s.issue().Files(s.ca))
			out := &transcript{}
			r := s.started(ctx, plainly(out), func(o *reload.WatchOptions) {
				o.CAOverlap = time.Hour
				o.OnSwap = func(b *reload.Bundle) {
					if len(b.Cert.Certificate) > 2 {
						panic("three")
					}
				}
			})
			out.forget()
			happens(ctx, s, r)
			pass(2 * time.Hour)
			Expect(out.String()).To(Equal(s.logged(lines)))
		},
		Entry("a keypair is replaced", func(_ context.Context, s *site, _ *reload.Reloader) { s.rotate() },
			`INFO keypair reloaded" component=site cert=DIR/tls.crt`+live),
		Entry("one is replaced by Reload", func(ctx context.Context, s *site, r *reload.Reloader) {
			s.rotate()
			Expect(r.Reload(ctx)).To(Succeed())
		}, `INFO keypair reloaded" component=site cert=DIR/tls.crt`+live),
		Entry("Reload returns why it is refused", func(ctx context.Context, s *site, r *reload.Reloader) {
			s.write("tls.key", nil)
			Expect(r.Reload(ctx)).NotTo(Succeed())
		}),
		Entry("a file is damaged", func(_ context.Context, s *site, _ *reload.Reloader) { s.write("tls.key", []byte("no key")) },
			`WARN reload failed, keeping previous keypair" component=site cert=DIR/tls.crt`+
				` err="reload: key DIR/tls.key: malformed PEM: no private key"`+live),
		Entry("a file is missing for an hour", func(_ context.Context, s *site, _ *reload.Reloader) {
			pair := s.issue().Files(s.ca)
			s.remove("ca.crt")
			s.look()
			pass(time.Hour)
			s.put(pair)
			s.look()
		},
			`WARN reload failed, keeping previous keypair" component=site cert=DIR/tls.crt`+
				` err="reload: trust roots: open DIR/ca.crt: no such file or directory"`+live,
			`INFO keypair reloaded" component=site cert=DIR/tls.crt`+live,
			`INFO reload recovered" component=site cert=DIR/tls.crt after=1h0m0.5s`),
		Entry("a chain becomes longer, whose swap panics a callback, and shorter", func(_ context.Context, s *site, _ *reload.Reloader) {
			k := s.ca.Intermediate(reloadtest.Options{}).Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{})
			next := s.issue()
			s.put(k.Files(s.ca))
			pass(time.Hour)
			s.put(next.Files(s.ca))
		},
			`INFO keypair reloaded" component=site cert=DIR/tls.crt`+live,
			`ERROR callback panicked" component=site cert=DIR/tls.crt panic=three`,
			`INFO keypair reloaded" component=site cert=DIR/tls.crt`+live,
			`WARN chain or CA file has become shorter" component=site cert=DIR/tls.crt`+live+` chain=1 cas=1`),
		Entry("a CA is replaced, and its overlap ends", func(_ context.Context, s *site, _ *reload.Reloader) {
			ca := reloadtest.NewCA(reloadtest.Options{})
			s.put(ca.Issue(reloadtest.Options{}).Files(ca))
		},
			`INFO keypair reloaded" component=site cert=DIR/tls.crt`+live+` cas_added=1 cas_removed=1`,
			`INFO outgoing CAs are no longer trusted" component=site cert=DIR/tls.crt`+live+` cas=1`),
		Entry("nothing", func(context.Context, *site, *reload.Reloader) {}),
	)

	DescribeTable("at the start is told of in so many lines, once", inBubble,
		func(ctx SpecContext, before func(*site), lines ...string) {
			s := newSite()
			out := &transcript{}
			before(s)
			s.started(ctx, plainly(out), func(o *reload.WatchOptions) { o.AwaitFiles = true })
			pass(time.Minute)
			Expect(out.String()).To(Equal(s.logged(lines)))
		},
		Entry("a keypair is there", func(s *site) { s.rotate() },
			`INFO keypair loaded" component=site cert=DIR/tls.crt`+live),
		Entry("it has expired", func(s *site) {
			s.put(s.ca.Issue(reloadtest.Options{NotAfter: time.Now().Add(-time.Hour)}).Files())
		},
			`INFO keypair loaded" component=site cert=DIR/tls.crt bundle.not_after=1999-12-31T23:00:00.000Z`,
			`ERROR leaf expired" component=site cert=DIR/tls.crt bundle.not_after=1999-12-31T23:00:00.000Z`),
		Entry("it is not yet valid", func(s *site) {
			s.put(s.ca.Issue(reloadtest.Options{NotBefore: time.Now().Add(2 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}).Files())
		},
			`INFO keypair loaded" component=site cert=DIR/tls.crt`+live,
			`WARN leaf is not yet valid" component=site cert=DIR/tls.crt`+live),
		Entry("there are no files", func(*site) {},
			`INFO waiting for files" component=site cert=DIR/tls.crt`+
				` err="reload: certificate: open DIR/tls.crt: no such file or directory"`),
		Entry("there is no keypair, but something else", func(s *site) { s.put(reloadtest.Files{"tls.crt": []byte("no"), "tls.key": []byte("yes")}) },
			`WARN reload failed, no keypair yet" component=site cert=DIR/tls.crt`+
				` err="reload: certificate DIR/tls.crt: malformed PEM: no certificate"`),
	)

	It("is told of by Watch where there is no directory, with the CA file where there is no keypair", func(ctx SpecContext) {
		s, out := newSite(), &transcript{}
		Expect(os.Remove(s.dir)).To(Succeed())
		for _, p := range []reload.Paths{reload.FromDir(s.dir), {CA: s.path("ca.crt")}} {
			o := reload.WatchOptions{}
			plainly(out)(&o)
			Expect(reload.Watch(ctx, p, reload.NewStore(), o)).To(Succeed())
		}
		Expect(out.String()).To(Equal(strings.ReplaceAll(`level=WARN msg="no directory to watch" cert=DIR/tls.crt
level=WARN msg="no directory to watch" ca=DIR/ca.crt
`, "DIR", s.dir)))
	}, SpecTimeout(20*time.Second))
})

// logged returns lines as a handler writes them.
func (s *site) logged(lines []string) string {
	var all strings.Builder
	for _, line := range lines {
		level, rest, _ := strings.Cut(line, " ")
		fmt.Fprintf(&all, "level=%s msg=\"%s\n", level, strings.ReplaceAll(rest, "DIR", s.dir))
	}
	return all.String()
}

// plainly logs what people see to out as text, without what differs from one run to the next.
func plainly(out *transcript) func(*reload.WatchOptions) {
	random := map[string]bool{slog.TimeKey: true, "fingerprint": true, "serial": true, "stack": true}
	return func(o *reload.WatchOptions) {
		o.Logger = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if random[a.Key] {
					return slog.Attr{}
				}
				return a
			},
		}))
	}
}
