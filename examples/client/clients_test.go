package main

// clients_test.go says what three kinds of clients make of a rotation, by name and by address.

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/seed45259946/reload/examples/internal/party"
	"github.com/seed45259946/reload/examples/internal/program"
	"github.com/seed45259946/reload/reloadtest"
)

// once has a driver use each connection once.
const once = time.Nanosecond

func init() {
	redis.SetLogger(silent{}) // drivers tell of each dial that fails
	log.SetOutput(GinkgoWriter)
}

var _ = Describe("a client", func() {
	var (
		server, client *party.Party
		through        *proxy
		ports          [3]string // of the HTTPS server, of the Redis server, of the proxy
	)

	BeforeEach(func() {
		dir, servers, clients := GinkgoT().TempDir(), party.NewCA("servers"), party.NewCA("clients")
		server, client = must(party.New(dir, "server", servers, clients)), must(party.New(dir, "client 1", clients, servers))
		until(server.Start)
		until(client.Start)
		through = new(proxy)
		for i, serve := range []func(context.Context, net.Listener) error{
			func(ctx context.Context, l net.Listener) error { return serveHTTPS(ctx, l, server.Reloader) },
			func(ctx context.Context, l net.Listener) error { return serveRedis(ctx, l, server.Reloader) },
			through.serve,
		} {
			l := must(net.Listen("tcp", "127.0.0.1:0"))
			until(func(ctx context.Context) error { return serve(ctx, l) })
			ports[i] = fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
		}
	})

	// calling makes a client of a server at host. Each call of a driver is on a connection of its own.
	calling := func(kind, host string) call {
		GinkgoHelper()
		addr := net.JoinHostPort(host, ports[1])
		var driver *redis.Client
		switch kind {
		case "HTTPS":
			c := must(throughProxy(client.Reloader, &url.URL{Scheme: "http", Host: "127.0.0.1:" + ports[2]}))
			DeferCleanup(c.CloseIdleConnections)
			return func(ctx context.Context) (string, error) {
				return get(ctx, c, "https://"+net.JoinHostPort(host, ports[0]))
			}
		case "dialling":
			driver = dialling(client.Reloader, addr, once)
		case "static":
			driver = static(client.Reloader, addr, host, once)
		case "static, the driver sets the name":
			driver = static(client.Reloader, addr, "", once)
		}
		driver = impatient(driver)
		DeferCleanup(driver.Close)
		return func(ctx context.Context) (string, error) { return whoAmI(ctx, driver) }
	}

	kinds := func(body func(ctx SpecContext, kind, host string)) []any {
		return []any{
			body,
			Entry("of HTTPS, by name", SpecTimeout(program.Limit), "HTTPS", "localhost"),
			Entry("of HTTPS, by address", SpecTimeout(program.Limit), "HTTPS", "127.0.0.1"),
			Entry("of a driver that dials, by name", SpecTimeout(program.Limit), "dialling", "localhost"),
			Entry("of a driver that dials, by address", SpecTimeout(program.Limit), "dialling", "127.0.0.1"),
			Entry("of a driver with one config, by name", SpecTimeout(program.Limit), "static", "localhost"),
			Entry("of a driver with one config, by address", SpecTimeout(program.Limit), "static", "127.0.0.1"),
			Entry("of a driver with one config, which sets the name", SpecTimeout(program.Limit), "static, the driver sets the name", "localhost"),
		}
	}

	DescribeTable("comes under the identity in the files, rotation after rotation", kinds(
		func(ctx SpecContext, kind, host string) {
			who := calling(kind, host)
			for i := range 4 {
				Expect(who(ctx)).To(Equal(client.Name))
				client.Name = fmt.Sprintf("client %d", i+2)
				Expect(client.Renew(ctx)).To(Succeed())
			}
			if kind == "HTTPS" {
				Expect(through.tunnels.Load()).To(BeEquivalentTo(4), "one for each identity, all through the proxy")
			}
		})...)

	DescribeTable("is served at every moment of a change of the servers' CA, and by nobody of the old one after it", kinds(
		func(ctx SpecContext, kind, host string) {
			who, first := calling(kind, host), server.CA
			var calls sync.WaitGroup
			var made atomic.Int64
			during, stop := context.WithCancel(ctx)
			calls.Go(func() {
				defer GinkgoRecover()
				for ; during.Err() == nil; made.Add(1) {
					Expect(who(ctx)).To(Equal("client 1"))
				}
			})
			// A call that is under way may still judge the server by the roots it began with.
			over := func() { Eventually(ctx, made.Load).Should(BeNumerically(">", made.Load()+1)) }
			for range 3 {
				old, next := server.CA, party.NewCA("servers")
				Expect(client.Trust(ctx, next, old)).To(Succeed())
				over()
				server.CA = next
				Expect(server.Renew(ctx)).To(Succeed())
				over()
				Expect(client.Trust(ctx, next)).To(Succeed())
				over()
			}
			stop()
			calls.Wait()

			server.CA = first
			Expect(server.Renew(ctx)).To(Succeed())
			Expect(calling(kind, host)(ctx)).Error().To(MatchError(ContainSubstring("certificate signed by unknown authority")))
		})...)

	DescribeTable("trusts nobody but the server that it asked for", kinds(
		func(ctx SpecContext, kind, host string) {
			server.Keypair = server.CA.Issue(reloadtest.Options{DNS: []string{"elsewhere"}, IPs: []net.IP{net.IPv4(127, 0, 0, 2)}})
			Expect(server.Update(ctx)).To(Succeed())
			Expect(calling(kind, host)(ctx)).Error().To(MatchError(MatchRegexp("x509: certificate is valid for .*, not " + host)))
		})...)

	DescribeTable("is refused once its CA was withdrawn, until it has a certificate of the new one", kinds(
		func(ctx SpecContext, kind, host string) {
			client.CA = party.NewCA("newcomers")
			Expect(server.Trust(ctx, client.CA)).To(Succeed())
			who := calling(kind, host)
			Expect(who(ctx)).Error().To(HaveOccurred())
			Expect(client.Renew(ctx)).To(Succeed())
			Expect(who(ctx)).To(Equal("client 1"))
		})...)

	DescribeTable("of a driver keeps the identity of a connection as long as that lives",
		func(ctx SpecContext, make func(lifetime time.Duration) *redis.Client) {
			driver := make(0)
			DeferCleanup(driver.Close)
			Expect(whoAmI(ctx, driver)).To(Equal("client 1"))
			client.Name = "client 2"
			Expect(client.Renew(ctx)).To(Succeed())
			Expect(whoAmI(ctx, driver)).To(Equal("client 1"))

			bounded := make(100 * time.Millisecond)
			DeferCleanup(bounded.Close)
			client.Name = "client 3"
			Expect(whoAmI(ctx, bounded)).To(Equal("client 2"))
			Expect(client.Renew(ctx)).To(Succeed())
			Eventually(ctx, func() (string, error) { return whoAmI(ctx, bounded) }).Should(Equal("client 3"))
		},
		Entry("that dials", SpecTimeout(program.Limit), func(lifetime time.Duration) *redis.Client {
			return dialling(client.Reloader, "127.0.0.1:"+ports[1], lifetime)
		}),
		Entry("with one config", SpecTimeout(program.Limit), func(lifetime time.Duration) *redis.Client {
			return static(client.Reloader, "127.0.0.1:"+ports[1], "localhost", lifetime)
		}),
	)

	It("of a driver with one config has to be told the address that it dials", func(ctx SpecContext) {
		Expect(calling("static, the driver sets the name", "127.0.0.1")(ctx)).Error().To(MatchError(ContainSubstring("reload: no server name to verify")))
	}, SpecTimeout(program.Limit))

	It("of HTTPS has no request fail in the middle of rotations, nor go out late under an identity that is gone", func(ctx SpecContext) {
		who := calling("HTTPS", "localhost")
		ctx2, stop := context.WithCancel(ctx)
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				defer GinkgoRecover()
				for ctx2.Err() == nil {
					before := client.Bundle().Cert.Leaf.Subject.CommonName
					name, err := who(ctx)
					Expect(err).NotTo(HaveOccurred())
					Expect(name >= before).To(BeTrue(), "%s, and it was %s before the request", name, before)
				}
			})
		}
		for i := range 7 {
			client.Name = fmt.Sprintf("client %d", i+2)
			Expect(client.Renew(ctx)).To(Succeed())
		}
		stop()
		calls.Wait()
		Expect(who(ctx)).To(Equal("client 8"))
	}, SpecTimeout(program.Limit))

	It("gets what the proxy says where that does not connect it", func(ctx SpecContext) {
		proxied := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:" + ports[2]}), DisableKeepAlives: true}
		request := must(http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost:"+ports[0], nil))
		response := must(proxied.RoundTrip(request))
		response.Body.Close()
		Expect(response).To(HaveHTTPStatus(http.StatusMethodNotAllowed))
		request = must(http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost:0", nil))
		Expect(proxied.RoundTrip(request)).Error().To(MatchError("Bad Gateway"))
	}, SpecTimeout(program.Limit))
})

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

// impatient returns the same client, but that it tries once.
func impatient(c *redis.Client) *redis.Client {
	GinkgoHelper()
	options := *c.Options()
	Expect(c.Close()).To(Succeed())
	options.MaxRetries, options.DialerRetries = -1, 1
	return redis.NewClient(&options)
}

// silent is a logger of go-redis.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func must[T any](v T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return v
}
