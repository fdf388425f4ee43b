// replace.go has the rotators that put a new file in the old one's place, each file on its own.

package reloadtest

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Move is mv within a file system, os.replace, or any program that writes a temporary file beside the old one and
// renames it: key, certificate, CA. Steps: temp, rename.
func Move() Rotator { return fileByFile(Rotator{Name: "mv"}, keyFirst, renamed) }

// SedInPlace is sed -i: as [Move], in the order of the names, with sed's name for the temporary file and its mode set
// before it is written. Steps: temp, write, rename.
func SedInPlace() Rotator {
	return fileByFile(Rotator{Name: "sed -i"}, nil, func(path string, data []byte) []step {
		temp := filepath.Join(filepath.Dir(path), "sed"+random())
		return []step{
			{"temp", func() error { return putAs(path, temp, nil) }},
			write(temp, data),
			rename(temp, path),
		}
	})
}

// VaultAgent is Vault Agent or consul-template, which render each template on its own: certificate, key, CA, each into
// a temporary file that is synced, given its mode and renamed, and whose owner is set after that. Steps: temp, chmod,
// rename, chown.
func VaultAgent() Rotator {
	return fileByFile(Rotator{Name: "vault agent"}, certFirst, func(path string, data []byte) []step {
		temp := filepath.Join(filepath.Dir(path), random())
		return []step{
			{"temp", func() error { return putSynced(temp, data) }},
			{"chmod", func() error { return os.Chmod(temp, modeOf(path)) }},
			rename(temp, path),
			{"chown", func() error { return chown(path) }},
		}
	})
}

// Ansible is two or three tasks with ansible's copy module, key first: each file is staged outside the directory, moved
// in and given its mode there. Between the rename of one task and the next, seconds pass. Steps: stage, rename, chmod.
func Ansible() Rotator {
	r := Rotator{Name: "ansible copy", Cert: "tls/server.pem", Key: "tls/server-key.pem", CA: "tls/ca.pem"}
	return fileByFile(r, keyFirst, func(path string, data []byte) []step {
		staged := filepath.Join(filepath.Dir(path), "..", ".ansible", random())
		return []step{
			{"stage", func() error {
				if err := os.MkdirAll(filepath.Dir(staged), 0o700); err != nil {
					return err
				}
				return os.WriteFile(staged, data, 0o600)
			}},
			rename(staged, path),
			chmod(path),
		}
	})
}

// Rsync is rsync -t of a directory: by name, each file through .NAME.RANDOM with its modification time set to the
// source's, which may lie before that of the file it replaces. Steps: temp, write, time, rename.
func Rsync() Rotator {
	return fileByFile(Rotator{Name: "rsync"}, nil, func(path string, data []byte) []step {
		temp := tempBeside(path)
		return []step{
			{"temp", func() error { return putAs(path, temp, nil) }},
			write(temp, data),
			{"time", func() error {
				if err := setTime(temp, time.Now(), earlier(path)).do(); err != nil {
					return err
				}
				return os.Chmod(temp, modeOf(path))
			}},
			rename(temp, path),
		}
	})
}

// VimRename is vim with backupcopy=auto or no: after a try whether it may make files here, it renames the old file to
// NAME~ and makes a new one, so for a moment there is none: the certificate, then its key. Steps: probe, backup, create,
// write, chmod, cleanup.
func VimRename() Rotator {
	return fileByFile(Rotator{Name: "vim backupcopy=auto"}, certFirst, func(path string, data []byte) []step {
		probe := filepath.Join(filepath.Dir(path), "4913")
		steps := []step{
			{"probe", func() error {
				if err := putAs(path, probe, nil); err != nil {
					return err
				}
				return os.Remove(probe)
			}},
			{"backup", func() error {
				if !exists(path) {
					return nil
				}
				return os.Rename(path, path+"~")
			}},
		}
		steps = append(steps, create(path, data)...)
		return append(steps, chmod(path), step{"cleanup", unlink(path + "~").do})
	})
}

// MoveAcross is mv from another file system, which is no rename: the old file is unlinked and a new one made, key first.
// Steps: unlink, create, write, time, chmod.
func MoveAcross() Rotator {
	return fileByFile(Rotator{Name: "mv from another file system"}, keyFirst, func(path string, data []byte) []step {
		return anew(path, data, setTime(path, time.Now(), earlier(path)))
	})
}

// Install is install -m: by name, each file unlinked and made anew, for its owner alone until it is complete. A server
// that runs as someone else cannot read it before. Steps: unlink, create, write, chmod.
func Install() Rotator {
	return fileByFile(Rotator{Name: "install -m"}, nil, func(path string, data []byte) []step {
		return anew(path, data)
	})
}

// Untar is tar x as root: by name, each file unlinked and made anew, with the modification time it has in the archive.
// Kubectl cp is the same, mostly without that time. Steps: unlink, create, write, time, chmod.
func Untar() Rotator {
	return fileByFile(Rotator{Name: "tar x"}, nil, func(path string, data []byte) []step {
		return anew(path, data, setTime(path, time.Time{}, earlier(path)))
	})
}

// anew unlinks a file and makes another, which then gets its source's attributes.
func anew(path string, data []byte, attributes ...step) []step {
	steps := append([]step{unlink(path)}, create(path, data)...)
	return append(append(steps, attributes...), chmod(path))
}

// putAs makes the file temp, which must not exist, of data and with the mode that path will have.
func putAs(path, temp string, data []byte) error {
	if err := put(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, data); err != nil {
		return err
	}
	return os.Chmod(temp, modeOf(path))
}

// putSynced makes the file path, which must not exist, and writes data through to the disk.
func putSynced(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(data); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}
