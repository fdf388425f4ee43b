package main

// fixtures_test.go is what specs of tunnels and of pages have in common.

import (
	"context"
	"crypto/tls"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/quic-go/quic-go"

	"github.com/seed45259946/reload/examples/internal/party"
	"github.com/seed45259946/reload/examples/internal/program"
	"github.com/seed45259946/reload/reloadtest"
)

// newParties makes both ends, and has them follow their files until the spec is over.
func newParties() (server, client *party.Party) {
	GinkgoHelper()
	dir, servers, clients := GinkgoT().TempDir(), party.NewCA("servers"), party.NewCA("clients")
	server, client = must(party.New(dir, "server", servers, clients)), must(party.New(dir, "client", clients, servers))
	until(server.Start)
	until(client.Start)
	return server, client
}

// until runs what runs until its context is done, which is when the spec is over. What is started later ends first.
func until(run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	DeferCleanup(func(ctx SpecContext) {
		stop()
		var err error
		Eventually(ctx, ended).Should(Receive(&err))
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(program.Limit))
}

// sessions is a cache that tells when a session has come: a server sends them after the handshake.
type sessions struct {
	tls.ClientSessionCache
	kept chan struct{}
}

func newSessions() sessions {
	return sessions{tls.NewLRUClientSessionCache(0), make(chan struct{}, 100)}
}

func (s sessions) Put(key string, session *tls.ClientSessionState) {
	s.ClientSessionCache.Put(key, session)
	if session != nil {
		s.kept <- struct{}{}
	}
}

func (s sessions) await(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, s.kept).Should(Receive())
}

// peer returns the fingerprint of the leaf of the other side.
func peer(conn *quic.Conn) string {
	GinkgoHelper()
	Expect(conn.ConnectionState().TLS.PeerCertificates).NotTo(BeEmpty())
	return (&reloadtest.Keypair{Leaf: conn.ConnectionState().TLS.PeerCertificates[0]}).Fingerprint()
}

func must[T any](v T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return v
}

func must2[A, B any](a A, b B, err error) (A, B) {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return a, b
}
