//go:build !unix

package reload_test

// special_other_test.go stands in where there are no special files.

import . "github.com/onsi/ginkgo/v2"

func specialFiles() []TableEntry { return nil }
