package main

// peer_hashicorp.go is github.com/hashicorp/go-secure-stdlib/reloadutil, which Vault reloads with when it gets a signal. It
// watches nothing and reads no CA file.

import (
	"github.com/hashicorp/go-secure-stdlib/reloadutil"

	"github.com/seed45259946/reload"
)

var hashicorp = peer{
	name: "reloadutil",
	deaf: true,
	start: func(files reload.Paths, mutual bool) (*server, error) {
		getter := reloadutil.NewCertificateGetter(files.Cert, files.Key, "")
		if err := getter.Reload(); err != nil {
			return nil, err
		}
		s, err := hooked(getter.GetCertificate, files, mutual)
		if err != nil {
			return nil, err
		}
		s.resync = getter.Reload
		return s, nil
	},
}
