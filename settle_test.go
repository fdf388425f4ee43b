package reload_test

// How long files must stay the same before they go live.

import (
	"bytes"
	"encoding/pem"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("Settle", func() {
	// The default is 100 ms.
	DescribeTable("takes longer where the doubt is greater:", inBubble, func(ctx SpecContext, settle time.Duration, change func(*site, *reloadtest.Keypair), want time.Duration) {
		s := newSite()
		above := s.ca.Intermediate(reloadtest.Options{})
		k := above.Issue(reloadtest.Options{})
		s.put(k.Files(s.ca, reloadtest.NewCA(reloadtest.Options{})))
		r := s.started(ctx, func(o *reload.WatchOptions) { o.Settle = settle })
		pass(time.Minute)
		change(s, k)
		start := time.Now()
		s.look()
		pass(want - time.Millisecond)
		Expect(r.Status().Generation).To(BeEquivalentTo(1))
		Expect(pendingOf(r)).To(MatchError("reload: waiting for the files to settle"))
		pass(time.Millisecond)
		Expect(r.Status().Generation).To(BeEquivalentTo(2))
		Expect(r.Status().LastSwap.Sub(start)).To(Equal(want))
	},
		Entry("everything is new", time.Duration(0), everything, 100*time.Millisecond),
		Entry("everything is new, another Settle", time.Second, everything, time.Second),
		Entry("the CA file is as it was: it may be next", time.Duration(0), func(s *site, _ *reloadtest.Keypair) {
			s.put(s.ca.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{}).Files())
		}, 500*time.Millisecond),
		Entry("the key is as it was: it may be next", 20*time.Millisecond, func(s *site, k *reloadtest.Keypair) {
			s.write("tls.crt", s.ca.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{Signer: k.Key}).CertPEM)
		}, 100*time.Millisecond),
		Entry("the chain has become shorter: it may be half written", time.Duration(0), func(s *site, k *reloadtest.Keypair) {
			leaf, _ := pem.Decode(k.CertPEM)
			s.write("tls.crt", pem.EncodeToMemory(leaf))
		}, time.Second),
		Entry("the CA file has become shorter: it may be half written", 10*time.Millisecond, func(s *site, _ *reloadtest.Keypair) {
			s.write("ca.crt", s.ca.PEM())
		}, 100*time.Millisecond),
	)

	It("counts from the last change of the content", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		for range 30 { // three times as long as anything settles
			s.rotate()
			s.look()
			pass(reload.DefaultSettle - time.Millisecond)
			Expect(r.Status().Generation).To(BeEquivalentTo(1))
		}
		pass(reload.DefaultSettle)
		Expect(r.Status().Generation).To(BeEquivalentTo(2))
	}, SpecTimeout(30*time.Second))

	It("counts anew where there was something else between two looks", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		k := s.rotate()
		s.look()
		pass(reload.DefaultSettle - time.Millisecond)
		s.rotate() // which nobody sees
		s.later()
		s.put(k.Files())
		pass(reload.DefaultSettle)
		Expect(r.Status().Generation).To(BeEquivalentTo(1))
		pass(time.Millisecond)
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("is not needed for what was published by moving one link", inBubble, func(ctx SpecContext) {
		s := newSite()
		volume, err := reloadtest.NewKubelet(s.dir, s.issue().Files(s.ca))
		Expect(err).NotTo(HaveOccurred())
		r := s.started(ctx)
		for i := range 20 {
			pass(time.Second)
			k := s.issue()
			Expect(volume.Update(k.Files(s.ca))).To(Succeed())
			start := time.Now()
			s.look()
			Expect(s.shown(r)).To(Equal(k.Fingerprint()))
			Expect(r.Status().LastSwap).To(BeTemporally("==", start))
			Expect(r.Status().Generation).To(BeEquivalentTo(i + 2))
		}
	}, SpecTimeout(30*time.Second))

	It("is needed again where such a place is edited afterwards", inBubble, func(ctx SpecContext) {
		s := newSite()
		volume, err := reloadtest.NewKubelet(s.dir, s.issue().Files())
		Expect(err).NotTo(HaveOccurred())
		r := s.started(ctx)
		Expect(volume.Update(s.issue().Files())).To(Succeed())
		s.look()
		Expect(r.Status().Generation).To(BeEquivalentTo(2))
		s.later()
		k := s.issue()
		s.put(k.Files()) // through the links
		s.look()
		Expect(r.Status().Generation).To(BeEquivalentTo(2))
		pass(reload.DefaultSettle)
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("is not needed at the first look for files that nobody has touched for two seconds", func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		Eventually(ctx, func() time.Duration {
			info, err := os.Stat(s.path("tls.crt"))
			Expect(err).NotTo(HaveOccurred())
			return time.Since(info.ModTime())
		}).Should(BeNumerically(">", 2100*time.Millisecond))
		r := s.reloader(func(o *reload.WatchOptions) { o.Settle = time.Hour })
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(time.Minute))

	It("waits through a file written in pieces, and takes the last", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.disk.Order = []string{"tls.key", "tls.crt"}
		k := s.ca.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{})
		s.put(k.Files())
		r := s.started(ctx)
		next := s.ca.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{})
		s.write("tls.key", next.KeyPEM)
		s.look()
		piece := len(next.CertPEM)/20 + 1
		for at := 0; at < len(next.CertPEM); at += piece {
			s.write("tls.crt", next.CertPEM[:min(at+piece, len(next.CertPEM))])
			s.look()
			pass(reload.DefaultSettle / 10)
		}
		s.settled()
		Expect(r.Bundle().Fingerprint).To(Equal(next.Fingerprint()))
		Expect(r.Bundle().Cert.Certificate).To(HaveLen(2))
		Expect(r.Status().Generation).To(BeEquivalentTo(2))
	}, SpecTimeout(30*time.Second))

	It("is over in the end though the files are touched without end", Label("fs"), func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.reloader(heard, func(o *reload.WatchOptions) { o.Settle = 50 * time.Millisecond })
		s.running(ctx, r)
		var k *reloadtest.Keypair
		start := time.Now()
		Eventually(ctx, func() string { // polls, and so touches, every 10 ms
			if k == nil && time.Since(start) > 200*time.Millisecond {
				k = s.rotate()
			}
			Expect(os.Chtimes(s.path("tls.crt"), time.Time{}, time.Now())).To(Succeed())
			if k == nil {
				return "not yet"
			}
			return r.Bundle().Fingerprint
		}).Should(WithTransform(func(live string) bool { return k != nil && live == k.Fingerprint() }, BeTrue()))
	}, SpecTimeout(time.Minute))

	It("is over in the end though the same files are written again and again, and torn in between", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.put(s.issue().Files(s.ca))
		r := s.started(ctx)
		k := s.issue() // beside the CA file of before: five times as long
		s.write("tls.key", k.KeyPEM)
		start := time.Now()
		for time.Since(start) < 3*time.Second {
			s.write("tls.crt", k.CertPEM[:len(k.CertPEM)/2])
			s.look()
			s.later()
			s.write("tls.crt", k.CertPEM)
			s.look()
			pass(300 * time.Millisecond)
		}
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		Expect(r.Status().LastSwap.Sub(start)).To(BeNumerically(">=", 2*time.Second))
	}, SpecTimeout(30*time.Second))

	It("begins anew for what was seen whole a long time ago", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		k := s.rotate()
		s.look()
		s.write("tls.crt", k.CertPEM[:len(k.CertPEM)/2])
		s.look()
		pass(time.Hour)
		s.put(k.Files())
		s.look()
		pass(reload.DefaultSettle - time.Millisecond)
		Expect(r.Status().Generation).To(BeEquivalentTo(1))
		pass(time.Millisecond)
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("hears the last of many events", Label("fs"), func(ctx SpecContext) {
		s := newSite()
		k := s.ca.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{})
		s.put(k.Files())
		r := s.reloader(heard)
		s.running(ctx, r)
		for range 5 {
			next := s.ca.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{})
			s.write("tls.key", next.KeyPEM)
			f, err := os.OpenFile(s.path("tls.crt"), os.O_WRONLY|os.O_TRUNC, 0)
			Expect(err).NotTo(HaveOccurred())
			for _, piece := range bytes.SplitAfter(next.CertPEM, []byte("\n")) {
				_, err := f.Write(piece)
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(f.Close()).To(Succeed())
			Eventually(ctx, func() int {
				if b := r.Bundle(); b.Fingerprint == next.Fingerprint() {
					return len(b.Cert.Certificate)
				}
				return 0
			}).Should(Equal(2))
		}
	}, SpecTimeout(time.Minute))
})

// everything replaces every file.
func everything(s *site, _ *reloadtest.Keypair) {
	other := reloadtest.NewCA(reloadtest.Options{})
	s.put(other.Intermediate(reloadtest.Options{}).Issue(reloadtest.Options{}).Files(other, s.ca))
}
