package reloadgrpc

// credentials.go makes the credentials of both sides: gRPC's own for TLS, made anew for what is live.

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
)

// Source has the live generation: a [reload.Reloader] or a [reload.Store], or what embeds one of them.
type Source interface {
	// ClientConfig returns base with what is live, for one connection.
	ClientConfig(base *tls.Config) *tls.Config
	// ServerConfig returns base as the config of one server that follows what is live.
	ServerConfig(base *tls.Config) *tls.Config
}

// NewServerCredentials returns what [credentials.NewTLS] returns for base, except that each handshake shows the live leaf
// and, where base.ClientAuth verifies clients, accepts those of the live CAs alone: once a CA is withdrawn its clients can
// neither connect nor resume a session. [reload.Store.ConfigureServer] says what becomes of each field of base, which is
// not changed and may be nil. Handshakes fail with [reload.ErrNoCertificate] while nothing is loaded, and with
// [reload.ErrNoClientCAs] where clients are verified and the bundle has no CA file; gRPC logs neither unless told to.
//
// Connections that are open notice nothing of a rotation: [Drain], or keepalive.ServerParameters.MaxConnectionAge, ends
// them.
//
// Servers may share the credentials, and then resume each other's sessions.
func NewServerCredentials(source Source, base *tls.Config, options ...Option) credentials.TransportCredentials {
	return &serverCredentials{credentials.NewTLS(source.ServerConfig(base)), newDrainer(source, options)}
}

// NewClientCredentials returns what [credentials.NewTLS] returns for base, except that each handshake is made with the
// identity and the trust roots that are live when it begins. crypto/tls verifies the server as ever, by the host name or
// the IP address in the channel's target or in grpc.WithAuthority. [reload.Store.ClientConfig] says what becomes of each
// field of base, which is not changed and may be nil; a ClientSessionCache in it resumes no session of another identity,
// and none that the live roots do not vouch for. Handshakes fail with [reload.ErrNoCertificate] while nothing is loaded.
//
// A connection that is open stays, with the identity and the trust it was made with, for as long as server and network
// let it: [Drain] ends it.
//
// Any number of channels may share the credentials.
func NewClientCredentials(source Source, base *tls.Config, options ...Option) credentials.TransportCredentials {
	if base == nil {
		base = new(tls.Config)
	}
	base = base.Clone()
	return &clientCredentials{credentials.NewTLS(base), source, base, newDrainer(source, options)}
}

// serverCredentials are gRPC's, whose config follows by itself.
type serverCredentials struct {
	credentials.TransportCredentials
	drainer *drainer // nil: nothing is drained
}

// ServerHandshake is that of [credentials.NewTLS].
func (c *serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if c.drainer == nil {
		return c.TransportCredentials.ServerHandshake(raw)
	}
	made := c.drainer.generations.Load() // or a later one: the hello decides
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return c.drainer.server(conn, raw, made), info, nil
}

// ClientHandshake fails: what is for a server has no trust roots.
func (c *serverCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("reloadgrpc: server credentials in a client")
}

// Clone returns credentials that follow as c does.
func (c *serverCredentials) Clone() credentials.TransportCredentials {
	return &serverCredentials{c.TransportCredentials.Clone(), c.drainer}
}

// clientCredentials makes gRPC's own anew for each handshake. Those that it embeds only answer Info,
// where gRPC finds the name of the server.
type clientCredentials struct {
	credentials.TransportCredentials
	source  Source
	base    *tls.Config
	drainer *drainer // nil: nothing is drained
}

// ClientHandshake is that of [credentials.NewTLS] for what is live now.
func (c *clientCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if c.drainer == nil {
		return credentials.NewTLS(c.source.ClientConfig(c.base)).ClientHandshake(ctx, authority, raw)
	}
	made := c.drainer.generations.Load() // or a later one, if it is replaced just now
	below := &wakeable{Conn: raw}
	conn, info, err := credentials.NewTLS(c.source.ClientConfig(c.base)).ClientHandshake(ctx, authority, below)
	if err != nil {
		return nil, nil, err
	}
	return c.drainer.client(conn, below, made), info, nil
}

// ServerHandshake fails: what is for a client has no CAs to verify clients with.
func (c *clientCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("reloadgrpc: client credentials in a server")
}

// Clone returns credentials that follow as c does.
func (c *clientCredentials) Clone() credentials.TransportCredentials {
	return &clientCredentials{c.TransportCredentials.Clone(), c.source, c.base, c.drainer}
}
