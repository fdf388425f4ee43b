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
	noted  bool // verified clients are remembered, for Drain

	cfg *tls.Config
}

// derive returns the config for b, the same for every handshake of a generation.
func (h *server) derive(b *Bundle, now serving, live bool) *tls.Config {
	d, noted := h.last.Load(), live && draining.Load()
	if d == nil || d.bundle != b || d.auth != now.auth || d.live != live || d.noted != noted || !now.speaks(d.protos) {
		d = &derived{bundle: b, protos: now.protocols(), auth: now.auth, live: live, noted: noted}
		d.cfg = h.build(d)
		h.last.Store(d)
	}
	return d.cfg
}

// build returns a new config for d with the fields of h.cfg, except those that serving config and bundle know better.
func (h *server) build(d *derived) *tls.Config {
	cfg := new(tls.Config)
	copyFields(cfg, h.cfg)
	cfg.NextProtos, cfg.ClientAuth = d.protos, d.auth
	h.follow(cfg, d.bundle, d.live, d.noted)
	if slices.Contains(d.protos, "h3") {
		keepTickets(cfg, h.cfg)
	}
	return cfg
}

// adopt makes a config from the user's own GetConfigForClient follow b. It is cloned with its ticket keys, which
// crypto/tls would have used too; the clone serves one handshake, so they cannot be out of date.
func (h *server) adopt(b *Bundle, now serving, own *tls.Config) (*tls.Config, error) {
	cfg := own.Clone()
	live := verifies(cfg.ClientAuth) && (cfg.ClientCAs == nil || cfg.ClientCAs == h.snapshot)
	if live && b.ClientCAs == nil {
		return nil, ErrNoClientCAs
	}
	h.follow(cfg, b, live, draining.Load())
	if slices.Contains(now.protocols(), "h3") {
		keepTickets(cfg, own)
	}
	return cfg, nil
}

// follow puts the leaf of b into cfg and, where live, its ClientCAs.
func (h *server) follow(cfg *tls.Config, b *Bundle, live, noted bool) {
	//lint:ignore SA1019 deprecated, and in use
	cfg.Certificates, cfg.NameToCertificate = []tls.Certificate{b.Cert}, nil
	cfg.GetCertificate, cfg.GetConfigForClient = nil, nil
	if live {
		cfg.ClientCAs = b.ClientCAs
	}
	if live && noted {
		cfg.VerifyConnection = h.store.notingClients(b.ClientCAs, cfg.VerifyConnection)
	}
}

// serving is what counts of the config that crypto/tls is serving with: the one h was set up on, or a clone of it.
type serving struct {
	protos       reflect.Value // NextProtos
	auth         tls.ClientAuthType
	follows      bool // ClientCAs were set by nobody but us
	ownCAs       bool // ClientCAs are those of h.cfg
	certificates bool // Certificates is not empty: clients that send no name would get the first
}

// Where the fields of interest are. helloConfig is negative where a future crypto/tls keeps the config elsewhere.
var (
	helloConfig  = fieldOf[tls.ClientHelloInfo, *tls.Config]("config")
	nextProtos   = fieldOf[tls.Config, []string]("NextProtos")
	clientAuth   = fieldOf[tls.Config, tls.ClientAuthType]("ClientAuth")
	clientCAs    = fieldOf[tls.Config, *x509.CertPool]("ClientCAs")
	certificates = fieldOf[tls.Config, []tls.Certificate]("Certificates")
)

// fieldOf returns the index of a field of S by its name, -1 unless it is a T.
func fieldOf[S, T any](name string) int {
	f, ok := reflect.TypeFor[S]().FieldByName(name)
	if !ok || f.Type != reflect.TypeFor[T]() {
		return -1
	}
	return f.Index[0]
}

// serving looks at the config that crypto/tls is serving hello with. A server that clones h.cfg may have changed the
// clone since: http.Server puts h2 into its clone's NextProtos, since Go 1.27 there alone, and a config without it would
// turn HTTP/2 off. The callback is not told which config that is, so this looks at it in the hello, where crypto/tls keeps
// it for SupportsCertificate: reading with package reflect, as far as that allows for a field that is not exported.
// Without it, h.cfg has to do.
func (h *server) serving(hello *tls.ClientHelloInfo) serving {
	own := reflect.ValueOf(h.cfg).Elem()
	cfg := own
	if hello != nil && helloConfig >= 0 {
		if c := reflect.ValueOf(hello).Elem().Field(helloConfig); !c.IsNil() {
			cfg = c.Elem()
		}
	}
	pool := cfg.Field(clientCAs)
	return serving{
		protos:       cfg.Field(nextProtos),
		auth:         tls.ClientAuthType(cfg.Field(clientAuth).Int()),
		follows:      pool.IsNil() || pool.Equal(reflect.ValueOf(h.snapshot)),
		ownCAs:       pool.Equal(own.Field(clientCAs)),
		certificates: cfg.Field(certificates).Len() > 0,
	}
}

// speaks reports whether NextProtos are these, without an allocation.
func (s serving) speaks(protos []string) bool {
	if s.protos.Len() != len(protos) {
		return false
	}
	for i, p := range protos {
		if s.protos.Index(i).String() != p {
			return false
		}
	}
	return true
}

// protocols returns a copy of NextProtos.
func (s serving) protocols() (protos []string) {
	for i := range s.protos.Len() {
		protos = append(protos, s.protos.Index(i).String())
	}
	return protos
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

// keepTickets has cfg seal session tickets with the keys of holder, which lives on as cfg comes and goes. It is for HTTP/3:
// quic-go's http3.Server wraps the two functions of the config that GetConfigForClient returns and, where they are nil,
// has that config's own keys do the work, so that no session of one generation could be resumed in the next.
func keepTickets(cfg, holder *tls.Config) {
	if cfg.WrapSession == nil && cfg.UnwrapSession == nil {
		cfg.WrapSession, cfg.UnwrapSession = holder.EncryptTicket, holder.DecryptTicket
	}
}
