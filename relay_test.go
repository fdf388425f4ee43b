package reload_test

// What is told of a swap, and how.

import (
	"context"
	"runtime"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
)

var _ = Describe("OnSwap", func() {
	It("is called in order, one call at a time, and delays no publication", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		begun, done := make(chan *reload.Bundle, 100), make(chan *reload.Bundle, 100)
		r := s.started(ctx, func(o *reload.WatchOptions) {
			o.OnSwap = func(b *reload.Bundle) {
				begun <- b
				time.Sleep(time.Hour)
				done <- b
			}
		})
		var all []*reload.Bundle
		for range 5 {
			k := s.rotate()
			s.settled()
			Expect(s.shown(r)).To(Equal(k.Fingerprint()))
			all = append(all, r.Bundle())
		}
		for _, b := range all {
			Expect(begun).To(Receive(BeIdenticalTo(b)))
			Expect(begun).To(BeEmpty())
			Expect(done).To(BeEmpty())
			pass(time.Hour)
			Expect(done).To(Receive(BeIdenticalTo(b)))
		}
	}, SpecTimeout(5*time.Second))

	It("may call everything, also Reload, Subscribe and what ends the watching", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		running, stop := context.WithCancel(ctx)
		var r *reload.Reloader
		checked := make(chan string, 1)
		r = s.reloader(func(o *reload.WatchOptions) {
			o.OnSwap = func(b *reload.Bundle) {
				defer GinkgoRecover()
				Expect(r.Reload(ctx)).To(Succeed())
				Expect(r.Bundle()).To(BeIdenticalTo(b))
				Expect(r.Status().Fingerprint).To(Equal(b.Fingerprint))
				Expect(r.Status().Generation).To(BeEquivalentTo(2))
				Expect(pendingOf(r)).NotTo(HaveOccurred())
				Expect(r.Check(nil)).To(Succeed())
				r.Store().Subscribe(func(*reload.Bundle) {})()
				r.Store().Store(b)
				shown := s.shown(r)
				stop()
				checked <- shown
			}
		})
		ended := make(chan error, 1)
		go func() { ended <- r.Start(running) }()
		synctest.Wait()
		k := s.rotate()
		s.settled()
		Expect(checked).To(Receive(Equal(k.Fingerprint())))
		Expect(ended).To(Receive(BeNil()))
	}, SpecTimeout(5*time.Second))

	It("that panics is logged with its stack, and called again", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		told := make(chan string, 10)
		s.started(ctx, func(o *reload.WatchOptions) {
			o.OnSwap = func(b *reload.Bundle) { told <- b.Fingerprint; panic("no more") }
		})
		for range 3 {
			k := s.rotate()
			s.settled()
			Expect(told).To(Receive(Equal(k.Fingerprint())))
		}
		Expect(s.log.said()).To(Equal([]string{"keypair loaded",
			"keypair reloaded", "callback panicked", "keypair reloaded", "callback panicked", "keypair reloaded", "callback panicked"}))
		panicked := s.log.last()
		Expect(panicked["panic"]).To(Equal("no more"))
		Expect(panicked["stack"]).To(ContainSubstring("relay_test.go"))
	}, SpecTimeout(5*time.Second))

	It("that ends its goroutine, as a failing test does, is called again", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		told := make(chan string, 10)
		running, stop := context.WithCancel(ctx)
		r := s.reloader(func(o *reload.WatchOptions) {
			o.OnSwap = func(b *reload.Bundle) { told <- b.Fingerprint; runtime.Goexit() }
		})
		ended := make(chan error, 1)
		go func() { ended <- r.Start(running) }()
		synctest.Wait()
		for range 3 {
			k := s.rotate()
			s.settled()
			Expect(told).To(Receive(Equal(k.Fingerprint())))
		}
		stop()
		synctest.Wait()
		Expect(ended).To(Receive(BeNil()))
	}, SpecTimeout(5*time.Second))

	It("is waited for when watching ends, and what was queued is told", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		running, stop := context.WithCancel(ctx)
		told := make(chan *reload.Bundle, 10)
		r := s.reloader(func(o *reload.WatchOptions) {
			o.OnSwap = func(b *reload.Bundle) { time.Sleep(2 * time.Second); told <- b }
		})
		ended := make(chan error, 1)
		go func() { ended <- r.Start(running) }()
		synctest.Wait()
		for range 2 {
			s.rotate()
			s.settled()
		}
		stop()
		synctest.Wait()
		Expect(ended).NotTo(Receive())
		pass(4 * time.Second)
		Expect(ended).To(Receive(BeNil()))
		Expect(told).To(HaveLen(2))
	}, SpecTimeout(5*time.Second))

	It("is waited for no longer than five seconds", inBubble, func(ctx SpecContext) {
		s := newSite()
		s.rotate()
		running, stop := context.WithCancel(ctx)
		release, calls := make(chan struct{}), make(chan struct{}, 10)
		r := s.reloader(func(o *reload.WatchOptions) {
			o.OnSwap = func(*reload.Bundle) { calls <- struct{}{}; <-release }
		})
		ended := make(chan error, 1)
		go func() { ended <- r.Start(running) }()
		synctest.Wait()
		for range 2 {
			s.rotate()
			s.settled()
		}
		stop()
		pass(5*time.Second - time.Millisecond)
		Expect(ended).NotTo(Receive())
		pass(time.Millisecond)
		Expect(ended).To(Receive(BeNil()))
		close(release)
		synctest.Wait()
		Expect(calls).To(HaveLen(1), "the second was dropped")
	}, SpecTimeout(5*time.Second))
})
