package wiring

// fiber3.go is for fiber v3.

import (
	"crypto/tls"
	"net"

	"github.com/gofiber/fiber/v3"

	"github.com/seed45259946/reload"
)

// Fiber serves until app.Shutdown.
func Fiber(r *reload.Reloader, base *tls.Config, app *fiber.App, addr string, ready func(net.Addr)) error {
	return app.Listen(addr, fiber.ListenConfig{
		TLSConfig:             r.ServerConfig(base),
		ListenerAddrFunc:      ready,
		DisableStartupMessage: true,
	})
}
