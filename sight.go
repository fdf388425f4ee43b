package reload

// sight.go is the short way to find that nothing has changed, which is what nearly every resync finds. It still opens
// and reads every file: times and sizes alone say nothing on a network mount.

import (
	"crypto/sha256"
	"os"
)

// sighting is a file that was live when it was last read.
type sighting struct {
	path  string
	slot  int
	stamp stamp
	gone  bool // it was missing, as an optional file may be
}

type sightings []sighting

// sightings notes what the set consists of.
func (s *fileSet) sightings() sightings {
	noted := make(sightings, len(s.files))
	for i, f := range s.files {
		noted[i] = sighting{f.path, f.slot, f.stamp, f.missing()}
	}
	return noted
}

// unchanged reports whether every path leads to the very file it led to, with the content it had. Anything else is for a
// full look to judge.
func (s sightings) unchanged(was *content) bool {
	for i := range s {
		if !s[i].unchanged(was) {
			return false
		}
	}
	return len(s) > 0
}

func (s *sighting) unchanged(was *content) bool {
	if s.gone {
		_, err := os.Lstat(s.path)
		return isNotExist(err)
	}
	data, ok := peek(s.path, s.stamp)
	return ok && sha256.Sum256(data) == was[s.slot]
}
