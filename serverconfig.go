package reload

// serverconfig.go derives the config that serves one generation from the one that a server was given: what crypto/tls
// takes from it in place of the original, and what must stay with the original.

import (
	"crypto/tls"
	"crypto/x509"
	"reflect"
	"slices"
)

// derived is the config of one generation for one way to serve it. It is immutable.
type derived struct {
	bundle *Bundle
	protos []string
	auth   tls.ClientAuthType
	live   bool // clients are verified against the ClientCAs of bundle

	cfg *tls.Config
	h3  *tls.Config // for clients that offer HTTP/3; see keepTickets
}

// derive returns the config for b, the same for every handshake of a generation: it costs nothing, and a config anew for
// each would leave quic-go's http3.Server without resumption.
func (h *server) derive(hello *tls.ClientHelloInfo, b *Bundle, now serving, live bool) *tls.Config {
	d := h.last.Load()
	if d == nil || d.bundle != b || d.auth != now.auth || d.live != live || !slices.Equal(d.protos, now.protos) {
		d = &derived{bundle: b, protos: now.protos, auth: now.auth, live: live}
		d.cfg, d.h3 = h.build(b, now, live), h.build(b, now, live)
		keepTickets(d.h3, h.cfg)
		h.last.Store(d)
	}
	if offersHTTP3(hello) {
		return d.h3
	}
	return d.cfg
}

// build returns a new config with the fields of h.cfg, except those that serving config and bundle know better.
func (h *server) build(b *Bundle, now serving, live bool) *tls.Config {
	cfg := new(tls.Config)
	copyFields(cfg, h.cfg)
	cfg.NextProtos, cfg.ClientAuth = now.protos, now.auth
	h.follow(cfg, b, live)
	return cfg
}

// adopt makes a config from the user's own GetConfigForClient follow b. It is cloned with its ticket keys, which
// crypto/tls would have used too; the clone serves one handshake, so they cannot be out of date.
func (h *server) adopt(hello *tls.ClientHelloInfo, b *Bundle, own *tls.Config) (*tls.Config, error) {
	cfg := own.Clone()
	live := verifies(cfg.ClientAuth) && (cfg.ClientCAs == nil || cfg.ClientCAs == h.snapshot)
	if live && b.ClientCAs == nil {
		return nil, ErrNoClientCAs
	}
	h.follow(cfg, b, live)
	if offersHTTP3(hello) {
		keepTickets(cfg, own)
	}
	return cfg, nil
}

// follow puts the leaf of b into cfg and, where live, its ClientCAs.
func (h *server) follow(cfg *tls.Config, b *Bundle, live bool) {
	cfg.Certificates, cfg.NameToCertificate = []tls.Certificate{b.Cert}, nil
	cfg.GetCertificate, cfg.GetConfigForClient = nil, nil
	if live {
		cfg.ClientCAs = b.ClientCAs
	}
}

// serving is what counts of the config that crypto/tls is serving with: the one h was set up on, or a clone of it.
type serving struct {
	protos       []string
	auth         tls.ClientAuthType
	follows      bool // ClientCAs were set by nobody but us
	ownCAs       bool // ClientCAs are those of h.cfg
	certificates bool // Certificates is not empty: clients that send no name would get the first
}

// Where the fields of interest are. helloConfig is nil where a future crypto/tls keeps the config elsewhere.
var (
	helloConfig  = fieldOf[tls.ClientHelloInfo, *tls.Config]("config")
	nextProtos   = fieldOf[tls.Config, []string]("NextProtos")
	clientAuth   = fieldOf[tls.Config, tls.ClientAuthType]("ClientAuth")
	clientCAs    = fieldOf[tls.Config, *x509.CertPool]("ClientCAs")
	certificates = fieldOf[tls.Config, []tls.Certificate]("Certificates")
)

// fieldOf returns the index of a field of S by its name, nil unless it is a T.
func fieldOf[S, T any](name string) []int {
	f, ok := reflect.TypeFor[S]().FieldByName(name)
	if !ok || f.Type != reflect.TypeFor[T]() {
		return nil
	}
	return f.Index
}

// serving looks at the config that crypto/tls is serving hello with. A server that clones h.cfg may have changed the
// clone since: http.Server puts h2 into its clone's NextProtos, since Go 1.27 there alone, and a config without it would
// turn HTTP/2 off. The callback is not told which config that is, so this looks at it in the hello, where crypto/tls keeps
// it for SupportsCertificate: reading with package reflect, as far as that allows for a field that is not exported.
// Without it, h.cfg has to do.
func (h *server) serving(hello *tls.ClientHelloInfo) serving {
	own := reflect.ValueOf(h.cfg).Elem()
	cfg := own
	if hello != nil && helloConfig != nil {
		if c := reflect.ValueOf(hello).Elem().FieldByIndex(helloConfig); !c.IsNil() {
			cfg = c.Elem()
		}
	}
	pool, protos := cfg.FieldByIndex(clientCAs), cfg.FieldByIndex(nextProtos)
	s := serving{
		auth:         tls.ClientAuthType(cfg.FieldByIndex(clientAuth).Int()),
		follows:      pool.IsNil() || pool.Equal(reflect.ValueOf(h.snapshot)),
		ownCAs:       pool.Equal(own.FieldByIndex(clientCAs)),
		certificates: cfg.FieldByIndex(certificates).Len() > 0,
	}
	for i := range protos.Len() {
		s.protos = append(s.protos, protos.Index(i).String())
	}
	return s
}

// copyFields copies every exported field but SessionTicketKey. Clone would bring ticket keys along: crypto/tls prefers
// those of a config from GetConfigForClient, so they would outlive a later SetSessionTicketKeys, and a withdrawn key would
// go on to resume sessions. Without any, it uses and rotates the keys of the config that it serves with.
func copyFields(dst, src *tls.Config) {
	d, s := reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem()
	for i := range s.NumField() {
		if f := s.Type().Field(i); f.IsExported() && f.Name != "SessionTicketKey" {
			d.Field(i).Set(s.Field(i))
		}
	}
}

// keepTickets has cfg seal session tickets with the keys of holder, which lives on as cfg comes and goes. quic-go's
// http3.Server wraps the two functions of the config that GetConfigForClient returns and, where they are nil, has that
// config's own keys do the work, so that no session of one generation could be resumed in the next.
func keepTickets(cfg, holder *tls.Config) {
	if cfg.WrapSession == nil && cfg.UnwrapSession == nil && !cfg.SessionTicketsDisabled && !holder.SessionTicketsDisabled {
		cfg.WrapSession, cfg.UnwrapSession = holder.EncryptTicket, holder.DecryptTicket
	}
}

// offersHTTP3 reports whether the client would speak HTTP/3.
func offersHTTP3(hello *tls.ClientHelloInfo) bool {
	return hello != nil && slices.Contains(hello.SupportedProtos, "h3")
}
