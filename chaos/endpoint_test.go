//go:build linux

package chaos_test

// endpoint_test.go has the servers: one of each way to serve. All of them answer with what they have seen of the client.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/seed45259946/reload/reloadgrpc"
)

// patience bounds whatever waits for a peer. Nothing comes near it but on a machine that is stopped.
const patience = time.Minute

// answer is what a server says: the client's chain and its leaf.
type answer struct{ chain, leaf digest }

const answerSize = 2 * len(digest{})

func answerTo(peers []*x509.Certificate) (a answer) {
	if len(peers) > 0 {
		a.chain, a.leaf = chainDigest(peers), digestOf(peers[0].Raw)
	}
	return a
}

func (a answer) bytes() []byte { return append(a.chain[:len(a.chain):len(a.chain)], a.leaf[:]...) }

func parseAnswer(b []byte) (a answer, err error) {
	if len(b) != answerSize {
		return a, errors.New("no whole answer")
	}
	copy(a.chain[:], b)
	copy(a.leaf[:], b[len(a.chain):])
	return a, nil
}

// endpoint is one server.
type endpoint struct {
	addr  string
	close func()
}

// mutual is the base of a server that verifies clients.
func mutual(protocols ...string) *tls.Config {
	return &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: protocols}
}

// serveTLS serves config on TCP.
func serveTLS(config *tls.Config) (*endpoint, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serveConn(ctx, tls.Server(conn, config)) })
		}
	})
	return &endpoint{l.Addr().String(), func() { cancel(); l.Close(); all.Wait() }}, nil
}

func serveConn(ctx context.Context, conn *tls.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.NetConn().Close() })()
	conn.SetDeadline(time.Now().Add(patience))
	if conn.HandshakeContext(ctx) != nil {
		return
	}
	if _, err := conn.Write(answerTo(conn.ConnectionState().PeerCertificates).bytes()); err == nil {
		io.Copy(io.Discard, conn)
	}
}

// web answers requests.
var web = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if rand.IntN(10) == 0 {
		rest(r.Context(), rand.N(100*time.Millisecond)) // so that some are under way when a generation goes
	}
	w.Write(answerTo(r.TLS.PeerCertificates).bytes())
})

// silent logs nothing: the handshakes of foes are errors on purpose.
var silent = log.New(io.Discard, "", 0)

// serveHTTP serves HTTP/1 and HTTP/2 under config, with what drain makes of our handler.
func serveHTTP(config *tls.Config, drain func(http.Handler) http.Handler) (*endpoint, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: drain(web), TLSConfig: config, ErrorLog: silent}
	done := make(chan struct{})
	go func() { // ends with Close
		defer close(done)
		server.ServeTLS(l, "", "")
	}()
	return &endpoint{l.Addr().String(), func() { server.Close(); <-done }}, nil
}

// quicConfig never gives up before we do.
var quicConfig = &quic.Config{HandshakeIdleTimeout: patience, MaxIdleTimeout: patience}

func serveQUIC(config *tls.Config) (*endpoint, error) {
	l, err := quic.ListenAddr("127.0.0.1:0", config, quicConfig)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept(ctx)
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.CloseWithError(0, "")
				stream, err := conn.OpenUniStream()
				if err != nil {
					return
				}
				stream.Write(answerTo(conn.ConnectionState().TLS.PeerCertificates).bytes())
				stream.Close()
				select {
				case <-conn.Context().Done():
				case <-ctx.Done():
				}
			})
		}
	})
	return &endpoint{l.Addr().String(), func() { cancel(); all.Wait(); l.Close() }}, nil
}

func serveHTTP3(config *tls.Config, drain func(http.Handler) http.Handler) (*endpoint, error) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	server := &http3.Server{Handler: drain(web), TLSConfig: config, QUICConfig: quicConfig, Logger: discard}
	done := make(chan struct{})
	go func() { // ends with Close
		defer close(done)
		server.Serve(conn)
	}()
	return &endpoint{conn.LocalAddr().String(), func() { server.Close(); <-done; conn.Close() }}, nil
}

// rawCodec has gRPC carry bytes, without generated code.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (rawCodec) Name() string { return "raw" }

const whoMethod = "/chaos.Test/Who"

var service = grpc.ServiceDesc{
	ServiceName: "chaos.Test",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Who", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var asked []byte
		if err := decode(&asked); err != nil {
			return nil, err
		}
		if rand.IntN(10) == 0 {
			rest(ctx, rand.N(100*time.Millisecond))
		}
		p, _ := peer.FromContext(ctx)
		said := answerTo(p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates).bytes()
		return &said, nil
	}}},
}

func serveGRPC(source reloadgrpc.Source) (*endpoint, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}),
		grpc.Creds(reloadgrpc.NewServerCredentials(source, mutual(), reloadgrpc.Drain())))
	server.RegisterService(&service, nil)
	done := make(chan struct{})
	go func() { // ends with Stop
		defer close(done)
		server.Serve(l)
	}()
	return &endpoint{l.Addr().String(), func() { server.Stop(); <-done }}, nil
}
