package reloadgrpc_test

// service_test.go is a gRPC server and its client: a service without generated code, and what each side knows of the other.

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

const limit = 2 * time.Minute // of a spec, on a machine with other things to do

// bundle makes one of a keypair and the CAs to trust.
func bundle(k *reloadtest.Keypair, trust ...*reloadtest.CA) *reload.Bundle {
	GinkgoHelper()
	var cas []byte
	for _, ca := range trust {
		cas = append(cas, ca.PEM()...)
	}
	b, err := reload.BundleFromPEM(k.CertPEM, k.KeyPEM, cas)
	Expect(err).NotTo(HaveOccurred())
	return b
}

func pemOf(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }

// leaf issues one for localhost.
func leaf(ca *reloadtest.CA) *reloadtest.Keypair { return ca.Issue(reloadtest.Options{}) }

// live returns a store with a bundle in it.
func live(b *reload.Bundle) *reload.Store {
	s := reload.NewStore()
	s.Store(b)
	return s
}

// mutual is the base of a server that verifies clients.
func mutual() *tls.Config { return &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert} }

// server is a gRPC server at addr. It is a stats.Handler that counts connections.
type server struct {
	addr string

	mu           sync.Mutex // guards the rest
	begun, ended int
}

// serve starts a server, which ends with the spec.
func serve(creds credentials.TransportCredentials, options ...grpc.ServerOption) *server {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	return serveOn(listener, creds, options...)
}

func serveOn(listener net.Listener, creds credentials.TransportCredentials, options ...grpc.ServerOption) *server {
	s := &server{addr: listener.Addr().String()}
	g := grpc.NewServer(append(options, grpc.Creds(creds), grpc.StatsHandler(s))...)
	g.RegisterService(&service, nil)
	done := make(chan error, 1)
	go func() { done <- g.Serve(listener) }()
	DeferCleanup(func() {
		g.Stop()
		Expect(<-done).To(Succeed())
	})
	return s
}

// open is how many connections are open.
func (s *server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun - s.ended
}

// made is how many connections there have been.
func (s *server) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

func (s *server) HandleConn(_ context.Context, event stats.ConnStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch event.(type) {
	case *stats.ConnBegin:
		s.begun++
	case *stats.ConnEnd:
		s.ended++
	}
}

func (*server) HandleRPC(context.Context, stats.RPCStats)                         {}
func (*server) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*server) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }

// The service says who calls, in one answer or in one for each message, until the client has no more.
const (
	whoMethod  = "/reload.Test/Who"
	talkMethod = "/reload.Test/Talk"
)

var talkStream = grpc.StreamDesc{StreamName: "Talk", ClientStreams: true, ServerStreams: true, Handler: talk}

var service = grpc.ServiceDesc{
	ServiceName: "reload.Test",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Who", Handler: who}},
	Streams:     []grpc.StreamDesc{talkStream},
}

func who(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	if err := decode(new(wrapperspb.StringValue)); err != nil {
		return nil, err
	}
	return wrapperspb.String(caller(ctx)), grpc.SetHeader(ctx, echoed(ctx))
}

func talk(_ any, stream grpc.ServerStream) error {
	if err := stream.SetHeader(echoed(stream.Context())); err != nil {
		return err
	}
	for {
		err := stream.RecvMsg(new(wrapperspb.StringValue))
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = stream.SendMsg(wrapperspb.String(caller(stream.Context())))
		}
		if err != nil {
			return err
		}
	}
}

// echoed is what the server sends before its answer: as much as the client did.
func echoed(ctx context.Context) metadata.MD {
	return metadata.MD{"x-large": metadata.ValueFromIncomingContext(ctx, "x-large")}
}

// caller returns the fingerprint of the client's leaf, empty if it has none.
func caller(ctx context.Context) string {
	p, _ := peer.FromContext(ctx)
	return fingerprint(p.AuthInfo.(credentials.TLSInfo).State)
}

func fingerprint(cs tls.ConnectionState) string {
	if len(cs.PeerCertificates) == 0 {
		return ""
	}
	sum := sha256.Sum256(cs.PeerCertificates[0].Raw)
	return hex.EncodeToString(sum[:])
}

// dial returns a channel to s, or to another target, which is closed with the spec.
func dial(s *server, creds credentials.TransportCredentials, options ...grpc.DialOption) *grpc.ClientConn {
	GinkgoHelper()
	channel, err := grpc.NewClient("passthrough:///"+s.addr, append([]grpc.DialOption{grpc.WithTransportCredentials(creds)}, options...)...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { channel.Close() }) // once more where it is closed already
	return channel
}

// answer is what one call showed.
type answer struct {
	Client  string // the fingerprint of the leaf that the server saw
	Server  string // and of that which the client saw
	Resumed bool
	From    string // the client's end of the connection
	Info    credentials.TLSInfo
}

// ask makes one call.
func ask(ctx context.Context, channel *grpc.ClientConn, options ...grpc.CallOption) (a answer, err error) {
	var p peer.Peer
	said := new(wrapperspb.StringValue)
	err = channel.Invoke(ctx, whoMethod, wrapperspb.String(""), said, append(options, grpc.Peer(&p))...)
	if err != nil {
		return a, err
	}
	a.Info = p.AuthInfo.(credentials.TLSInfo)
	a.Client, a.Server, a.Resumed = said.Value, fingerprint(a.Info.State), a.Info.State.DidResume
	a.From = p.LocalAddr.String()
	return a, nil
}

// askAnew makes one call on a connection of its own.
func askAnew(ctx context.Context, s *server, creds credentials.TransportCredentials, options ...grpc.DialOption) (answer, error) {
	GinkgoHelper()
	channel := dial(s, creds, options...)
	defer channel.Close()
	return ask(ctx, channel)
}

// conversation is a stream under way.
type conversation struct{ grpc.ClientStream }

// begin starts one, and sees that the server has heard of it.
func begin(ctx context.Context, channel *grpc.ClientConn, options ...grpc.CallOption) conversation {
	GinkgoHelper()
	stream, err := channel.NewStream(ctx, &talkStream, talkMethod, options...)
	Expect(err).NotTo(HaveOccurred())
	c := conversation{stream}
	Expect(c.say("")).Error().NotTo(HaveOccurred())
	return c
}

// say sends a message and returns the answer to it.
func (c conversation) say(what string) (string, error) {
	if err := c.SendMsg(wrapperspb.String(what)); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	said := new(wrapperspb.StringValue)
	err := c.RecvMsg(said)
	return said.Value, err
}

// end has the server end it.
func (c conversation) end() error {
	if err := c.CloseSend(); err != nil {
		return err
	}
	if err := c.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("did not end"), err)
	}
	return nil
}
