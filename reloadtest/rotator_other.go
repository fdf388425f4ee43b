// rotator_other.go stands in for rotator_linux.go elsewhere.

//go:build !linux

package reloadtest

func platformRotators() []Rotator { return nil }
