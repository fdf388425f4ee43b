package main

// tunnel.go is a part to copy: the two ends of a QUIC tunnel whose keypairs are replaced while it is open.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/seed45259946/reload"
)

const (
	keepAlive = 10 * time.Second // tunnels stay open without traffic
	patience  = 30 * time.Second // for one echo, and for one look of the demonstration
)

// protocols is what both ends speak: QUIC insists on a name for it.
var protocols = []string{"echo"}

// listen makes the server's end. Its config follows the keypair and the CA file, so the listener is made once.
func listen(addr string, keypair *reload.Reloader) (*quic.EarlyListener, error) {
	return quic.ListenAddrEarly(addr, keypair.ServerConfig(&tls.Config{
		NextProtos: protocols,
		ClientAuth: tls.RequireAndVerifyClientCert,
	}), &quic.Config{Allow0RTT: true})
}

// serve echoes what comes through tunnels until ctx is done, and then ends them.
//
// Accept does not wait for the handshake, which is what makes 0-RTT work. Streams do: what they bring comes from a client
// that was verified, now or in the session that it resumes. Data in 0-RTT may have been recorded and sent again by others;
// an echo does not mind.
func serve(ctx context.Context, listener *quic.EarlyListener) error {
	ctx, stop := context.WithCancel(ctx)
	var tunnels sync.WaitGroup
	defer tunnels.Wait()
	defer stop()
	for {
		conn, err := listener.Accept(ctx)
		switch {
		case ctx.Err() != nil:
			return listener.Close()
		case err != nil:
			return errors.Join(err, listener.Close())
		}
		tunnels.Go(func() { echo(ctx, conn) })
	}
}

// echo sends back what each stream of a tunnel brings. No rotation has a part in it: TLS is over once a tunnel is open.
func echo(ctx context.Context, conn *quic.Conn) {
	defer context.AfterFunc(ctx, func() { conn.CloseWithError(0, "the server ends") })()
	var streams sync.WaitGroup
	defer streams.Wait()
	for {
		stream, err := conn.AcceptStream(ctx)
		if err != nil {
			return // the client has left, or was refused
		}
		streams.Go(func() {
			defer stream.Close()
			io.Copy(stream, stream)
		})
	}
}

// dialer makes the client's end, under the identity and the trust roots of the moment.
type dialer struct {
	keypair  *reload.Reloader
	addr     string
	sessions tls.ClientSessionCache // nil: each tunnel costs a full handshake
}

// dial opens a tunnel, with the first message in its first packet where there is a session for that. It returns once the
// message has come back: a client takes its handshake for complete before the server has judged its certificate, so that a
// refusal arrives in place of the first answer.
func (d *dialer) dial(ctx context.Context) (*tunnel, error) {
	cfg := d.keypair.ClientConfig(&tls.Config{NextProtos: protocols, ClientSessionCache: d.sessions})
	conn, err := quic.DialAddrEarly(ctx, d.addr, cfg, &quic.Config{KeepAlivePeriod: keepAlive})
	if err != nil {
		return nil, err
	}
	t := &tunnel{conn: conn}
	err = t.open(ctx)
	if errors.Is(err, quic.Err0RTTRejected) { // what was sent is lost; the handshake goes on, in full
		if _, err = conn.NextConnection(ctx); err == nil {
			err = t.open(ctx)
		}
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// tunnel is one connection with one stream that stays open.
type tunnel struct {
	conn   *quic.Conn
	stream *quic.Stream
	echoes int
}

func (t *tunnel) open(ctx context.Context) (err error) {
	if t.stream, err = t.conn.OpenStreamSync(ctx); err != nil {
		return err
	}
	return t.echo()
}

// echo sends a message and waits for it to come back.
func (t *tunnel) echo() error {
	t.stream.SetDeadline(time.Now().Add(patience))
	sent := fmt.Sprintf("message %6d", t.echoes+1)
	if _, err := io.WriteString(t.stream, sent); err != nil {
		return err
	}
	came := make([]byte, len(sent))
	if _, err := io.ReadFull(t.stream, came); err != nil {
		return err
	}
	if string(came) != sent {
		return fmt.Errorf("sent %q, came back %q", sent, came)
	}
	t.echoes++
	return nil
}

// state says what the handshake came to.
func (t *tunnel) state() quic.ConnectionState { return t.conn.ConnectionState() }

func (t *tunnel) close() { t.conn.CloseWithError(0, "") }
