package reloadgrpc

// frames.go finds where one HTTP/2 frame ends and the next begins (RFC 9113, section 4.1).

const (
	headerLength = 9

	typeHeaders      = 0x1
	typePushPromise  = 0x5
	typeGoAway       = 0x7
	typeContinuation = 0x9
	flagEndHeaders   = 0x4
)

// reason is what the other side finds in GOAWAY, and in errors of gRPC that mention it.
const reason = "reload: a newer generation is live"

// goAway is a GOAWAY frame that turns away no stream: the last one that will be served is the last one there can be, and
// there is no error. It is the first of the two that section 6.8 has for a graceful shutdown. The second, with the last
// stream that is served, is not sent: who heeds the first closes the connection after the last call.
const goAway = "\x00\x00" + string(rune(8+len(reason))) + "\x07\x00" + "\x00\x00\x00\x00" + // length, type, flags, stream 0
	"\x7f\xff\xff\xff" + "\x00\x00\x00\x00" + reason // last stream, NO_ERROR

// frames follows one direction of a connection. The zero value is at its beginning; a client's preface is no frame.
type frames struct {
	header  [headerLength]byte
	have    int  // bytes of header
	payload int  // bytes to come of it
	block   bool // a block of headers goes on in the next frame, and nothing may come between
	settled bool // a frame has passed: the first must be SETTINGS
	goAway  bool // GOAWAY was among them
}

// between reports whether a frame may be put in here.
func (f *frames) between() bool { return f.have == 0 && f.settled && !f.block }

// left returns how many bytes can be read without going past the current header or payload.
func (f *frames) left() int {
	if f.have < headerLength {
		return headerLength - f.have
	}
	return f.payload
}

// pass takes note of p.
func (f *frames) pass(p []byte) {
	for len(p) > 0 && !f.goAway {
		p = p[f.step(p):]
	}
}

// passUntilBetween takes note of p as far as the first place for a frame, and returns where that is: len(p) if there is none.
func (f *frames) passUntilBetween(p []byte) (n int) {
	for n < len(p) && !f.between() {
		n += f.step(p[n:])
	}
	return n
}

// step takes note of what belongs to one header or one payload, and returns how much that is.
func (f *frames) step(p []byte) (n int) {
	if f.have < headerLength {
		n = copy(f.header[f.have:], p)
		if f.have += n; f.have == headerLength {
			f.begin()
		}
	} else {
		n = min(len(p), f.payload)
		f.payload -= n
	}
	if f.have == headerLength && f.payload == 0 {
		f.have, f.settled = 0, true
	}
	return n
}

// begin reads a header.
func (f *frames) begin() {
	f.payload = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
	switch kind, flags := f.header[3], f.header[4]; kind {
	case typeHeaders, typePushPromise, typeContinuation:
		f.block = flags&flagEndHeaders == 0
	case typeGoAway:
		f.goAway = true
	}
}
