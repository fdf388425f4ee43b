// inplace.go has the rotators that write into the files that are there: same inode, torn while it lasts.

package reloadtest

import (
	"bytes"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Copy is cp over the old files, or cat >, tee, dd, os.WriteFile: by name, so the certificate before its key. Steps:
// truncate, write.
func Copy() Rotator { return fileByFile(Rotator{Name: "cp"}, nil, inPlace) }

// Lego is lego renew: in place, the certificate, then its issuer's, then the key. Steps: truncate, write.
func Lego() Rotator {
	r := Rotator{Name: "lego", Cert: "certificates/localhost.crt", Key: "certificates/localhost.key"}
	return fileByFile(r, certFirst, func(path string, data []byte) []step {
		steps := inPlace(path, data)
		if filepath.Ext(path) == ".crt" {
			_, above := splitLeaf(data)
			steps = append(steps, inPlace(path[:len(path)-len("crt")]+"issuer.crt", above)...)
		}
		return steps
	})
}

// AcmeSh is acme.sh --install-cert with one path for certificate and CA: the leaf alone, then the intermediates appended
// by another process, then the key. The leaf alone is a valid file. Steps: truncate, write, append.
func AcmeSh() Rotator {
	r := Rotator{Name: "acme.sh", Cert: "fullchain.pem", Key: "key.pem"}
	return fileByFile(r, certFirst, func(path string, data []byte) []step {
		leaf, above := splitLeaf(data)
		steps := inPlace(path, leaf)
		if len(above) > 0 {
			steps = append(steps, step{"append", func() error { return put(path, os.O_WRONLY|os.O_APPEND, above) }})
		}
		return steps
	})
}

// StepCA is step ca renew and rekey: the certificate in place, and then the key, but only if it is another one. Steps:
// truncate, write.
func StepCA() Rotator {
	r := Rotator{Name: "step ca renew", Cert: "svc.crt", Key: "svc.key"}
	return fileByFile(r, certFirst, func(path string, data []byte) []step {
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
			return nil
		}
		return inPlace(path, data)
	})
}

// SpiffeHelper is spiffe-helper: certificate, key and trust roots in place. Steps: truncate, write.
func SpiffeHelper() Rotator {
	r := Rotator{Name: "spiffe-helper", Cert: "svid.pem", Key: "svid_key.pem", CA: "svid_bundle.pem"}
	return fileByFile(r, certFirst, inPlace)
}

// Pieces is a program that writes as it produces, or a file system that is full or slow: each file, key first, in pieces
// of half a PEM block. After a step named half the file is cut inside a block; after one named block it is not, which
// makes it valid and too short. Steps: truncate, half, block.
func Pieces() Rotator {
	return fileByFile(Rotator{Name: "in pieces"}, keyFirst, func(path string, data []byte) []step {
		var pieces []piece
		for len(data) > 0 {
			block, rest := splitLeaf(data)
			half := len(block) / 2
			pieces = append(pieces, piece{"half", block[:half]}, piece{"block", block[half:]})
			data = rest
		}
		return overwrite(path, pieces...)
	})
}

// RsyncInPlace is rsync --inplace -t: the new content over the old without truncating first, so that for a moment a
// shorter file ends in the old one's tail, and a modification time in the past. By name. Steps: write, cut, time, chmod.
func RsyncInPlace() Rotator {
	return fileByFile(Rotator{Name: "rsync --inplace"}, nil, func(path string, data []byte) []step {
		return []step{
			{"write", func() error { return put(path, os.O_WRONLY|os.O_CREATE, data) }},
			{"cut", func() error { return os.Truncate(path, int64(len(data))) }},
			setTime(path, time.Now(), earlier(path)),
			chmod(path),
		}
	})
}

// VimInPlace is vim where it makes no backup, as in a temporary directory: the certificate, then its key. Steps:
// truncate, write, chmod.
func VimInPlace() Rotator {
	return fileByFile(Rotator{Name: "vim without backup"}, certFirst, func(path string, data []byte) []step {
		return append(inPlace(path, data), chmod(path))
	})
}

// VimCopy is vim with backupcopy=yes: in place, with a copy of the old content in NAME~ until that is done. Steps:
// backup, truncate, write, chmod, cleanup.
func VimCopy() Rotator {
	return fileByFile(Rotator{Name: "vim backupcopy=yes"}, certFirst, func(path string, data []byte) []step {
		backup := step{"backup", func() error {
			info, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			old, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := put(path+"~", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, old); err != nil {
				return err
			}
			return setTime(path+"~", info.ModTime(), info.ModTime()).do()
		}}
		steps := append([]step{backup}, inPlace(path, data)...)
		return append(steps, chmod(path), step{"cleanup", unlink(path + "~").do})
	})
}

// splitLeaf cuts PEM after its first block; without one, all of it is the first.
func splitLeaf(data []byte) (first, rest []byte) {
	block, rest := pem.Decode(data)
	if block == nil {
		return data, nil
	}
	return data[:len(data)-len(rest)], rest
}
