// Command client calls servers that verify it, while its identity and the roots it trusts are replaced.
//
// It is client and servers in one, with throw-away CAs and a volume such as a kubelet mounts for each side: an HTTPS server
// behind a CONNECT proxy, and a server that speaks Redis' protocol. Every few seconds the client gets a new certificate, and
// the servers one of a new CA now and then. The program shows each request, and as whom the server saw the client.
package main

import "github.com/seed45259946/reload/examples/internal/demo"

func main() { demo.Main("client", "replace the certificate of the client", demonstrate) }
