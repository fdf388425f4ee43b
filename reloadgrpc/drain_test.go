package reloadgrpc_test

// drain_test.go says what becomes of connections of an older generation.

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadgrpc"
	"github.com/seed45259946/reload/reloadtest"
)

// site is a server and a channel to it, either of which drains.
type site struct {
	ca      *reloadtest.CA
	serving *reload.Store
	calling *reload.Store
	server  *server
	channel *grpc.ClientConn
}

// side is which of the two.
type side string

const (
	serverSide side = "server"
	clientSide side = "client"
)

// newSite makes one where a side has an option.
func newSite(which side, option ...reloadgrpc.Option) *site {
	GinkgoHelper()
	ca := reloadtest.NewCA(reloadtest.Options{})
	s := &site{ca: ca, serving: live(bundle(leaf(ca), ca)), calling: live(bundle(leaf(ca), ca))}
	has := map[side][]reloadgrpc.Option{which: option}
	s.server = serve(reloadgrpc.NewServerCredentials(s.serving, mutual(), has[serverSide]...))
	s.channel = dial(s.server, reloadgrpc.NewClientCredentials(s.calling, nil, has[clientSide]...))
	return s
}

// store is that of one side.
func (s *site) store(of side) *reload.Store {
	if of == serverSide {
		return s.serving
	}
	return s.calling
}

// rotate has a new leaf go live on one side.
func (s *site) rotate(of side) {
	GinkgoHelper()
	s.store(of).Store(bundle(leaf(s.ca), s.ca))
}

// settled is the answer of the first call on a connection of what is live.
func (s *site) settled(ctx context.Context) answer {
	GinkgoHelper()
	var a answer
	Eventually(ctx, func() (answer, error) {
		var err error
		a, err = ask(ctx, s.channel)
		return a, err
	}).Should(And(HaveField("Server", s.serving.Load().Fingerprint), HaveField("Client", s.calling.Load().Fingerprint)))
	return a
}

// onEitherSide makes a table of two entries.
func onEitherSide(text string, body func(SpecContext, side)) {
	DescribeTable(text, body,
		Entry("on the server", SpecTimeout(limit), serverSide),
		Entry("on the client", SpecTimeout(limit), clientSide))
}

var _ = Describe("without Drain", func() {
	onEitherSide("a connection lives on", func(ctx SpecContext, which side) {
		s := newSite(which)
		before := s.settled(ctx)
		s.rotate(which)
		for range 3 {
			Expect(ask(ctx, s.channel)).To(HaveField("From", before.From))
		}
	})
})

