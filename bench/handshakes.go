package main

// handshakes.go measures whole handshakes, client and server together, beside those of a server whose config never
// changes.

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/seed45259946/reload/reloadtest"
)

func handshakes(e effort, peers []peer) (*table, error) {
	t := &table{
		title:   "Handshakes a second",
		columns: []string{"", "TLS", "full", "ratio", "resumed", "ratio", "share", "mutual", "ratio", "mutual resumed", "ratio", "share"},
		notes: []string{fmt.Sprintf("Client and server in one process over a socket pair, ECDSA P-256, a chain of two. One over the median time of %d "+
			"handshakes; ratio to a static config, whose handshakes come between these. Share: how many of those that could "+
			"be resumed were.", e.handshakes)},
	}
	g, err := newGround()
	if err != nil {
		return nil, err
	}
	defer g.clear()
	for _, p := range peers {
		for _, version := range []uint16{tls.VersionTLS13, tls.VersionTLS12} {
			row := []string{p.name, tls.VersionName(version)[len("TLS "):]}
			for _, mutual := range []bool{false, true} {
				for _, resume := range []bool{false, true} {
					cells, err := compare(e, g, p, version, mutual, resume)
					if err != nil {
						return nil, fmt.Errorf("%s: %w", p.name, err)
					}
					row = append(row, cells...)
				}
			}
			t.add(row...)
		}
	}
	return t, nil
}

// compare returns the cells of one kind of handshake.
func compare(e effort, g *ground, p peer, version uint16, mutual, resume bool) (cells []string, err error) {
	s, err := g.site("handshakes", reloadtest.SecretVolume())
	if err != nil {
		return nil, err
	}
	var sides [2]*visits
	for i, side := range []peer{p, static} {
		server, err := side.start(s.files, mutual)
		if err != nil {
			return nil, err
		}
		defer server.stop()
		client := g.visitor()
		client.MinVersion, client.MaxVersion = version, version
		if resume {
			client.ClientSessionCache = tls.NewLRUClientSessionCache(0)
		}
		sides[i] = &visits{server: server, client: client}
		if err := sides[i].again(); err != nil { // so that there is a session to resume
			return nil, err
		}
		sides[i].resumed = 0
	}
	took, err := inTurns(e.handshakes, sides[0].again, sides[1].again)
	if err != nil {
		return nil, err
	}
	cells = []string{fmt.Sprintf("%.0f", float64(time.Second)/float64(took[0])), ratio(float64(took[1]), float64(took[0]))}
	if resume {
		cells = append(cells, fmt.Sprintf("%d %%", sides[0].resumed*100/e.handshakes))
	}
	return cells, nil
}

// visits counts the handshakes of a client that resumed a session.
type visits struct {
	server  *server
	client  *tls.Config
	resumed int
}

func (v *visits) again() error {
	state, err := visit(v.server, v.client)
	if err == nil && state.DidResume {
		v.resumed++
	}
	return err
}

// visit connects to a server until that has said something, and so accepted the client.
func visit(s *server, client *tls.Config) (tls.ConnectionState, error) {
	here, there, err := pipe()
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer here.Close()
	refused := make(chan error, 1)
	go func() {
		defer there.Close()
		conn, err := s.handshake(there)
		if err == nil {
			_, err = conn.Write([]byte{1})
		}
		refused <- err
	}()
	conn := tls.Client(here, client)
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		here.Close()
		if reason := <-refused; reason != nil {
			return tls.ConnectionState{}, reason
		}
		return tls.ConnectionState{}, err
	}
	return conn.ConnectionState(), <-refused
}

// pipe returns both ends of a connection in memory. Unlike those of net.Pipe they have buffers, without which a server that
// writes tickets and a client that writes its last message wait for each other.
func pipe() (here, there net.Conn, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "pipe")
		conn, failed := net.FileConn(file) // on a descriptor of its own
		ends[i], err = conn, errors.Join(err, failed, file.Close())
	}
	return ends[0], ends[1], err
}
