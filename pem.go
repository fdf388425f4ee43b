package reload

// pem.go is the strict PEM reader. It is tolerant outside blocks and strict inside: every BEGIN line yields a parsed
// block, or reading fails and names the line. The standard decoder looks for the next block that decodes and skips what
// does not, so that a file cut in the middle of a write loads as a shorter chain; that must never go live.

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
)

// pemBlock is one block of a file.
type pemBlock struct {
	*pem.Block
	line int // of its BEGIN line, from 1
}

// Types that may stand in a file beside what is looked for. A block of any other type is an error: what it was meant to
// be cannot be known, so it cannot be dropped.
var bystanders = map[string]bool{
	"PRIVATE KEY":             true,
	"RSA PRIVATE KEY":         true,
	"EC PRIVATE KEY":          true,
	"DSA PRIVATE KEY":         true,
	"ENCRYPTED PRIVATE KEY":   true,
	"OPENSSH PRIVATE KEY":     true,
	"EC PARAMETERS":           true,
	"DH PARAMETERS":           true,
	"X9.42 DH PARAMETERS":     true,
	"PUBLIC KEY":              true,
	"X509 CRL":                true,
	"CERTIFICATE REQUEST":     true,
	"NEW CERTIFICATE REQUEST": true,
}

var (
	beginMark = []byte("-----BEGIN ")
	endMark   = []byte("-----END ")
	dashes    = []byte("-----")
)

// malformed makes the error for damage at a line.
func malformed(line int, cause string, args ...any) error {
	return fmt.Errorf("%w: line %d: %s", ErrMalformedPEM, line, fmt.Sprintf(cause, args...))
}

// scanPEM splits data into its blocks. Text between blocks is skipped; anything that could be a damaged block is an
// error. Errors never quote the data: a mangled file can hold a key anywhere.
func scanPEM(data []byte) ([]pemBlock, error) {
	data, err := plainText(data)
	if err != nil {
		return nil, err
	}
	var blocks []pemBlock
	var open []byte // type of the block being read; nil outside blocks
	start, startLine := 0, 0
	for at, line := 0, 1; at < len(data); line++ {
		text, end, terminated := nextLine(data, at)
		switch {
		case marker(text, beginMark) != nil:
			if open != nil {
				return nil, malformed(line, "BEGIN inside the block that starts at line %d", startLine)
			}
			open, start, startLine = marker(text, beginMark), at, line
		case marker(text, endMark) != nil:
			if open == nil {
				return nil, malformed(line, "END without BEGIN")
			}
			if !bytes.Equal(marker(text, endMark), open) {
				return nil, malformed(line, "END does not match the BEGIN at line %d", startLine)
			}
			block, rest := pem.Decode(data[start:end])
			if block == nil || len(bytes.TrimSpace(rest)) > 0 {
				return nil, malformed(startLine, "damaged block")
			}
			blocks = append(blocks, pemBlock{block, startLine})
			open = nil
		case bytes.HasPrefix(text, dashes) || bytes.Contains(text, beginMark[:len(beginMark)-1]) || bytes.Contains(text, endMark[:len(endMark)-1]):
			return nil, malformed(line, "damaged BEGIN or END line")
		case !terminated && len(text) > 0 && bytes.HasPrefix(beginMark, text):
			return nil, malformed(line, "file ends inside a BEGIN line")
		}
		at = end
	}
	if open != nil {
		return nil, malformed(startLine, "file ends inside the block that starts here")
	}
	return blocks, nil
}

// plainText strips a UTF-8 byte order mark and refuses data that is not text at all.
func plainText(data []byte) ([]byte, error) {
	switch data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")); {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, fmt.Errorf("%w: empty", ErrMalformedPEM)
	case bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		return nil, malformed(1, "byte order mark of UTF-16 text, want ASCII")
	case bytes.HasPrefix(data, []byte{0x30, 0x82}):
		return nil, malformed(1, "DER, not PEM")
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return nil, malformed(1+bytes.Count(data[:i], []byte{'\n'}), "NUL byte")
	}
	return data, nil
}

