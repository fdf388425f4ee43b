package reload

// errors.go holds the sentinels, and the one shape of an error about a file: role, path, cause.

import (
	"errors"
	"fmt"
	"io/fs"
)

// Errors that callers decide by; test for them with [errors.Is].
var (
	// ErrNoCertificate says that nothing has been loaded: what every hook answers before the first bundle.
	ErrNoCertificate = errors.New("reload: no certificate has been loaded")
	// ErrMalformedPEM says that a file is empty, cut short, damaged, or not what it should hold.
	ErrMalformedPEM = errors.New("malformed PEM")
	// ErrKeyMismatch says that the private key is not that of the leaf.
	ErrKeyMismatch = errors.New("private key does not match the leaf")
	// ErrEncryptedKey says that the private key is encrypted with a passphrase, which nobody is there to type.
	ErrEncryptedKey = errors.New("private key is encrypted")
	// ErrExpired says that the leaf's NotAfter has passed.
	ErrExpired = errors.New("leaf has expired")
	// ErrNotYetValid says that the leaf's NotBefore lies ahead.
	ErrNotYetValid = errors.New("leaf is not yet valid")
	// ErrNoClientCAs says that a server must verify its clients but the live bundle has no CA to verify them against.
	ErrNoClientCAs = errors.New("reload: no CA file to verify clients with")
)

// The roles of files in errors.
const (
	roleCert    = "certificate"
	roleKey     = "key"
	roleKeypair = "keypair"
	roleCA      = "trust roots"
)

// fileError is a fault of one file, or of two that do not fit.
type fileError struct {
	role string
	path string // empty where the bytes came from no file, or where the cause names it
	err  error
}

func (e *fileError) Error() string {
	var named *fs.PathError
	if e.path == "" || errors.As(e.err, &named) {
		return e.role + ": " + e.err.Error()
	}
	return e.role + " " + e.path + ": " + e.err.Error()
}

func (e *fileError) Unwrap() error { return e.err }

// prefixed puts the package's name before an error, once, at the exported function it leaves through.
func prefixed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reload: %w", err)
}
