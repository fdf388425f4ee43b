package wiring

// mongo.go is for MongoDB.

import (
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seed45259946/reload"
)

// Mongo returns a client of servers that have names.
func Mongo(r *reload.Reloader, uri string) (*mongo.Client, error) {
	return mongo.Connect(options.Client().ApplyURI(uri).SetTLSConfig(r.LiveClientConfig(nil, "")))
}
