//go:build race

package program

func init() { flags = append(flags, "-race") }
