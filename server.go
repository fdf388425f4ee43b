package reload

// server.go makes the tls.Config of a server follow its Store: the live leaf on every handshake and, where clients are
// verified, the live ClientCAs of the same bundle. serverconfig.go derives the configs that it hands to crypto/tls.

import (
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
)

// ServerConfig returns a new config for one server that follows s, with everything else as in base, which is not changed
// and may be nil. Ask for one config per server: http.Server changes the config it is given, and two servers that share
// one race. Put what base has to say into it first; [Store.ConfigureServer] fits servers that set up a config of theirs
// piece by piece, and documents what holds for both:
//
//	srv := &http.Server{TLSConfig: store.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert})}
//	err := srv.ListenAndServeTLS("", "")
//
// Session ticket keys set on base are copied; to change them while the server runs, call SetSessionTicketKeys on the
// config returned. Like crypto/tls itself, a server that works on a clone of that config (http.Server.ServeTLS does) does
// not hear of it: serve such a config with [tls.NewListener].
func (s *Store) ServerConfig(base *tls.Config) *tls.Config {
	if base == nil {
		base = new(tls.Config)
	}
	cfg := base.Clone()
	s.ConfigureServer(cfg)
	return cfg
}

// ConfigureServer makes cfg, the config of one server, follow s. Call it once, before the server starts; it fits
// controller-runtime's TLSOpts. Other fields may still be set after it, until the first handshake. The server may clone
// cfg and change its clone's NextProtos, ClientAuth and ClientCAs, as http.Server and gRPC do: those of the clone count.
//
// The leaf is always the live one, for every server name and for clients that send none. Certificates, NameToCertificate
// and GetCertificate are cleared or replaced; certificates put there later, such as from file names given to
// http.Server.ServeTLS, do not win. While nothing is loaded handshakes fail with [ErrNoCertificate].
//
// Where ClientAuth is VerifyClientCertIfGiven or RequireAndVerifyClientCert, clients are verified against the live
// [Bundle].ClientCAs, of the same bundle as the leaf, and sent their names. A withdrawn CA takes effect with the next
// handshake, resumed or not; see [Store.Drain] for the connections that are open. A bundle without a CA file fails the
// handshake with [ErrNoClientCAs]: publicly trusted CAs never verify clients. ClientCAs that somebody set, in cfg before
// this call or after it, are kept as they are and do not follow s. Otherwise this call sets ClientCAs, to those live now
// or, while ClientAuth does not verify, to none: should a server drop the callbacks that follow s, what it trusts is out
// of date, never more. A ClientAuth that only requests certificates leaves it to VerifyConnection to judge them.
//
// A GetConfigForClient found in cfg is asked first, and its error stands. Where it returns nil, all is as if it were not
// there. A config that it returns is served with the live leaf in place of its own certificates; its ClientCAs are the
// live ones if it verifies clients and has none. Other fields are used as they are, NextProtos included.
//
// Session tickets stay with crypto/tls: keys made and rotated by it, set with SetSessionTicketKeys, or replaced with
// WrapSession and UnwrapSession, work as without this call, and sessions are resumed across generations. One case differs:
// a server of HTTP/3 ("h3" in NextProtos) that verifies clients seals tickets with the keys of cfg itself, since quic-go's
// http3.Server would otherwise take new ones from each generation; on a clone of cfg SetSessionTicketKeys has no effect
// then. VerifyConnection is called on every handshake, as ever, and is the place for a check of revocation;
// VerifyPeerCertificate is not called for resumed sessions.
func (s *Store) ConfigureServer(cfg *tls.Config) {
	h := &server{store: s, cfg: cfg, perClient: cfg.GetConfigForClient}
	if cfg.ClientCAs == nil {
		h.snapshot = s.snapshotClientCAs(cfg.ClientAuth)
		cfg.ClientCAs = h.snapshot
	}
	//lint:ignore SA1019 deprecated, and in use
	cfg.Certificates, cfg.NameToCertificate = nil, nil
	// Some servers look only at the first of these two to see whether there is a certificate.
	cfg.GetCertificate, cfg.GetConfigForClient = s.GetCertificate, h.configForClient
}

// snapshotClientCAs is what a config holds in case its server drops our callbacks. It is a pool of its own, since
// frameworks add to what they find, and never nil, which crypto/tls takes for the system roots. It is empty for a config
// that does not verify yet: the names in it would tell clients which certificates not to send.
func (s *Store) snapshotClientCAs(auth tls.ClientAuthType) *x509.CertPool {
	if b := s.live.Load(); verifies(auth) && b != nil && b.ClientCAs != nil {
		return b.ClientCAs.Clone()
	}
	return x509.NewCertPool()
}

// verifies reports whether crypto/tls verifies client certificates against ClientCAs.
func verifies(auth tls.ClientAuthType) bool { return auth >= tls.VerifyClientCertIfGiven }

// server is the callback of one server's config.
type server struct {
	store     *Store
	cfg       *tls.Config // as configured; it has settled by the first handshake
	perClient func(*tls.ClientHelloInfo) (*tls.Config, error)
	snapshot  *x509.CertPool // what we put into cfg.ClientCAs; nil where it was set already

	last atomic.Pointer[derived] // the config of the latest generation, so that handshakes share it
}

// configForClient fits [tls.Config].GetConfigForClient. It returns nil, so that the serving config does everything but
// choose the leaf, wherever that is enough: no copy is as true to the original.
func (h *server) configForClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	b := h.store.live.Load()
	if b == nil || len(b.Cert.Certificate) == 0 {
		return nil, ErrNoCertificate
	}
	h.store.noteHandshake(hello, b)
	now := h.serving(hello)
	if h.perClient != nil {
		cfg, err := h.perClient(hello)
		if err != nil {
			return nil, err
		}
		if cfg != nil {
			return h.adopt(b, now, cfg)
		}
	}
	live := verifies(now.auth) && now.follows
	switch {
	case live && b.ClientCAs == nil:
		return nil, ErrNoClientCAs
	case live, now.certificates && (now.follows || now.ownCAs):
		return h.derive(b, now, live), nil
	default:
		return nil, nil
	}
}
