package reloadgrpc_test

// wire_test.go looks at the bytes: whatever pieces frames come in, GOAWAY stands between two of them, once.

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"

	"github.com/seed45259946/reload/reloadgrpc"
	"github.com/seed45259946/reload/reloadtest"
)

// said is what a server may send: settings, a block of headers in three frames, data, no data, and a lot of it. Another frame
// may stand at any of places.
var said, places = func() ([]byte, []int) {
	var sent bytes.Buffer
	var places []int
	f := http2.NewFramer(&sent, nil)
	for _, write := range []func() error{
		func() error { return f.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 15}) },
		func() error {
			return errors.Join(
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}}),
				f.WriteContinuation(1, false, nil),
				f.WriteContinuation(1, true, []byte{0x84, 0x85}))
		},
		func() error { return f.WriteData(1, false, []byte("some data")) },
		func() error { return f.WriteData(1, false, nil) },
		func() error { return f.WriteData(1, true, bytes.Repeat([]byte("more"), 5)) },
	} {
		if err := write(); err != nil {
			panic(err)
		}
		places = append(places, sent.Len())
	}
	return sent.Bytes(), places
}()

// listener reads frames until the end.
type listener struct {
	goAways []int   // after how many others each came
	others  []frame // as much of them as matters here
	err     error
	done    chan struct{} // closed at the end
}

type frame struct {
	kind   http2.FrameType
	length uint32
}

// listen reads from r, so many bytes at a time.
func listen(r io.Reader, atATime int) *listener {
	l := &listener{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		f := http2.NewFramer(io.Discard, bufio.NewReaderSize(r, atATime)) // which minds what parts a block of headers
		for {
			got, err := f.ReadFrame()
			if err != nil {
				l.err = err
				return
			}
			if g, ok := got.(*http2.GoAwayFrame); ok && g.LastStreamID == 1<<31-1 && g.ErrCode == http2.ErrCodeNo {
				l.goAways = append(l.goAways, len(l.others))
			} else {
				l.others = append(l.others, frame{got.Header().Type, got.Header().Length})
			}
		}
	}()
	return l
}

// place returns how many frames are over at the first place from byte at on.
func place(at int) int {
	i, _ := slices.BinarySearch(places, at)
	return []int{1, 4, 5, 6, 7, 7}[i]
}

// link is a TLS connection between the credentials of one side, which drain, and somebody else.
type link struct {
	ours, theirs net.Conn
	below        *halting // of theirs
	rotate       func()
}

// newLink connects them. It rotates while the handshake reads for the nth time, if it does.
func newLink(ctx context.Context, which side, option reloadgrpc.Option, during int) link {
	GinkgoHelper()
	return newLinkIn(ctx, tls.VersionTLS13, which, option, during)
}

// newLinkIn is newLink in a version of TLS.
func newLinkIn(ctx context.Context, version uint16, which side, option reloadgrpc.Option, during int) link {
	GinkgoHelper()
	ca := reloadtest.NewCA(reloadtest.Options{})
	store := live(bundle(leaf(ca), ca))
	pipe, far := net.Pipe()
	there := &halting{Conn: far}
	l := link{below: there, rotate: func() {
		store.Store(bundle(leaf(ca), ca))
		synctest.Wait()
	}}
	here := &counting{Conn: pipe, left: during, then: l.rotate}
	made := make(chan error, 1)
	var other *tls.Conn
	var err error
	if which == serverSide {
		other = tls.Client(there, &tls.Config{
			RootCAs: ca.Pool(), ServerName: "localhost", NextProtos: []string{"h2"}, MaxVersion: version})
		go func() { made <- other.HandshakeContext(ctx) }()
		l.ours, _, err = reloadgrpc.NewServerCredentials(store, nil, option).ServerHandshake(here)
	} else {
		other = tls.Server(there, &tls.Config{
			Certificates: []tls.Certificate{leaf(ca).TLS()}, NextProtos: []string{"h2"}, MaxVersion: version})
		go func() { made <- other.HandshakeContext(ctx) }()
		l.ours, _, err = reloadgrpc.NewClientCredentials(store, nil, option).ClientHandshake(ctx, "localhost", here)
	}
	l.theirs = other
	Expect(err).NotTo(HaveOccurred())
	Expect(<-made).To(Succeed())
	return l
}

