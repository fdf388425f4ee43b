package reload_test

// What happens while there is a fault on disk: nothing to what is live, once each to the log and the metrics.

import (
	"io/fs"
	"os"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

const warning = "reload failed, keeping previous keypair"

var _ = Describe("A fault on disk", func() {
	DescribeTable("keeps the last good bundle and heals by itself:", inBubble, func(ctx SpecContext, harm func(*site), cause any) {
		s := newSite()
		old := s.issue()
		s.put(old.Files(s.ca))
		r := s.started(ctx)
		live := r.Bundle()
		s.log.forget()

		harm(s)
		begin := time.Now()
		s.look()
		Expect(pendingOf(r)).To(MatchError(cause), "at once")
		Expect(r.Status().PendingSince).To(BeTemporally("==", begin))
		Expect(s.log.said()).To(BeEmpty())
		Expect(s.tally.failures()).To(BeZero())

		pass(10 * time.Minute)
		Expect(pendingOf(r)).To(MatchError(cause))
		Expect(pendingOf(r)).To(MatchError(HavePrefix("reload: ")))
		Expect(r.Status().PendingSince).To(BeTemporally("==", begin))
		Expect(r.Bundle()).To(BeIdenticalTo(live))
		Expect(s.shown(r)).To(Equal(old.Fingerprint()))
		Expect(r.Bundle().ClientCAs.Equal(s.ca.Pool())).To(BeTrue())
		Expect(r.Check(nil)).To(Succeed())
		Expect(s.log.said()).To(Equal([]string{warning}))
		Expect(s.tally.failures()).To(Equal(1))
		Expect(s.tally.liveUntil()).To(BeTemporally("==", old.Leaf.NotAfter))

		os.RemoveAll(s.path("tls.crt"))
		k := s.issue()
		s.put(k.Files(s.ca))
		pass(reload.DefaultResync + time.Second)
		Expect(s.shown(r)).To(Equal(k.Fingerprint()), "without any hint")
		Expect(pendingOf(r)).NotTo(HaveOccurred())
		Expect(r.Status().PendingSince).To(BeZero())
		Expect(s.log.said()).To(Equal([]string{warning, "keypair reloaded", "reload recovered"}))
		ok, failed := s.tally.counts()
		Expect([]int{ok, failed}).To(Equal([]int{2, 1}))
	},
		Entry("a missing certificate", remove("tls.crt"), fs.ErrNotExist),
		Entry("a missing key", remove("tls.key"), fs.ErrNotExist),
		Entry("both deleted", remove("tls.crt", "tls.key"), fs.ErrNotExist),
		Entry("all deleted", remove("tls.crt", "tls.key", "ca.crt"), fs.ErrNotExist),
		Entry("the CA file deleted", remove("ca.crt"), fs.ErrNotExist),
		Entry("the CA file deleted under a new pair", spoil(func(s *site) { s.rotate(); s.remove("ca.crt") }), fs.ErrNotExist),
		Entry("an emptied certificate", fill("tls.crt", ""), reload.ErrMalformedPEM),
		Entry("an emptied key", fill("tls.key", "\n\n"), reload.ErrMalformedPEM),
		Entry("an emptied CA file", fill("ca.crt", ""), reload.ErrMalformedPEM),
		Entry("an emptied CA file under a new pair", spoil(func(s *site) { s.rotate(); s.write("ca.crt", []byte(" \n")) }), reload.ErrMalformedPEM),
		Entry("a CA file that holds a key", spoil(func(s *site) { s.write("ca.crt", s.issue().KeyPEM) }), reload.ErrMalformedPEM),
		Entry("a CA file with one damaged block", spoil(func(s *site) {
			s.write("ca.crt", append(s.ca.PEM(), "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n"...))
		}), reload.ErrMalformedPEM),
		Entry("a new pair beside a damaged CA file", spoil(func(s *site) { s.rotate(); s.write("ca.crt", []byte("hello")) }), reload.ErrMalformedPEM),
		Entry("garbage", fill("tls.crt", "hello"), reload.ErrMalformedPEM),
		Entry("a certificate cut short", spoil(func(s *site) { c := s.issue().CertPEM; s.write("tls.crt", c[:len(c)/2]) }), reload.ErrMalformedPEM),
		Entry("a mismatched pair", spoil(func(s *site) { s.write("tls.crt", s.issue().CertPEM) }), reload.ErrKeyMismatch),
		Entry("swapped files", spoil(func(s *site) {
			k := s.issue()
			s.put(reloadtest.Files{"tls.crt": k.KeyPEM, "tls.key": k.CertPEM})
		}), reload.ErrMalformedPEM),
		Entry("an encrypted key", fill("tls.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\naGVsbG8=\n-----END ENCRYPTED PRIVATE KEY-----\n"), reload.ErrEncryptedKey),
		Entry("a directory in the place of a file", spoil(func(s *site) {
			s.remove("tls.crt")
			Expect(os.Mkdir(s.path("tls.crt"), 0o755)).To(Succeed())
		}), ContainSubstring("tls.crt: is a directory, want a regular file")),
		Entry("a link that leads nowhere", spoil(func(s *site) {
			s.remove("tls.crt")
			Expect(os.Symlink("nowhere", s.path("tls.crt"))).To(Succeed())
		}), fs.ErrNotExist),
	)

	It("is retried from 50 ms on, more and more slowly up to Resync", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		tries := make(chan time.Time, 1000)
		first := true
		s.started(ctx, func(o *reload.WatchOptions) {
			o.Validate = func(*reload.Bundle) error {
				if first {
					first = false
					return nil
				}
				tries <- time.Now()
				return errRefused
			}
		})
		s.rotate()
		s.look()
		pass(10 * time.Minute)
		close(tries)
		var waits []time.Duration
		last := time.Time{}
		for at := range tries {
			if !last.IsZero() {
				waits = append(waits, at.Sub(last))
			}
			last = at
		}
		ms := time.Millisecond
		Expect(waits[:5]).To(Equal([]time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms}))
		Expect(waits[11:]).To(HaveEach(And(BeNumerically(">=", 54*time.Second), BeNumerically("<=", time.Minute))))
		Expect(len(waits)).To(BeNumerically("<=", 22))
	}, SpecTimeout(30*time.Second))

	It("that heals within two seconds is not told of", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		s.log.forget()
		for range 10 {
			k := s.issue()
			s.write("tls.crt", k.CertPEM)
			s.look()
			Expect(pendingOf(r)).To(MatchError(reload.ErrKeyMismatch))
			pass(1900 * time.Millisecond)
			s.write("tls.key", k.KeyPEM)
			s.settled()
			Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		}
		ok, failed := s.tally.counts()
		Expect([]int{ok, failed}).To(Equal([]int{11, 0}))
		Expect(s.log.said()).To(HaveEach("keypair reloaded"))
	}, SpecTimeout(30*time.Second))

	It("is told of after exactly two seconds, whatever the retries do", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		s.started(ctx)
		s.write("tls.key", s.issue().KeyPEM)
		s.look()
		pass(2*time.Second - time.Millisecond)
		Expect(s.tally.failures()).To(BeZero())
		pass(time.Millisecond)
		Expect(s.tally.failures()).To(Equal(1))
	}, SpecTimeout(30*time.Second))

	It("is told of once for each cause, in one line with cause and bundle", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		s.log.forget()
		for i, harm := range []func(*site){remove("tls.crt"), fill("tls.crt", "hello"), fill("tls.crt", "")} {
			harm(s)
			s.look()
			pass(time.Minute)
			Expect(s.tally.failures()).To(Equal(i + 1))
			Expect(s.log.said()).To(HaveLen(i + 1))
			Expect(s.log.last()["err"]).To(MatchError(pendingOf(r).Error()))
			Expect(s.log.last()["bundle"]).To(BeIdenticalTo(r.Bundle()))
		}
	}, SpecTimeout(30*time.Second))

	It("that comes and goes within one streak is not told of again", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		s.started(ctx)
		for range 100 {
			s.write("tls.crt", []byte("hello"))
			s.look()
			pass(3 * time.Second)
			s.remove("tls.crt")
			s.look()
			pass(3 * time.Second)
		}
		Expect(s.tally.failures()).To(Equal(2))
		Expect(s.log.said()).To(Equal([]string{"keypair loaded", warning, warning}))
	}, SpecTimeout(30*time.Second))

	It("that passes while another lasts is not told of", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		s.write("tls.key", s.issue().KeyPEM)
		s.look()
		pass(10 * time.Minute)
		Expect(s.tally.failures()).To(Equal(1))
		k := s.issue()
		for _, half := range [][]byte{nil, k.CertPEM[:100]} { // the way out, by a writer that takes its time
			s.write("tls.crt", half)
			s.look()
			pass(time.Second)
		}
		s.put(k.Files())
		s.settled()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
		Expect(s.tally.failures()).To(Equal(1))
		Expect(s.log.said()).To(Equal([]string{"keypair loaded", warning, "keypair reloaded", "reload recovered"}))
	}, SpecTimeout(30*time.Second))

	It("of ever new kinds fills neither the log nor the memory", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		s.started(ctx)
		for i := range 100 {
			s.write("tls.crt", append(slices.Repeat([]byte("\n"), i), "-----BEGIN "...))
			s.look()
			pass(3 * time.Second)
		}
		Expect(s.tally.failures()).To(BeNumerically("<=", 16))
	}, SpecTimeout(30*time.Second))

	It("is over when the files are again what is live", inBubble, func(ctx SpecContext) {
		s := newSite()
		k := s.rotate()
		r := s.started(ctx)
		live := r.Bundle()
		s.log.forget()
		s.write("tls.crt", []byte("hello"))
		s.look()
		pass(time.Minute)
		s.put(k.Files())
		s.look()
		Expect(pendingOf(r)).NotTo(HaveOccurred())
		Expect(r.Bundle()).To(BeIdenticalTo(live))
		Expect(s.log.said()).To(Equal([]string{warning, "reload recovered"}))
		ok, failed := s.tally.counts()
		Expect([]int{ok, failed}).To(Equal([]int{1, 1}))
	}, SpecTimeout(30*time.Second))

	It("of one bundle is none of another", inBubble, func(ctx SpecContext) {
		a, b := newSite(), newSite()
		old := a.rotate()
		b.rotate()
		ra, rb := a.started(ctx), b.started(ctx)
		a.remove("tls.key")
		k := b.rotate()
		a.look()
		b.settled()
		Expect(a.shown(ra)).To(Equal(old.Fingerprint()))
		Expect(b.shown(rb)).To(Equal(k.Fingerprint()))
		Expect(pendingOf(ra)).To(MatchError(ContainSubstring(a.path("tls.key"))))
		Expect(pendingOf(rb)).NotTo(HaveOccurred())
	}, SpecTimeout(30*time.Second))

	It("of some size is not taken for what comes after it in the same size", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		r := s.started(ctx)
		k := s.issue()
		when := time.Unix(1e9, 0)
		bad := slices.Clone(k.CertPEM)
		bad[len(bad)/2] ^= 1
		s.put(reloadtest.Files{"tls.crt": bad, "tls.key": k.KeyPEM})
		Expect(os.Chtimes(s.path("tls.crt"), when, when)).To(Succeed())
		s.look()
		Expect(pendingOf(r)).To(HaveOccurred())
		s.write("tls.crt", k.CertPEM)
		Expect(os.Chtimes(s.path("tls.crt"), when, when)).To(Succeed())
		s.settled()
		Expect(s.shown(r)).To(Equal(k.Fingerprint()))
	}, SpecTimeout(30*time.Second))

	It("repeats nothing at a level that people see, however long it lasts", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		s.started(ctx)
		s.write("tls.key", s.issue().KeyPEM)
		pass(12 * time.Hour) // half of its lifetime
		Expect(s.log.said()).To(Equal([]string{"keypair loaded", warning}))
		Expect(s.tally.failures()).To(Equal(1))
	}, SpecTimeout(30*time.Second))
})
