package wiring

// echo5.go is for echo v5.

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/labstack/echo/v5"

	"github.com/seed45259946/reload"
)

// Echo5 serves until ctx is done.
func Echo5(ctx context.Context, r *reload.Reloader, base *tls.Config, addr string, ready func(net.Addr)) error {
	e := echo.New()
	e.Use(echo.WrapMiddleware(r.Drain))
	config := echo.StartConfig{
		Address:          addr,
		TLSConfig:        r.ServerConfig(base),
		ListenerAddrFunc: ready,
		HideBanner:       true,
		HidePort:         true,
	}
	return config.Start(ctx, e)
}
