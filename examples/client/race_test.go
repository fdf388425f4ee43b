//go:build race

package main

// race_test.go builds the program like its test.

func init() { buildFlags = append(buildFlags, "-race") }
