// certbot.go renews a certbot lineage: file links in live/, numbered files in archive/.

package reloadtest

import (
	"fmt"
	"os"
	"path/filepath"
)

// Certbot is certbot renew, with or without --reuse-key: that is for f to say. The lineage is localhost. Four new
// numbered files go into archive/localhost; then each name in live/localhost, a link to its file there, is unlinked and
// made anew, in the order cert, privkey, chain, fullchain, while previous_ links keep the old targets. Certbot writes no
// CA file; a server that is configured with cert.pem and chain.pem instead finds those of one generation only if it
// waits. Steps: write, chown and chmod in the archive; link, unlink in live.
func Certbot() Rotator {
	return Rotator{
		Name: "certbot", Cert: "live/localhost/fullchain.pem", Key: "live/localhost/privkey.pem",
		steps: renewLineage,
	}
}

func renewLineage(dir string, f Files) ([]step, error) {
	archive, live := filepath.Join(dir, "archive", "localhost"), filepath.Join(dir, "live", "localhost")
	for _, lineage := range []string{archive, live} {
		if err := os.MkdirAll(lineage, 0o755); err != nil {
			return nil, err
		}
		if err := os.Chmod(filepath.Dir(lineage), 0o700); err != nil {
			return nil, err
		}
	}
	number := 1
	for exists(filepath.Join(archive, fmt.Sprintf("privkey%d.pem", number))) {
		number++
	}
	archived := func(name string) string { return filepath.Join(archive, fmt.Sprintf("%s%d.pem", name, number)) }
	leaf, above := splitLeaf(f[certFile])

	var steps []step
	add := func(path string, s step) { steps = append(steps, on(path, s)...) }
	for _, file := range []struct {
		name string
		data []byte
	}{{"privkey", f[keyFile]}, {"cert", leaf}, {"chain", above}, {"fullchain", f[certFile]}} {
		path := archived(file.name)
		add(path, step{"write", func() error { return put(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, file.data) }})
		if file.name == "privkey" {
			// Owner and mode of the key before are carried over.
			add(path, step{"chown", func() error { return chown(path) }})
			add(path, chmod(path))
		}
	}

	relinked, err := relink(live, archived)
	if err != nil {
		return nil, err
	}
	return append(steps, relinked...), nil
}

// relink makes the steps that make the links in live anew, one by one; links named previous_ keep the old targets meanwhile.
func relink(live string, archived func(name string) string) (steps []step, err error) {
	add := func(path string, s step) { steps = append(steps, on(path, s)...) }
	names := []string{"cert", "privkey", "chain", "fullchain"}
	previous := func(name string) string { return filepath.Join(live, "previous_"+name+".pem") }
	current := func(name string) string { return filepath.Join(live, name+".pem") }
	for _, name := range names {
		if target, err := os.Readlink(current(name)); err == nil {
			add(previous(name), symlink(target, previous(name)))
		}
	}
	for _, name := range names {
		add(current(name), unlink(current(name)))
		target, err := filepath.Rel(live, archived(name))
		if err != nil {
			return nil, err
		}
		add(current(name), symlink(target, current(name)))
	}
	for _, name := range names {
		add(previous(name), unlink(previous(name)))
	}
	return steps, nil
}
