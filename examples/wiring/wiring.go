// Package wiring has the line of code that makes a server or a client follow a bundle, one file for each library. The table
// in docs/wiring.md quotes them, and the specs here prove what it says of them.
package wiring

// wiring.go is for clients that take a function to dial with.

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/seed45259946/reload"
)

// DialTLS returns a function that dials with the identity and the trust roots that are live when it is called. The server
// must prove to be the host of addr, be it a name or an IP address.
func DialTLS(r *reload.Reloader) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&tls.Dialer{Config: r.ClientConfig(nil)}).DialContext(ctx, network, addr)
	}
}
