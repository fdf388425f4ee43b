package wiring_test

// clients_test.go proves the clients of the table: each connects under the live identity, and only to servers that the live
// trust roots lead to.

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/IBM/sarama"
	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/go-sql-driver/mysql"
	"github.com/nats-io/nats.go"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/segmentio/kafka-go"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/examples/wiring"
	"github.com/seed45259946/reload/reloadtest"
)

// maker makes a client of the server at addr, once, and returns what has it connect. Nobody is there to speak its protocol,
// so that its errors say nothing.
type maker func(r *reload.Reloader, addr string) (connect func(context.Context))

const (
	byIP   = "127.0.0.1"
	byName = "localhost"
)

var _ = Describe("a client", func() {
	DescribeTable("made once connects under what is live, before and after a rotation, and to nobody else",
		func(ctx SpecContext, host string, open opening, client maker) {
			o, p := newRotation(), newPeer(host, open)
			p.show(o.cas[1].Issue(reloadtest.Options{})) // to clients that connect as soon as they are made
			connect := client(o.Reloader, p.addr)
			try := func(s *shot) {
				one, cancel := context.WithTimeout(ctx, 3*time.Second)
				defer cancel()
				go func() { // some would go on to the end
					select {
					case <-s.taken:
						cancel()
					case <-one.Done():
					}
				}()
				connect(one)
			}
			for i := range o.cas {
				for _, impostor := range []*reloadtest.Keypair{
					o.cas[1-i].Issue(reloadtest.Options{}),
					o.cas[i].Issue(reloadtest.Options{DNS: []string{"elsewhere.example"}}),
				} {
					s := p.show(impostor)
					Eventually(ctx, func() int { try(s); return s.refusals() }).Should(BeNumerically(">", 0))
					Expect(s.leaves()).To(BeEmpty())
				}
				s := p.show(o.cas[i].Issue(reloadtest.Options{}))
				Eventually(ctx, func() []string { try(s); return s.leaves() }).ShouldNot(BeEmpty())
				Expect(s.leaves()).To(HaveEach(o.leaves[i].Fingerprint()))
				if i == 0 {
					o.rotate(ctx)
				}
			}
		},
		Entry("net/http", SpecTimeout(limit), byIP, opening(plain), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			c := must(wiring.HTTPClient(r))
			return func(context.Context) { ignore(c.Get("https://" + addr)) }
		})),
		Entry("go-redis", SpecTimeout(limit), byIP, opening(plain), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			c := wiring.Redis(r, addr)
			DeferCleanup(c.Close)
			return func(ctx context.Context) { c.Ping(ctx) }
		})),
		Entry("franz-go", SpecTimeout(limit), byIP, opening(plain), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			c := must(wiring.Franz(r, addr))
			DeferCleanup(c.Close)
			return func(ctx context.Context) { _ = c.Ping(ctx) }
		})),
		Entry("kafka-go, reading", SpecTimeout(limit), byIP, opening(plain), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			d := wiring.KafkaReader(r)
			return func(ctx context.Context) { ignore(d.DialContext(ctx, "tcp", addr)) }
		})),
		Entry("kafka-go, writing", SpecTimeout(limit), byIP, opening(plain), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			t := wiring.KafkaWriter(r)
			DeferCleanup(t.CloseIdleConnections)
			c := &kafka.Client{Addr: kafka.TCP(addr), Transport: t}
			return func(ctx context.Context) { ignore(c.Metadata(ctx, &kafka.MetadataRequest{})) }
		})),
		Entry("sarama", SpecTimeout(limit), byName, opening(plain), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			config, broker := wiring.Sarama(r), sarama.NewBroker(addr)
			return func(context.Context) {
				ignore(broker, broker.Open(config))
				ignore(broker.Connected())
				_ = broker.Close()
			}
		})),
		Entry("nats.go", SpecTimeout(limit), byIP, after(natsInfo), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			c := must(wiring.NATS(r, "nats://"+addr,
				nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond)))
			DeferCleanup(c.Close)
			return func(context.Context) {} // it tries by itself
		})),
		Entry("paho mqtt", SpecTimeout(limit), byIP, opening(plain), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			c := paho.NewClient(wiring.Paho(r, "tls://"+addr))
			return func(context.Context) { c.Connect().Wait() }
		})),
		Entry("amqp091", SpecTimeout(limit), byIP, opening(plain), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			return func(context.Context) { ignore(wiring.AMQP(r, "amqps://"+addr)) }
		})),
		Entry("gRPC", SpecTimeout(limit), byIP, opening(plain), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			c := must(wiring.GRPCClient(r, addr, impatient))
			DeferCleanup(c.Close)
			return func(context.Context) { c.Connect() }
		})),
		Entry("etcd", SpecTimeout(limit), byIP, opening(plain), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			c := must(wiring.Etcd(r, clientv3.Config{
				Endpoints: []string{addr}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{impatient},
			}))
			DeferCleanup(c.Close)
			return func(ctx context.Context) { ignore(c.Get(ctx, "key")) }
		})),
		Entry("QUIC", SpecTimeout(limit), byIP, opening(udp), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			base := &tls.Config{NextProtos: []string{"h3"}}
			return func(ctx context.Context) { ignore(wiring.QUICClient(ctx, r, base, addr)) }
		})),
		Entry("HTTP/3", SpecTimeout(limit), byIP, opening(udp), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			t := wiring.HTTP3Client(r)
			DeferCleanup(t.Close)
			c := &http.Client{Transport: t}
			return func(context.Context) { ignore(c.Get("https://" + addr)) }
		})),
		Entry("mongo", SpecTimeout(limit), byName, opening(plain), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			c := must(wiring.Mongo(r, "mongodb://"+addr+"/?directConnection=true&heartbeatFrequencyMS=500"))
			DeferCleanup(func(ctx SpecContext) { // it would wait for pings that were given up
				soon, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_ = c.Disconnect(soon)
			})
			return func(ctx context.Context) { _ = c.Ping(ctx, nil) }
		})),
		Entry("pgx", SpecTimeout(limit), byIP, after(postgres), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			c := must(wiring.PGX(context.Background(), r, "postgres://user@"+addr+"/database"))
			DeferCleanup(c.Close)
			return func(ctx context.Context) { _ = c.Ping(ctx) }
		})),
		Entry("lib/pq", SpecTimeout(limit), byIP, after(postgres), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			_, port, _ := net.SplitHostPort(addr)
			c := must(wiring.PQ(r, byIP, "user=user dbname=database port="+port))
			DeferCleanup(c.Close)
			return func(ctx context.Context) { _ = c.PingContext(ctx) }
		})),
		Entry("go-sql-driver/mysql", SpecTimeout(limit), byIP, after(mySQL), maker(func(r *reload.Reloader, addr string) func(context.Context) {
			config := mysql.NewConfig()
			config.Net, config.Addr, config.User, config.Logger = "tcp", addr, "user", &mysql.NopLogger{}
			c := must(wiring.MySQL(r, config))
			DeferCleanup(c.Close)
			return func(ctx context.Context) { _ = c.PingContext(ctx) }
		})),
	)
})

// impatient keeps a channel from waiting longer with each server that it has refused.
var impatient = grpc.WithConnectParams(grpc.ConnectParams{
	Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
})

func must[T any](v T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return v
}

// ignore is for results that say nothing.
func ignore[T any](T, error) {}
