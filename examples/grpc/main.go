// Command grpc shows a gRPC server and its client that verify each other, while the keypairs of both are replaced.
//
// It makes a throw-away CA and two volumes such as a kubelet mounts, one for each side, and replaces the keypair in one and
// then in the other every few seconds. A stream that was begun at the start lives on meanwhile; each line is the first call
// on a new connection.
package main

import "github.com/seed45259946/reload/examples/internal/demo"

func main() { demo.Main("grpc", "replace a keypair", demonstrate) }
