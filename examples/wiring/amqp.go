package wiring

// amqp.go is for RabbitMQ.

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/seed45259946/reload"
)

// AMQP connects. The library makes one connection and no other: whoever calls it again gets what is live then.
func AMQP(r *reload.Reloader, url string) (*amqp.Connection, error) {
	return amqp.DialConfig(url, amqp.Config{TLSClientConfig: r.ClientConfig(nil)})
}
