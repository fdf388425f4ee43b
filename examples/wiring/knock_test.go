package wiring_test

// knock_test.go has the clients that the servers are tried with.

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"io"
	"net"
	"net/http"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// knock makes a connection and returns the protocol spoken and the state of the connection. It fails unless the server
// admits the client.
type knock func(ctx context.Context, addr net.Addr, client *tls.Config) (protocol string, state *tls.ConnectionState, err error)

func overHTTP(ctx context.Context, addr net.Addr, config *tls.Config) (string, *tls.ConnectionState, error) {
	config.NextProtos = nil // http.Transport knows better
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
	defer c.CloseIdleConnections()
	return answer(get(ctx, c, addr))
}

func overHTTP3(ctx context.Context, addr net.Addr, config *tls.Config) (string, *tls.ConnectionState, error) {
	t := &http3.Transport{TLSClientConfig: config}
	defer t.Close()
	return answer(get(ctx, &http.Client{Transport: t}, addr))
}

func get(ctx context.Context, c *http.Client, addr net.Addr) (*http.Response, error) {
	request := must(http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr.String(), nil))
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response, err
}

func answer(response *http.Response, err error) (string, *tls.ConnectionState, error) {
	if err != nil {
		return "", nil, err
	}
	return response.Proto, response.TLS, nil
}

// overQUIC hears in the end of the connection whether it was admitted.
func overQUIC(ctx context.Context, addr net.Addr, config *tls.Config) (string, *tls.ConnectionState, error) {
	c, err := quic.DialAddr(ctx, addr.String(), config, nil)
	if err != nil {
		return "", nil, err
	}
	<-c.Context().Done()
	if err := context.Cause(c.Context()); !isAdmitted(err) {
		return "", nil, err
	}
	state := c.ConnectionState().TLS
	return state.NegotiatedProtocol, &state, nil
}

func isAdmitted(err error) bool {
	end, ok := err.(*quic.ApplicationError)
	return ok && end.ErrorCode == 0
}

func overNATS(ctx context.Context, addr net.Addr, config *tls.Config) (string, *tls.ConnectionState, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return "", nil, err
	}
	defer c.Close()
	if _, err := bufio.NewReaderSize(c, 1<<14).ReadString('\n'); err != nil { // what the server says of itself
		return "", nil, err
	}
	return handshake(ctx, c, config)
}

func overTLS(ctx context.Context, addr net.Addr, config *tls.Config) (string, *tls.ConnectionState, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return "", nil, err
	}
	defer c.Close()
	return handshake(ctx, c, config)
}

// handshake is one of TLS 1.2, which ends only after the server has judged the client.
func handshake(ctx context.Context, c net.Conn, config *tls.Config) (string, *tls.ConnectionState, error) {
	config.MaxVersion = tls.VersionTLS12
	conn := tls.Client(c, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return "", nil, err
	}
	state := conn.ConnectionState()
	return state.NegotiatedProtocol, &state, nil
}

func fingerprint(state *tls.ConnectionState) string {
	sum := sha256.Sum256(state.PeerCertificates[0].Raw)
	return hex.EncodeToString(sum[:])
}
