package main

// show.go looks at both ends after each rotation, prints what it sees, and counts what it should not see.

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/seed45259946/reload/reloadtest"
)

// look shows the tunnel that is open, new ones, and pages on new connections. Its error is that of ctx.
func (d *demonstration) look(ctx context.Context) error {
	looking, done := finishing(ctx)
	defer done()
	d.showFirst()
	d.showTunnel(looking, "new tunnel", d.newcomer)
	d.showTunnel(looking, "returning", d.returning)
	d.h3.CloseIdleConnections()
	d.h2.CloseIdleConnections()
	d.showPage(looking, "HTTP/3", d.h3, http3.MethodGet0RTT, d.pages, http.StatusOK)
	d.showPage(looking, "HTTP/2", d.h2, http.MethodGet, d.pages2, http.StatusOK)
	return ctx.Err()
}

// finishing returns a context for what is finished when ctx is done: servers complain of handshakes that are cut, and wait
// for the rest of them.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}

// lookRefused shows what becomes of a client whose CA was withdrawn: no new tunnel, no page even on connections that are
// open, but the first tunnel goes on, since nothing asks after a handshake.
func (d *demonstration) lookRefused(ctx context.Context) error {
	looking, done := finishing(ctx)
	defer done()
	d.showFirst()
	for _, try := range []struct {
		who string
		*dialer
	}{{"new tunnel", d.newcomer}, {"returning", d.returning}} {
		t, err := try.dial(looking)
		if err != nil {
			line(try.who, "refused: %v", err)
			continue
		}
		d.surprise(try.who, "not refused")
		t.close()
	}
	d.showPage(looking, "HTTP/3", d.h3, http.MethodGet, d.pages, http.StatusForbidden)
	d.showPage(looking, "HTTP/2", d.h2, http.MethodGet, d.pages2, http.StatusForbidden)
	return ctx.Err()
}

// showFirst sends one more message through the tunnel that was there from the start.
func (d *demonstration) showFirst() {
	if err := d.first.echo(); err != nil {
		d.surprise("first tunnel", "%v", err)
		return
	}
	line("first tunnel", "leaf %s  echoes: message %d", leaf(d.first.state().TLS), d.first.echoes)
}

// showTunnel opens a tunnel for as long as one message takes.
func (d *demonstration) showTunnel(ctx context.Context, who string, from *dialer) {
	t, err := from.dial(ctx)
	if err != nil {
		d.surprise(who, "%v", err)
		return
	}
	defer t.close()
	state := t.state()
	how := "full handshake"
	switch {
	case state.Used0RTT:
		how = "resumed, 0-RTT; the leaf is that of its session"
	case state.TLS.DidResume:
		how = "resumed; the leaf is that of its session"
	case leaf(state.TLS) != short(d.server.Keypair.Fingerprint()):
		d.surprise(who, "the leaf %s is not the one in the files", leaf(state.TLS))
	}
	line(who, "leaf %s  %s", leaf(state.TLS), how)
}

// showPage asks for a page.
func (d *demonstration) showPage(ctx context.Context, who string, from http.RoundTripper, method, url string, status int) {
	body, response, err := get(ctx, from, method, url)
	switch {
	case err != nil:
		d.surprise(who, "%v", err)
	case response.StatusCode != status:
		d.surprise(who, "%s, not %d", response.Status, status)
	case status != http.StatusOK:
		line(who, "refused: %d, %s", status, body)
	case response.TLS.DidResume:
		line(who, "leaf %s  resumed: %s", leaf(*response.TLS), body)
	case leaf(*response.TLS) != short(d.server.Keypair.Fingerprint()):
		d.surprise(who, "the leaf %s is not the one in the files", leaf(*response.TLS))
	default:
		line(who, "leaf %s  full handshake: %s", leaf(*response.TLS), body)
	}
}

// get returns one line and what it came with.
func get(ctx context.Context, from http.RoundTripper, method, url string) (string, *http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", nil, err
	}
	response, err := from.RoundTrip(request)
	if err != nil {
		return "", nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return strings.TrimSpace(string(body)), response, err
}

// surprise counts and shows what should not be.
func (d *demonstration) surprise(who, format string, args ...any) {
	d.surprises++
	line(who, "SURPRISE: "+format, args...)
}

// announce says what has been replaced.
func announce(what string) { fmt.Printf("%s  %s\n", time.Now().Format("15:04:05.000"), what) }

// line shows one finding.
func line(who, format string, args ...any) {
	fmt.Printf("%14s%-14s"+format+"\n", append([]any{"", who}, args...)...)
}

// leaf is as much of the fingerprint of the server's leaf as a person compares.
func leaf(state tls.ConnectionState) string {
	return short((&reloadtest.Keypair{Leaf: state.PeerCertificates[0]}).Fingerprint())
}

func short(fingerprint string) string { return fingerprint[:min(len(fingerprint), 12)] }
