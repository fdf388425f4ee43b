// Package chaos has nothing but a test: servers and clients of every hook of package reload handshake without a pause while
// their files are rotated, spoiled, cut and hung underneath them, and every handshake is judged. See docs/reliability.md of
// the repository.
package chaos
