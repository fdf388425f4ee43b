package main

// client.go is the other side of the demonstration: a client that connects time and again and shows each handshake.

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"time"
)

// visitor is a client that verifies the server and has no part in its rotations.
type visitor struct {
	url    string
	config *tls.Config
	out    io.Writer

	leaf                              string // that it saw last
	handshakes, generations, failures int
}

// visits the server until ctx is done, or nobody reads what it writes any more. A visit under way is finished.
func (v *visitor) visits(ctx context.Context, pause time.Duration) error {
	next := time.NewTicker(pause)
	defer next.Stop()
	if err := v.print("time", "gen", "leaf", "expires", "version", "session"); err != nil {
		return err
	}
	for {
		if err := v.visit(); err != nil {
			return err
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// visit makes two connections: the second resumes the session of the first. A resumed session keeps the leaf that it began
// with, so the next visit begins another.
func (v *visitor) visit() error {
	config := v.config.Clone()
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
		Timeout:   grace,
	}
	for range 2 {
		if err := v.handshake(client); err != nil {
			return err
		}
	}
	return nil
}

// handshake asks for a page on a connection of its own and prints what came of it.
func (v *visitor) handshake(client *http.Client) error {
	v.handshakes++
	state, err := get(client, v.url)
	now := time.Now().Format("15:04:05.000")
	if err != nil {
		v.failures++
		_, err = fmt.Fprintf(v.out, "%-12s  failed: %v\n", now, err)
		return err
	}
	leaf := state.PeerCertificates[0]
	if sum := sha256.Sum256(leaf.Raw); v.leaf != hex.EncodeToString(sum[:]) {
		v.leaf = hex.EncodeToString(sum[:])
		v.generations++
	}
	session := "full"
	if state.DidResume {
		session = "resumed"
	}
	return v.print(now, v.generations, short(v.leaf), leaf.NotAfter.Local().Format(time.TimeOnly),
		tls.VersionName(state.Version), session)
}

// print writes one line of the table.
func (v *visitor) print(columns ...any) error {
	_, err := fmt.Fprintf(v.out, "%-12v  %3v  %-12v  %-8v  %-7v  %v\n", columns...)
	return err
}

// get asks for a page and returns the state of the connection that brought it.
func get(client *http.Client, url string) (*tls.ConnectionState, error) {
	response, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", response.Status)
	}
	return response.TLS, nil
}
