package reload

// lastresponse.go has a response close its connection.

import "net/http"

// serveLast has next answer r with a response that closes the connection.
func serveLast(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if r.ProtoMajor < 2 {
		w.Header().Set("Connection", "close")
		next.ServeHTTP(w, r)
		return
	}
	last := &lastResponse{ResponseWriter: w}
	if f, ok := w.(http.Flusher); ok {
		next.ServeHTTP(&lastFlusher{last, f}, r)
	} else {
		next.ServeHTTP(last, r)
	}
	last.close()
}

// lastResponse sets the header late. HTTP/2 has no such header: net/http turns it into a GOAWAY, but sends it with an
// informational response (103 Early Hints), which clients must then treat as malformed.
type lastResponse struct {
	http.ResponseWriter
	closed bool
}

func (l *lastResponse) close() {
	if !l.closed {
		l.closed = true
		l.Header().Set("Connection", "close")
	}
}

func (l *lastResponse) WriteHeader(status int) {
	if status >= http.StatusOK {
		l.close()
	}
	l.ResponseWriter.WriteHeader(status)
}

func (l *lastResponse) Write(p []byte) (int, error) {
	l.close()
	return l.ResponseWriter.Write(p)
}

// Unwrap is what [http.ResponseController] looks for.
func (l *lastResponse) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// lastFlusher is a lastResponse that can be flushed.
type lastFlusher struct {
	*lastResponse
	flusher http.Flusher
}

func (l *lastFlusher) Flush() {
	l.close()
	l.flusher.Flush()
}
