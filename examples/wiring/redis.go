package wiring

// redis.go is for Redis: the redcon server and the go-redis client.

import (
	"crypto/tls"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidwall/redcon"

	"github.com/seed45259946/reload"
)

// Redcon returns a server to be started with ListenAndServe.
func Redcon(r *reload.Reloader, base *tls.Config, addr string, handler func(redcon.Conn, redcon.Command)) *redcon.TLSServer {
	accept, closed := func(redcon.Conn) bool { return true }, func(redcon.Conn, error) {}
	return redcon.NewServerTLS(addr, handler, accept, closed, r.ServerConfig(base))
}

// Redis returns a client whose connections last for an hour at most.
func Redis(r *reload.Reloader, addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, Dialer: DialTLS(r), ConnMaxLifetime: time.Hour})
}
