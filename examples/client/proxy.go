package main

// proxy.go is a proxy as companies have them: it connects clients to servers, and what they say to each other is none of
// its business.

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// proxy answers CONNECT requests, one a connection.
type proxy struct {
	tunnels atomic.Int64 // made so far
}

// serve serves until ctx is done, and cuts what is open then.
func (p *proxy) serve(ctx context.Context, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		client, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		clients.Go(func() { p.connect(ctx, client) })
	}
}

// connect does what the client asks for, until either side has enough of the other.
func (p *proxy) connect(ctx context.Context, client net.Conn) {
	defer context.AfterFunc(ctx, func() { client.Close() })()
	defer client.Close()
	request, err := http.ReadRequest(bufio.NewReader(client)) // a client says no more before it has an answer
	if err != nil || request.Method != http.MethodConnect {
		io.WriteString(client, "HTTP/1.1 405 Method Not Allowed\r\n\r\n")
		return
	}
	server, err := new(net.Dialer).DialContext(ctx, "tcp", request.Host)
	if err != nil {
		io.WriteString(client, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	defer server.Close()
	p.tunnels.Add(1)
	io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
	var back sync.WaitGroup
	back.Go(func() {
		io.Copy(client, server)
		client.Close()
	})
	io.Copy(server, client)
	server.Close()
	back.Wait()
}
