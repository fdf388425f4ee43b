package wiring

// sql.go is for the SQL drivers: pgx, lib/pq and go-sql-driver/mysql.

import (
	"context"
	"crypto/tls"
	"database/sql"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lib/pq"

	"github.com/seed45259946/reload"
)

// PGX returns a pool whose connections last for an hour at most.
func PGX(ctx context.Context, r *reload.Reloader, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConnLifetime = time.Hour
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.TLSConfig, c.Fallbacks = r.ClientConfig(&tls.Config{ServerName: c.Host}), nil
		return nil
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// PQ returns a pool whose connections last for an hour at most. The config is known to lib/pq by the name of its host.
func PQ(r *reload.Reloader, host, dsn string) (*sql.DB, error) {
	if err := pq.RegisterTLSConfig(host, r.LiveClientConfig(nil, host)); err != nil {
		return nil, err
	}
	connector, err := pq.NewConnector(dsn + " host=" + host + " sslmode=pqgo-" + host)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetConnMaxLifetime(time.Hour)
	return db, nil
}

// MySQL returns a pool whose connections last for an hour at most.
func MySQL(r *reload.Reloader, config *mysql.Config) (*sql.DB, error) {
	host, _, err := net.SplitHostPort(config.Addr)
	if err != nil {
		return nil, err
	}
	err = config.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error {
		c.TLS = r.ClientConfig(&tls.Config{ServerName: host})
		return nil
	}))
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetConnMaxLifetime(time.Hour)
	return db, nil
}
