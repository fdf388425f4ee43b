package main

// client.go is a client to copy, in newVisitor; the rest shows what its connections see.

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadgrpc"
)

const patience = 10 * time.Second // with one call

// visitor is a client with one channel: it calls time and again, and listens to a stream meanwhile.
type visitor struct {
	channel *grpc.ClientConn
	out     io.Writer

	local              string // its end of the latest connection
	calls, connections int
	heard              atomic.Int32 // messages of the stream
}

// newVisitor makes the channel, which connects with its first call. Connections of an older generation end with their last
// call, here too.
func newVisitor(identity *reload.Reloader, address string, out io.Writer) (*visitor, error) {
	creds := reloadgrpc.NewClientCredentials(identity, nil, reloadgrpc.Drain())
	channel, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	return &visitor{channel: channel, out: out}, err
}

// listen reads one stream until ctx is done. Its connection stays for as long as it does.
func (v *visitor) listen(ctx context.Context) error {
	stream, err := healthpb.NewHealthClient(v.channel).Watch(ctx, new(healthpb.HealthCheckRequest))
	for err == nil {
		if _, err = stream.Recv(); err == nil {
			v.heard.Add(1)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the stream broke: %w", err)
}

// visits calls until ctx is done, or a call fails. A call under way is finished.
func (v *visitor) visits(ctx context.Context, pause time.Duration) error {
	next := time.NewTicker(pause)
	defer next.Stop()
	if err := v.print("time", "connection", "client saw", "server saw", "stream"); err != nil {
		return err
	}
	for {
		if err := v.visit(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// visit makes one call and prints a line if it was the first on its connection.
func (v *visitor) visit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var p peer.Peer
	var header metadata.MD
	_, err := healthpb.NewHealthClient(v.channel).Check(ctx, new(healthpb.HealthCheckRequest), grpc.Peer(&p), grpc.Header(&header))
	if err != nil {
		return fmt.Errorf("a call failed: %w", err)
	}
	v.calls++
	if p.LocalAddr.String() == v.local {
		return nil
	}
	v.local = p.LocalAddr.String()
	v.connections++
	return v.print(time.Now().Format("15:04:05.000"), v.connections, leafOf(&p), strings.Join(header.Get(sawLeaf), ""),
		fmt.Sprintf("%d messages", v.heard.Load()))
}

// print writes one line of the table.
func (v *visitor) print(columns ...any) error {
	_, err := fmt.Fprintf(v.out, "%-12v  %10v  %-12v  %-12v  %v\n", columns...)
	return err
}
