// Package reloadtest is a throw-away certificate authority and the writers of real certificate rotators, for tests of
// programs that reload their TLS keypair while they run.
//
// A server that follows its certificate passes its tests when the test replaces two files with os.WriteFile, and fails
// in production because nothing there replaces files that way: a kubelet swaps a symlink to a directory, certbot unlinks
// four links one by one, Vault Agent renames each file on its own, an operator copies the key now and the certificate
// ten seconds later. This package does what they do, step by step as a reader can see it, with a hook between the steps,
// so that a test can look at its server in the middle of a rotation or leave the rotation unfinished.
//
//	ca := reloadtest.NewCA(reloadtest.Options{})
//	vol, err := reloadtest.NewKubelet(dir, ca.Issue(reloadtest.Options{}).Files(ca))
//	// … start the server on dir …
//	err = vol.Update(ca.Issue(reloadtest.Options{}).Files(ca)) // the Secret was renewed
//
// # Certificates
//
// [NewCA] makes a root, [CA.Intermediate] a chain below it, [CA.Issue] a leaf with its private key. The zero [Options]
// is a certificate for localhost that is valid now. These functions panic on options that make no certificate and on a
// broken random source, so each fits in one line of a test. Time is read with [time.Now]: inside a testing/synctest
// bubble certificates are minted on the bubble's clock. Nothing here uses SHA-1; all of it works under
// GODEBUG=fips140=only.
//
// # Writers
//
// [Plain] is two or three regular files in a directory, rewritten in place or renamed over. [Kubelet] is a Secret,
// ConfigMap, projected or CSI volume. Both take [Files], names with contents, as [Keypair.Files] makes them.
//
// [Rotator] gives these and the other programs that replace certificates one shape, and [Rotators] lists them, so that a
// test can loop over them all.
//
//	for _, rotator := range reloadtest.Rotators() {
//		err := rotator.Write(dir, ca.Issue(reloadtest.Options{}).Files(ca), nil) // lays out the first generation
//		// … start the server on rotator.Paths(dir) …
//		err = rotator.Write(dir, ca.Issue(reloadtest.Options{}).Files(ca), nil) // rotates
//	}
//
// What happens between the steps is up to a hook: it can pause, ask the server something, or end the rotation there.
//
// The package needs the standard library only, imports no testing package, and is not meant for anything but tests:
// private keys are written wherever they are asked for.
package reloadtest
