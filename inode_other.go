//go:build !unix

package reload

// inode_other.go stands in where files have no inode numbers to read.

import "io/fs"

// nonblock has no meaning here: there are no FIFOs in directories.
const nonblock = 0

func inode(fs.FileInfo) (dev, ino, nlink uint64) { return 0, 0, 0 }