// nextLine returns the line at offset at without trailing white space, the offset of the one after it, and whether it
// ended in a newline.
func nextLine(data []byte, at int) (text []byte, next int, terminated bool) {
	next = len(data)
	if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
		next, terminated = at+i+1, true
	}
	return bytes.TrimRight(data[at:next], " \t\r\n"), next, terminated
}

// marker returns the type in a BEGIN or END line, nil if text is no such line.
func marker(text, mark []byte) []byte {
	kind, begins := bytes.CutPrefix(text, mark)
	kind, ends := bytes.CutSuffix(kind, dashes)
	if !begins || !ends || len(kind) == 0 || bytes.Contains(kind, dashes) {
		return nil
	}
	return kind
}

// located is a certificate and the line it starts at.
type located struct {
	*x509.Certificate
	line int
}

// certificatesOf forgets the lines.
func certificatesOf(located []located) []*x509.Certificate {
	certs := make([]*x509.Certificate, len(located))
	for i, c := range located {
		certs[i] = c.Certificate
	}
	return certs
}

// readCertificates parses every certificate of a file that must hold at least one.
func readCertificates(data []byte) ([]located, error) {
	blocks, err := scanPEM(data)
	if err != nil {
		return nil, err
	}
	var certs []located
	keys := 0
	for _, b := range blocks {
		switch {
		case b.Type == "CERTIFICATE" && len(b.Headers) == 0:
			c, err := x509.ParseCertificate(b.Bytes)
			if err != nil {
				return nil, malformed(b.line, "certificate %d does not parse%s", len(certs)+1, knownCause(err))
			}
			certs = append(certs, located{c, b.line})
		case b.Type == "CERTIFICATE":
			return nil, malformed(b.line, "CERTIFICATE block with headers")
		case b.Type == "X509 CERTIFICATE" || b.Type == "TRUSTED CERTIFICATE":
			return nil, malformed(b.line, "%s block, want CERTIFICATE", b.Type)
		case !bystanders[b.Type]:
			return nil, malformed(b.line, "block of an unknown type")
		case strings.HasSuffix(b.Type, "PRIVATE KEY"):
			keys++
		}
	}
	switch {
	case len(certs) > 0:
		return certs, nil
	case keys > 0:
		return nil, fmt.Errorf("%w: a private key but no certificate: are the files swapped?", ErrMalformedPEM)
	default:
		return nil, fmt.Errorf("%w: no certificate", ErrMalformedPEM)
	}
}

// readKey returns the one private key block of a file.
func readKey(data []byte) (pemBlock, error) {
	blocks, err := scanPEM(data)
	if err != nil {
		return pemBlock{}, err
	}
	var key pemBlock
	certs := 0
	for _, b := range blocks {
		switch {
		case strings.HasSuffix(b.Type, "PRIVATE KEY") && bystanders[b.Type]:
			if key.Block != nil {
				return pemBlock{}, malformed(b.line, "second private key, the first is at line %d", key.line)
			}
			key = b
		case b.Type == "CERTIFICATE" || b.Type == "X509 CERTIFICATE" || b.Type == "TRUSTED CERTIFICATE":
			certs++
		case !bystanders[b.Type]:
			return pemBlock{}, malformed(b.line, "block of an unknown type")
		}
	}
	switch {
	case key.Block != nil:
		return key, nil
	case certs > 0:
		return pemBlock{}, fmt.Errorf("%w: a certificate but no private key: are the files swapped?", ErrMalformedPEM)
	default:
		return pemBlock{}, fmt.Errorf("%w: no private key", ErrMalformedPEM)
	}
}

// knownCause returns what crypto/x509 says of a certificate, as a suffix, where that is a constant text: some of its
// errors quote the certificate.
func knownCause(err error) string {
	text := err.Error()
	for _, constant := range []string{"x509: malformed ", "x509: negative serial number", "x509: trailing data", "x509: invalid version", "x509: unsupported elliptic curve", "x509: invalid ECDSA parameters"} {
		if strings.HasPrefix(text, constant) {
			return " (" + text + ")"
		}
	}
	return ""
}
