// Command quic keeps a QUIC tunnel open while the keypairs at both of its ends are replaced.
//
// It is server and client in one, with two throw-away CAs and a volume such as a kubelet mounts at each end. Every few
// seconds it replaces a leaf, or the CA of the server, or it withdraws the CA of the client, and shows what the tunnel that
// was there from the start makes of it, and what new ones do: which leaf they see, and whether they resume a session, with
// data in their first packet (0-RTT). HTTP/3 and HTTP/2 are served from the same keypair.
package main

import "github.com/seed45259946/reload/examples/internal/demo"

func main() { demo.Main("quic", "replace something", demonstrate) }