// counting does something when it has been read so many times.
type counting struct {
	net.Conn
	left int
	then func()
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left--; c.left == 0 {
		c.then()
	}
	return n, err
}

// halting does something in the middle of its next write, if it is given anything to do. A write that it is to hold goes
// out with the next one, which that is then in the middle of.
type halting struct {
	net.Conn
	do   func()
	hold bool
	held []byte
}

func (c *halting) Write(p []byte) (int, error) {
	if c.hold {
		c.hold, c.held = false, slices.Clone(p)
		return len(p), nil
	}
	half, all := len(c.held)+len(p)/2, append(c.held, p...)
	c.held = nil
	if do := c.do; do != nil {
		c.do = nil
		if _, err := c.Conn.Write(all[:half]); err != nil {
			return 0, err
		}
		do()
		all = all[half:]
	}
	if _, err := c.Conn.Write(all); err != nil {
		return 0, err
	}
	return len(p), nil
}

var _ = Describe("GOAWAY", func() {
	DescribeTable("comes between two frames, once, at the first place after a rotation",
		func(ctx SpecContext, which side, writing, reading int) {
			plain := listen(bytes.NewReader(said), len(said))
			<-plain.done
			for at := range len(said) + 1 {
				l := newLink(ctx, which, reloadgrpc.Drain(), 0)
				from, to := l.ours, l.theirs
				if which == clientSide {
					from, to = to, from
				}
				heard := listen(to, reading)
				write := func(p []byte) {
					for piece := range slices.Chunk(p, writing) {
						Expect(from.Write(piece)).To(Equal(len(piece)))
					}
					synctest.Wait()
				}
				write(said[:at])
				l.rotate()
				if slices.Contains(places, at) {
					Expect(heard.goAways).To(HaveLen(1), "at %d", at)
				} else {
					Expect(heard.goAways).To(BeEmpty(), "at %d", at)
				}
				write(said[at:])
				l.rotate()
				Expect(from.Close()).To(Succeed())
				<-heard.done
				to.Close() // says what it cannot send any more
				Expect(heard.goAways).To(Equal([]int{place(at)}), "at %d", at)
				Expect(heard.others).To(Equal(plain.others), "at %d", at)
				Expect(heard.err).To(MatchError(io.EOF))
			}
		},
		Entry("on the server", inBubble, SpecTimeout(limit), serverSide, len(said), 4096),
		Entry("on the server, written in pieces", inBubble, SpecTimeout(limit), serverSide, 7, 4096),
		Entry("on the client", inBubble, SpecTimeout(limit), clientSide, len(said), 4096),
		Entry("on the client, in pieces", inBubble, SpecTimeout(limit), clientSide, 7, 4096),
		Entry("on the client, read in pieces", inBubble, SpecTimeout(limit), clientSide, len(said), 16),
	)

	DescribeTable("comes after the first frame if the rotation came during the handshake",
		func(ctx SpecContext, which side, during int) {
			l := newLink(ctx, which, reloadgrpc.Drain(), during)
			from, to := l.ours, l.theirs
			if which == clientSide {
				from, to = to, from
			}
			heard := listen(to, 4096)
			Expect(http2.NewFramer(from, nil).WriteSettings()).To(Succeed())
			synctest.Wait()
			Expect(heard.goAways).To(Equal([]int{1}))
			Expect(from.Close()).To(Succeed())
			<-heard.done
			to.Close()
		},
		Entry("on the server", inBubble, SpecTimeout(limit), serverSide, 2),
		Entry("on the client", inBubble, SpecTimeout(limit), clientSide, 1),
	)

	It("is read by the client while half a TLS record is there, and the record is not lost", inBubble, func(ctx SpecContext) {
		l := newLink(ctx, clientSide, reloadgrpc.Drain(), 0)
		heard := listen(l.ours, 4096)
		Expect(l.theirs.Write(said[:places[0]])).Error().NotTo(HaveOccurred())
		l.below.do = func() {
			l.rotate()
			Expect(heard.goAways).To(Equal([]int{1}))
			Expect(heard.others).To(HaveLen(1))
		}
		Expect(l.theirs.Write(said[places[0]:])).Error().NotTo(HaveOccurred())
		Expect(l.theirs.Close()).To(Succeed())
		<-heard.done
		l.ours.Close()
		Expect(heard.err).To(MatchError(io.EOF))
		Expect(heard.others).To(HaveLen(7))
	}, SpecTimeout(limit))

	It("is read by the client while half an alert is there, and what came before that is not lost", inBubble, func(ctx SpecContext) {
		// crypto/tls reads the rest of an alert before it returns the data in front. In TLS 1.3 an alert looks like data.
		l := newLinkIn(ctx, tls.VersionTLS12, clientSide, reloadgrpc.Drain(), 0)
		heard := listen(l.ours, 4096)
		l.below.hold = true
		Expect(l.theirs.Write(said[:places[0]])).Error().NotTo(HaveOccurred())
		l.below.do = func() {
			synctest.Wait()
			l.rotate()
			Expect(heard.goAways).To(Equal([]int{1}))
			Expect(heard.others).To(HaveLen(1))
		}
		Expect(l.theirs.Close()).To(Succeed())
		<-heard.done
		l.ours.Close()
		Expect(heard.err).To(MatchError(io.EOF))
	}, SpecTimeout(limit))

	DescribeTable("does not come after one of the server's own",
		func(ctx SpecContext, which side, rotateFirst bool) {
			l := newLink(ctx, which, reloadgrpc.Drain(), 0)
			from, to := l.ours, l.theirs
			if which == clientSide {
				from, to = to, from
			}
			heard := listen(to, 4096)
			f := http2.NewFramer(from, nil)
			if rotateFirst {
				l.rotate()
			}
			own := func() error { return f.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil) }
			if !rotateFirst {
				Expect(f.WriteSettings()).To(Succeed())
			}
			Expect(own()).To(Succeed())
			synctest.Wait()
			l.rotate()
			Expect(f.WriteData(1, true, nil)).To(Succeed())
			Expect(from.Close()).To(Succeed())
			<-heard.done
			to.Close() // says what it cannot send any more
			Expect(heard.goAways).To(HaveLen(1))
		},
		Entry("on the server", inBubble, SpecTimeout(limit), serverSide, false),
		Entry("on the server, in the first frame after a rotation", inBubble, SpecTimeout(limit), serverSide, true),
		Entry("on the client", inBubble, SpecTimeout(limit), clientSide, false),
		Entry("on the client, in the first frame after a rotation", inBubble, SpecTimeout(limit), clientSide, true),
	)

	It("is heeded by force where DrainWithin was asked for", inBubble, func(ctx SpecContext) {
		for _, which := range []side{serverSide, clientSide} {
			l := newLink(ctx, which, reloadgrpc.DrainWithin(time.Minute), 0)
			heard := listen(l.theirs, 4096)
			f := http2.NewFramer(l.ours, nil)
			Expect(f.WriteSettings()).To(Succeed())
			synctest.Wait()
			l.rotate()
			pass(time.Minute - time.Nanosecond)
			l.rotate() // which does not begin the grace anew
			Expect(f.WriteData(1, false, nil)).To(Succeed())
			synctest.Wait()
			Expect(heard.others).To(HaveLen(2))
			pass(time.Nanosecond)
			<-heard.done
			Expect(heard.err).To(MatchError(io.EOF))
			Expect(f.WriteData(1, false, nil)).NotTo(Succeed())
			l.theirs.Close()
		}
	}, SpecTimeout(limit))

	It("does not disturb the deadlines of a reader", inBubble, func(ctx SpecContext) {
		for _, before := range []bool{true, false} {
			l := newLink(ctx, clientSide, reloadgrpc.Drain(), 0)
			if before {
				Expect(l.ours.SetReadDeadline(time.Now().Add(time.Hour))).To(Succeed())
			}
			l.rotate()
			if !before {
				Expect(l.ours.SetDeadline(time.Now().Add(time.Hour))).To(Succeed())
			}
			start := time.Now()
			_, err := l.ours.Read(make([]byte, 1))
			Expect(err).To(MatchError(os.ErrDeadlineExceeded))
			Expect(time.Since(start)).To(Equal(time.Hour))
			l.theirs.Close()
			l.ours.Close()
		}
	}, SpecTimeout(limit))
})