var _ = Describe("Drain", func() {
	onEitherSide("ends an idle connection at the rotation", func(ctx SpecContext, which side) {
		s := newSite(which, reloadgrpc.Drain())
		s.settled(ctx)
		for range 3 {
			s.rotate(which)
			Eventually(ctx, s.server.open).Should(BeZero())
			s.settled(ctx)
		}
		Expect(s.server.made()).To(Equal(4))
	})

	onEitherSide("has calls under way end by themselves, and others begin on a new connection", func(ctx SpecContext, which side) {
		s := newSite(which, reloadgrpc.Drain())
		before := s.settled(ctx)
		was := s.calling.Load().Fingerprint
		stream := begin(ctx, s.channel)
		s.rotate(which)
		Expect(s.settled(ctx).From).NotTo(Equal(before.From))
		Expect(s.server.open()).To(Equal(2))
		for range 3 {
			Expect(stream.say("")).To(Equal(was))
		}
		Expect(stream.end()).To(Succeed())
		Eventually(ctx, s.server.open).Should(Equal(1))
	})

	onEitherSide("leaves a connection of the live bundle alone, and all while there is none", func(ctx SpecContext, which side) {
		s := newSite(which, reloadgrpc.Drain())
		before := s.settled(ctx)
		stream := begin(ctx, s.channel)
		same := s.store(which).Load()
		for _, b := range []*reload.Bundle{same, nil, same, nil} {
			s.store(which).Store(b)
			Expect(stream.say("")).Error().NotTo(HaveOccurred())
			Expect(ask(ctx, s.channel)).To(HaveField("From", before.From))
		}
		Expect(stream.end()).To(Succeed())
	})

	It("is for either side of one connection, which may rotate at once", func(ctx SpecContext) {
		ca := reloadtest.NewCA(reloadtest.Options{})
		both := live(bundle(leaf(ca), ca))
		s := &site{ca: ca, serving: both, calling: both}
		s.server = serve(reloadgrpc.NewServerCredentials(both, mutual(), reloadgrpc.Drain()))
		s.channel = dial(s.server, reloadgrpc.NewClientCredentials(both, nil, reloadgrpc.Drain()))
		s.settled(ctx)
		for range 10 {
			stream := begin(ctx, s.channel)
			s.rotate(serverSide)
			s.settled(ctx)
			Expect(stream.say("")).Error().NotTo(HaveOccurred())
			Expect(stream.end()).To(Succeed())
		}
		Eventually(ctx, s.server.open).Should(BeNumerically("<=", 1))
	}, SpecTimeout(limit))

	It("reaches the connections of clones, and of several channels", func(ctx SpecContext) {
		ca := reloadtest.NewCA(reloadtest.Options{})
		identity := live(bundle(leaf(ca), ca))
		s := serve(reloadgrpc.NewServerCredentials(live(bundle(leaf(ca), ca)), nil))
		creds := reloadgrpc.NewClientCredentials(identity, nil, reloadgrpc.Drain())
		for _, c := range []credentials.TransportCredentials{creds, creds, creds.Clone()} {
			Expect(ask(ctx, dial(s, c))).Error().NotTo(HaveOccurred())
		}
		Expect(s.open()).To(Equal(3))
		identity.Store(bundle(leaf(ca), ca))
		Eventually(ctx, s.open).Should(BeZero())
	}, SpecTimeout(limit))

	It("works over any connection that a dialler makes", func(ctx SpecContext) {
		ca := reloadtest.NewCA(reloadtest.Options{})
		identity := live(bundle(leaf(ca), ca))
		listener := bufconn.Listen(64 << 10) // whose timeouts are not temporary
		s := serveOn(listener, reloadgrpc.NewServerCredentials(live(bundle(leaf(ca), ca)), nil))
		channel := dial(s, reloadgrpc.NewClientCredentials(identity, nil, reloadgrpc.Drain()), grpc.WithAuthority("localhost"),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		stream := begin(ctx, channel)
		for made := 1; made < 4; made++ {
			identity.Store(bundle(leaf(ca), ca))
			Eventually(ctx, channel.GetState).Should(Equal(connectivity.Idle))
			Expect(ask(ctx, channel)).Error().NotTo(HaveOccurred())
			Expect(s.made()).To(Equal(made + 1))
			Expect(stream.say("")).Error().NotTo(HaveOccurred())
		}
		Expect(stream.end()).To(Succeed())
	}, SpecTimeout(limit))

	It("takes whatever embeds a Reloader or a Store, and panics at once for another source", func() {
		Expect(reloadgrpc.NewClientCredentials(struct{ *reload.Reloader }{new(reload.Reloader)}, nil, reloadgrpc.Drain())).NotTo(BeNil())
		Expect(reloadgrpc.NewServerCredentials(struct{ *reload.Store }{new(reload.Store)}, nil, reloadgrpc.Drain())).NotTo(BeNil())
		other := struct{ reloadgrpc.Source }{new(reload.Store)}
		Expect(reloadgrpc.NewClientCredentials(other, nil)).NotTo(BeNil())
		Expect(func() { reloadgrpc.NewClientCredentials(other, nil, reloadgrpc.Drain()) }).To(PanicWith(ContainSubstring("*reload.Store")))
		Expect(func() { reloadgrpc.NewServerCredentials(other, nil, reloadgrpc.Drain()) }).To(PanicWith(ContainSubstring("*reload.Store")))
	})
})

var _ = Describe("DrainWithin", func() {
	onEitherSide("cuts calls that still run after the grace", func(ctx SpecContext, which side) {
		s := newSite(which, reloadgrpc.DrainWithin(100*time.Millisecond))
		s.settled(ctx)
		stream := begin(ctx, s.channel)
		s.rotate(which)
		_, err := stream.say("")
		for err == nil {
			_, err = stream.say("")
		}
		Expect(status.Code(err)).To(Equal(codes.Unavailable))
		s.settled(ctx)
		Eventually(ctx, s.server.open).Should(Equal(1))
	})

	onEitherSide("cuts nothing before", func(ctx SpecContext, which side) {
		s := newSite(which, reloadgrpc.DrainWithin(time.Hour))
		before := s.settled(ctx)
		stream := begin(ctx, s.channel)
		s.rotate(which)
		Expect(s.settled(ctx).From).NotTo(Equal(before.From))
		Expect(stream.say("")).Error().NotTo(HaveOccurred())
		Expect(stream.end()).To(Succeed())
		Eventually(ctx, s.server.open).Should(Equal(1))
	})

	onEitherSide("waits for nothing without a grace", func(ctx SpecContext, which side) {
		s := newSite(which, reloadgrpc.DrainWithin(0))
		s.settled(ctx)
		stream := begin(ctx, s.channel)
		s.rotate(which)
		Expect(status.Code(stream.RecvMsg(nil))).To(Equal(codes.Unavailable))
		s.settled(ctx)
	})
})

var _ = Describe("a connection that is over", func() {
	DescribeTable("is forgotten",
		func(ctx SpecContext, let func(*held)) {
			ca := reloadtest.NewCA(reloadtest.Options{})
			store := live(bundle(leaf(ca), ca))
			server := reloadgrpc.NewServerCredentials(store, nil, reloadgrpc.DrainWithin(time.Hour))
			client := reloadgrpc.NewClientCredentials(store, nil, reloadgrpc.DrainWithin(time.Hour))
			var left []weak.Pointer[held]
			for range 2 { // before a rotation and after one
				here, there := handshake(ctx, client, server)
				left = append(left, here, there)
				store.Store(bundle(leaf(ca), ca))
			}
			for _, w := range left {
				if h := w.Value(); h != nil {
					let(h)
				}
			}
			for _, w := range left {
				Eventually(ctx, func() bool { runtime.GC(); return w.Value() == nil }).Should(BeTrue())
			}
			runtime.KeepAlive(server)
			runtime.KeepAlive(client)
			store.Store(bundle(leaf(ca), ca))
		},
		Entry("when it is closed", SpecTimeout(limit), func(h *held) {
			h.Conn.Close() // first: TLS would wait to say goodbye
			h.made.Close()
		}),
		Entry("when it is let go of", SpecTimeout(limit), func(*held) {}),
	)

	It("is the last that its credentials have to do with the source", func(ctx SpecContext) {
		ca := reloadtest.NewCA(reloadtest.Options{})
		source := &counted{Store: live(bundle(leaf(ca), ca))}
		s := serve(reloadgrpc.NewServerCredentials(source, nil, reloadgrpc.Drain()))
		creds := reloadgrpc.NewClientCredentials(live(bundle(leaf(ca), ca)), nil)
		for range 2 {
			Expect(source.told.Load()).To(BeZero())
			one, two := dial(s, creds), dial(s, creds)
			Expect(ask(ctx, one)).Error().NotTo(HaveOccurred())
			Expect(ask(ctx, two)).Error().NotTo(HaveOccurred())
			Expect(source.told.Load()).To(BeEquivalentTo(1))
			Expect(one.Close()).To(Succeed())
			Expect(ask(ctx, two)).Error().NotTo(HaveOccurred())
			Expect(source.told.Load()).To(BeEquivalentTo(1))
			Expect(two.Close()).To(Succeed())
			Eventually(ctx, source.told.Load).Should(BeZero())
		}
	}, SpecTimeout(limit))
})

// counted is a source that knows how many want to be told.
type counted struct {
	*reload.Store
	told atomic.Int32
}

func (c *counted) Subscribe(fn func(*reload.Bundle)) func() {
	stop := c.Store.Subscribe(fn)
	c.told.Add(1)
	return sync.OnceFunc(func() { stop(); c.told.Add(-1) })
}

// held is a connection below TLS, which ends with what gRPC was given for it.
type held struct {
	net.Conn
	made net.Conn
}

// handshake connects the two credentials, and returns what must not be held by anybody else.
func handshake(ctx context.Context, client, server credentials.TransportCredentials) (here, there weak.Pointer[held]) {
	GinkgoHelper()
	a, b := net.Pipe()
	h, t := &held{Conn: a}, &held{Conn: b}
	var wait sync.WaitGroup
	wait.Go(func() {
		defer GinkgoRecover()
		var err error
		t.made, _, err = server.ServerHandshake(t)
		Expect(err).NotTo(HaveOccurred())
	})
	var err error
	h.made, _, err = client.ClientHandshake(ctx, "localhost", h)
	Expect(err).NotTo(HaveOccurred())
	wait.Wait()
	return weak.Make(h), weak.Make(t)
}

var _ = Describe("rotation after rotation", func() {
	quickly := []grpc.DialOption{grpc.WithReadBufferSize(0), grpc.WithWriteBufferSize(0)}
	large := strings.Repeat("x", 50<<10) // takes some frames of headers

	DescribeTable("no call fails, unary or streaming",
		func(ctx SpecContext, onServer, onClient []reloadgrpc.Option, metadataOf string, options ...grpc.DialOption) {
			ca := reloadtest.NewCA(reloadtest.Options{})
			volume, err := reloadtest.NewKubelet(GinkgoT().TempDir(), leaf(ca).Files(ca))
			Expect(err).NotTo(HaveOccurred())
			r, err := reload.NewReloader(reload.FromDir(volume.Dir), "grpc", quiet)
			Expect(err).NotTo(HaveOccurred())
			s := serve(reloadgrpc.NewServerCredentials(r, mutual(), onServer...))
			channel := dial(s, reloadgrpc.NewClientCredentials(r, nil, onClient...), options...)
			calling := metadata.AppendToOutgoingContext(ctx, "x-large", metadataOf)

			rotating, over := context.WithCancel(ctx)
			defer over()
			var callers sync.WaitGroup
			for range 3 {
				callers.Go(func() {
					defer GinkgoRecover()
					for rotating.Err() == nil {
						Expect(ask(calling, channel)).Error().NotTo(HaveOccurred())
					}
				})
				callers.Go(func() {
					defer GinkgoRecover()
					for rotating.Err() == nil {
						stream := begin(calling, channel)
						for range 20 {
							Expect(stream.say("")).Error().NotTo(HaveOccurred())
						}
						Expect(stream.end()).To(Succeed())
					}
				})
			}
			whole := begin(calling, channel)
			for range 25 {
				Expect(volume.Update(leaf(ca).Files(ca))).To(Succeed())
				Expect(r.Reload(ctx)).To(Succeed())
				Expect(whole.say("")).Error().NotTo(HaveOccurred())
				Expect(askAnew(ctx, s, reloadgrpc.NewClientCredentials(r, nil))).To(And(
					HaveField("Server", r.Bundle().Fingerprint), HaveField("Client", r.Bundle().Fingerprint)))
			}
			over()
			callers.Wait()
			if len(onServer)+len(onClient) > 0 {
				Eventually(ctx, func() (answer, error) { return ask(ctx, channel) }).Should(HaveField("Server", r.Bundle().Fingerprint))
			}
			Expect(whole.say("")).Error().NotTo(HaveOccurred())
			Expect(whole.end()).To(Succeed())
			Eventually(ctx, s.open).Should(BeNumerically("<=", 1))
		},
		Entry("while connections stay", SpecTimeout(limit), nil, nil, ""),
		Entry("while the server drains", SpecTimeout(limit), drain, nil, ""),
		Entry("while the client drains", SpecTimeout(limit), nil, drain, ""),
		Entry("while both drain", SpecTimeout(limit), drain, drain, ""),
		Entry("while both drain, in frames that are written and read piece by piece", SpecTimeout(limit), drain, drain, large, quickly[0], quickly[1]),
	)
})

var drain = []reloadgrpc.Option{reloadgrpc.Drain()}
