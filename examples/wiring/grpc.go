package wiring

// grpc.go is for gRPC, and for the etcd client, which is one of gRPC.

import (
	"crypto/tls"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadgrpc"
)

// GRPCServer returns a server whose clients connect anew after a rotation.
func GRPCServer(r *reload.Reloader, base *tls.Config) *grpc.Server {
	return grpc.NewServer(grpc.Creds(reloadgrpc.NewServerCredentials(r, base, reloadgrpc.Drain())))
}

// GRPCClient returns a channel that connects anew after a rotation.
func GRPCClient(r *reload.Reloader, target string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	live := grpc.WithTransportCredentials(reloadgrpc.NewClientCredentials(r, nil, reloadgrpc.Drain()))
	return grpc.NewClient(target, append(more, live)...)
}

// Etcd returns a client that connects anew after a rotation. Its credentials take the place of config.TLS.
func Etcd(r *reload.Reloader, config clientv3.Config) (*clientv3.Client, error) {
	live := grpc.WithTransportCredentials(reloadgrpc.NewClientCredentials(r, nil, reloadgrpc.Drain()))
	config.DialOptions = append(config.DialOptions, live)
	return clientv3.New(config)
}
