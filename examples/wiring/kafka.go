package wiring

// kafka.go is for the Kafka clients franz-go, kafka-go and sarama.

import (
	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/seed45259946/reload"
)

// Franz returns a client of franz-go.
func Franz(r *reload.Reloader, addr string) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(addr), kgo.Dialer(DialTLS(r)))
}

// KafkaReader returns what a kafka.Reader dials with: kafka.ReaderConfig.Dialer.
func KafkaReader(r *reload.Reloader) *kafka.Dialer {
	return &kafka.Dialer{DialFunc: DialTLS(r)}
}

// KafkaWriter returns what a kafka.Writer or a kafka.Client sends with: their Transport.
func KafkaWriter(r *reload.Reloader) *kafka.Transport {
	return &kafka.Transport{Dial: DialTLS(r)}
}

// Sarama returns a config for any kind of client. Brokers must have names: sarama dials with this one config.
func Sarama(r *reload.Reloader) *sarama.Config {
	config := sarama.NewConfig()
	config.Net.TLS.Enable, config.Net.TLS.Config = true, r.LiveClientConfig(nil, "")
	return config
}
