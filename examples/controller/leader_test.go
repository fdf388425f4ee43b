package main

// leader_test.go has two replicas of which one leads.

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var _ = Describe("a leader and a follower", func() {
	It("both follow their files", func(ctx SpecContext) {
		w, s := newSettings()
		shared := new(lease)
		// next starts another replica.
		next := func(name string) (*replica, settings) {
			s, err := w.settings()
			Expect(err).NotTo(HaveOccurred())
			s.manager.LeaderElection = true
			s.manager.LeaderElectionResourceLockInterface = candidate{shared, name}
			retry, deadline, duration := 100*time.Millisecond, limit, 2*limit // a slow machine keeps the lease
			s.manager.RetryPeriod, s.manager.RenewDeadline, s.manager.LeaseDuration = &retry, &deadline, &duration
			return start(ctx, s), s
		}
		Expect(s.proxy.Close()).To(Succeed())
		leader, leaders := next("a")
		Eventually(ctx, leader.manager.Elected()).Should(BeClosed())
		follower, followers := next("b")

		Expect(w.rotate()).To(Succeed())
		for _, s := range []settings{leaders, followers} {
			v := visitorFrom(w.ca, w)
			Eventually(ctx, v.leaf(ctx, "https://"+s.manager.Metrics.BindAddress+"/metrics")).Should(Equal("serving-2"))
		}
		for _, r := range []*replica{leader, follower} {
			Eventually(ctx, func() (string, error) { return r.client.whoAmI(ctx) }).Should(Equal("upstream-2"))
		}
		Expect(follower.manager.Elected()).NotTo(BeClosed())
	}, SpecTimeout(limit))
})

// lease is a lock in the memory of this process.
type lease struct {
	mu     sync.Mutex
	record *resourcelock.LeaderElectionRecord
}

// candidate is who wants the lease.
type candidate struct {
	*lease
	name string
}

var _ resourcelock.Interface = candidate{}

func (c candidate) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "controller")
	}
	record := *c.record
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (c candidate) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return c.Update(ctx, record)
}

func (c candidate) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record = &record
	return nil
}

func (c candidate) RecordEvent(string) {}
func (c candidate) Identity() string   { return c.name }
func (c candidate) Describe() string   { return c.name }
