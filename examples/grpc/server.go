package main

// server.go is a server to copy: it verifies clients, and both its keypair and its CAs follow the files.

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadgrpc"
)

// sawLeaf is the header in which the server says whose certificate it saw.
const sawLeaf = "saw-leaf"

// site is a gRPC server with the health service.
type site struct {
	server   *grpc.Server
	listener net.Listener
	health   *health.Server
}

// newSite listens. Connections of an older generation end with their last call.
func newSite(keypair *reload.Reloader) (*site, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	creds := reloadgrpc.NewServerCredentials(keypair, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}, reloadgrpc.Drain())
	s := &site{grpc.NewServer(grpc.Creds(creds), grpc.UnaryInterceptor(telling)), listener, health.NewServer()}
	healthpb.RegisterHealthServer(s.server, s.health)
	return s, nil
}

// serve serves until ctx is done, and then lets calls under way finish.
func (s *site) serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.server.GracefulStop)()
	return s.server.Serve(s.listener)
}

// telling has the client know whom the server took it for.
func telling(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if p, ok := peer.FromContext(ctx); ok {
		if err := grpc.SetHeader(ctx, metadata.Pairs(sawLeaf, leafOf(p))); err != nil {
			return nil, err
		}
	}
	return handler(ctx, request)
}

// leafOf returns as much of the fingerprint of the other side's leaf as a person compares.
func leafOf(p *peer.Peer) string {
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return "none"
	}
	sum := sha256.Sum256(info.State.PeerCertificates[0].Raw)
	return hex.EncodeToString(sum[:])[:12]
}
