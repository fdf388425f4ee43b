// Package reload keeps a TLS keypair fresh in a process that runs for a long time.
//
// A [Reloader] reads a keypair once, serves it without locks, re-reads it when the files change, and never swaps in
// anything it has not fully validated.
//
// # Use
//
// There are three rungs. Most programs need the first:
//
//	r, err := reload.NewReloader(reload.FromDir("/etc/tls"), "https")
//	…
//	go r.Start(ctx)
//	srv := &http.Server{TLSConfig: r.ServerConfig(nil)}
//
// [Watch] with a [Store] is for a program that has its first bundle from elsewhere, or feeds several hooks from one
// place. A [Store] alone, filled from [BundleFromPEM], is for keypairs that are in no file: an informer, Vault, a SPIFFE
// workload API.
//
// The hooks are the same on a Reloader and on a Store: GetCertificate and ServerConfig for servers, ClientConfig and
// Transport for clients, and the rest for special cases.
//
// # Rotation
//
// Any change of what a path resolves to is noticed, whatever made it: a rename, a write in place, a link swapped
// anywhere on the way, a directory replaced, a mount. Notifications make it fast; a resync once a minute makes it certain,
// and is all that remains where notifications do not work. What is compared is the content of all files, so a new
// intermediate or a new CA under the same leaf is a new generation, and a rewrite of the same content is no event.
//
// A set of files goes live at once where it is known to be complete: it was published by moving one link to a directory,
// as Kubernetes does, or it is a keypair without a CA file whose files are both new, belong together, and are open for
// writing nowhere. Otherwise it must stay the same for a while, longer where there is more doubt. See
// [WatchOptions].Settle; docs/rotation.md of the repository has every case.
//
// # Failure
//
// A failed reload changes nothing that is served. The fault is in [Status] at once, names the file, is retried without
// any event, and is logged and counted once if it lasts. A certificate that has expired or is not yet valid does not
// replace one that is valid now; one that is not yet valid goes live at its NotBefore. Only files that are missing or
// refused at the start are an error, of [NewReloader].
//
// # Trust
//
// A CA file makes two pools. [Bundle].RootCAs, with the system roots, verifies servers. [Bundle].ClientCAs, without them,
// verifies clients: a publicly trusted CA never admits a client. A CA that left the file loses trust with the swap, also
// for resumed sessions, unless [WatchOptions].CAOverlap says otherwise. Trust never changes because a file is missing,
// empty or damaged.
//
// # Operation
//
// [Status] has the state of a bundle, also as JSON; [Reloader.Check] is a health check; [AllSeries] has what exporters
// need. Each event is one line in the log. A leaf that nobody renews is told of before it expires. What each line and each
// series means, and what to do about it, is in docs/operations.md of the repository.
//
// # Concurrency
//
//   - Readers do one atomic load: no lock, no allocation, no system call.
//   - A published [Bundle] is never changed, and must not be.
//   - Looks at the files take turns: an older read never overwrites a newer one.
//   - OnSwap and subscribers are called in order, one call at a time, on a goroutine of their own, holding nothing.
//     Validate and Metrics are called by a look.
//   - Nothing runs before Start. When Start or Watch returns, what they started has ended.
//
// Not to be assumed: that a callback has run when a handshake shows the new leaf; that every state of the files is seen;
// that a connection which is open notices a swap.
//
// # Compatibility
//
// Go 1.26 or later: earlier versions of crypto/tls resume sessions of clients whose CA was withdrawn (CVE-2025-68121).
// Linux is where notifications are complete; macOS, the BSDs and Windows poll every ten seconds beside them, and every
// other system polls. Works under GODEBUG=fips140=only.
package reload
