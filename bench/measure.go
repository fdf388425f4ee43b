package main

// measure.go has what measuring on a machine with other work to do takes: both sides in turn, and the middle of many.

import (
	"cmp"
	"slices"
	"time"
)

// inTurns calls each function n times, one after the other and then again, and returns the median duration of each. What
// else the machine does meanwhile meets all of them.
func inTurns(n int, fs ...func() error) ([]time.Duration, error) {
	took := make([][]time.Duration, len(fs))
	for round := range n {
		for i := range fs {
			i = (i + round) % len(fs) // nobody is always the first
			began := time.Now()
			if err := fs[i](); err != nil {
				return nil, err
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	medians := make([]time.Duration, len(fs))
	for i := range fs {
		medians[i] = quantile(took[i], 0.5)
	}
	return medians, nil
}

// times returns a function that calls f n times.
func times(n int, f func() error) func() error {
	return func() error {
		for range n {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
}

// quantile sorts what it is given.
func quantile[T cmp.Ordered](all []T, q float64) (value T) {
	if len(all) == 0 {
		return value
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1)+0.5)]
}
