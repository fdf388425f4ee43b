// Package reloadgrpc makes gRPC transport credentials of what package reload keeps fresh: every handshake, on either side,
// is made with the live keypair and the live CAs.
//
//	server := grpc.NewServer(grpc.Creds(reloadgrpc.NewServerCredentials(keypair, &tls.Config{
//		ClientAuth: tls.RequireAndVerifyClientCert,
//	})))
//
//	channel, err := grpc.NewClient("dns:///upstream.example:443",
//		grpc.WithTransportCredentials(reloadgrpc.NewClientCredentials(identity, nil)))
//
// Everything else is as with [credentials.NewTLS], which does the work: ALPN, versions and cipher suites, the server name,
// and the [credentials.TLSInfo] that handlers find with peer.FromContext, with its VerifiedChains and SPIFFE id.
//
// # Connections
//
// A rotation reaches new connections, and gRPC keeps a connection for as long as it can. [Drain] has connections of an
// older generation end with their last call, without a call that fails, on the side that it is given to. [DrainWithin] cuts
// what is left of them after a while, for a CA that was withdrawn for a reason. Without either, a server can bound the life
// of every connection with keepalive.ServerParameters.MaxConnectionAge; a client that is not drained keeps its identity and
// its trust until the connection breaks.
//
// # Failure
//
// A channel whose handshakes fail waits between attempts, two minutes in the end. If what fails them is on its own side, such
// as files that are not there yet, ResetConnectBackoff of the channel in [reload.WatchOptions.OnSwap] has it try when they
// have come.
package reloadgrpc
