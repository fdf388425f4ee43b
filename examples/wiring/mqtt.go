package wiring

// mqtt.go is for MQTT: the mochi server and the paho client.

import (
	"crypto/tls"
	"net/url"

	paho "github.com/eclipse/paho.mqtt.golang"
	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"

	"github.com/seed45259946/reload"
)

// Mochi adds a listener to a server.
func Mochi(r *reload.Reloader, base *tls.Config, s *mochi.Server, addr string) (listeners.Listener, error) {
	l := listeners.NewTCP(listeners.Config{ID: "tls", Address: addr, TLSConfig: r.ServerConfig(base)})
	return l, s.AddListener(l)
}

// Paho returns options that ask for a config with each attempt to connect.
func Paho(r *reload.Reloader, broker string) *paho.ClientOptions {
	options := paho.NewClientOptions().AddBroker(broker)
	options.SetConnectionAttemptHandler(func(broker *url.URL, _ *tls.Config) *tls.Config {
		return r.ClientConfig(&tls.Config{ServerName: broker.Hostname()})
	})
	return options
}
