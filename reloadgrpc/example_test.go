package reloadgrpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadgrpc"
	"github.com/seed45259946/reload/reloadtest"
)

// A server and a client that verify each other, and both sides of which follow their files. Here they are in one process
// and have one keypair, which is replaced once.
func Example() {
	dir, err := os.MkdirTemp("", "reloadgrpc-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ca := reloadtest.NewCA(reloadtest.Options{})
	issue := func(name string) reloadtest.Files { return ca.Issue(reloadtest.Options{Name: name}).Files(ca) }
	volume, err := reloadtest.NewKubelet(filepath.Join(dir, "tls"), issue("first"))
	if err != nil {
		log.Fatal(err)
	}

	keypair, err := reload.NewReloader(reload.FromDir(volume.Dir), "example", silently)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	go keypair.Start(ctx)

	server := grpc.NewServer(grpc.Creds(reloadgrpc.NewServerCredentials(keypair, &tls.Config{
		ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Stop()

	channel, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(reloadgrpc.NewClientCredentials(keypair, nil, reloadgrpc.Drain())))
	if err != nil {
		log.Fatal(err)
	}
	defer channel.Close()

	fmt.Println(leafOf(ctx, channel))
	if err := errors.Join(volume.Update(issue("second")), keypair.Reload(ctx)); err != nil {
		log.Fatal(err)
	}
	for leafOf(ctx, channel) == "first" { // a call may have begun just before
	}
	fmt.Println(leafOf(ctx, channel))
	// Output:
	// first
	// second
}

// leafOf makes a call and returns whose certificate the server showed.
func leafOf(ctx context.Context, channel *grpc.ClientConn) string {
	var p peer.Peer
	if _, err := healthpb.NewHealthClient(channel).Check(ctx, new(healthpb.HealthCheckRequest), grpc.Peer(&p)); err != nil {
		log.Fatal(err)
	}
	return p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName
}

// A server that the clients of a withdrawn CA have left a minute after it was taken out of the CA file, whatever they do.
func ExampleDrainWithin() {
	keypair, err := reload.NewReloader(reload.FromDir("/etc/tls"), "grpc")
	if err != nil {
		log.Fatal(err)
	}
	go keypair.Start(context.Background())

	creds := reloadgrpc.NewServerCredentials(keypair, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert},
		reloadgrpc.DrainWithin(time.Minute))
	server := grpc.NewServer(grpc.Creds(creds))
	listener, err := net.Listen("tcp", ":8443")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(listener))
}

// A client that starts before its files are there: its channel tries again when they have come, instead of waiting for its
// next attempt.
func ExampleNewClientCredentials() {
	var channel *grpc.ClientConn
	identity, err := reload.NewReloader(reload.FromDir("/etc/upstream-tls"), "upstream", func(o *reload.WatchOptions) {
		o.AwaitFiles = true
		o.OnSwap = func(*reload.Bundle) { channel.ResetConnectBackoff() }
	})
	if err != nil {
		log.Fatal(err)
	}
	channel, err = grpc.NewClient("dns:///upstream.example:443",
		grpc.WithTransportCredentials(reloadgrpc.NewClientCredentials(identity, nil, reloadgrpc.Drain())))
	if err != nil {
		log.Fatal(err)
	}
	defer channel.Close()
	go identity.Start(context.Background()) // OnSwap is called from here on
	if _, err := healthpb.NewHealthClient(channel).Check(context.Background(), new(healthpb.HealthCheckRequest), grpc.WaitForReady(true)); err != nil {
		log.Fatal(err)
	}
}

// silently keeps the log out of an example.
func silently(o *reload.WatchOptions) { o.Logger = slog.New(slog.DiscardHandler) }
