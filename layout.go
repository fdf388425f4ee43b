package reload

// layout.go judges how a set of files came to be: whether it was published as a whole.

import (
	"os"
	"path/filepath"
	"time"
)

// layout notes how the set came to be. It is atomic if it was published by moving one link: every file is reached through
// the same link to a directory, lies in that directory, and the link is not older than anything in it. If link
// and newest file have the same change time, it is not known which came first: that clock ticks every few milliseconds, and
// a whole rotation fits between two ticks. Systems other than Linux show no change times here, so nothing of this is known
// there.
func (s *fileSet) layout() {
	var link *linkSeen
	var dir string
	var last, linked int64
	oneLink := true
	for _, f := range s.files {
		if f.missing() {
			continue
		}
		via, in := f.walk.dirLink, filepath.Dir(f.walk.file)
		if in != dir { // most have one directory
			info, err := os.Lstat(in)
			if err != nil || f.stamp.ctime == 0 {
				return
			}
			last = max(last, stampOf(info).ctime)
		}
		last = max(last, f.stamp.ctime)
		linked = max(linked, f.walk.linked)
		if via == nil || link != nil && (*link != *via || dir != in) {
			oneLink = false
		}
		link, dir = via, in
	}
	s.newest = time.Unix(0, max(last, linked))
	if oneLink && link != nil {
		s.lacking = s.comesWith(dir)
		s.atomic = last <= link.ctime && !s.lacking
		s.tied = last == link.ctime
	}
}

// comesWith reports whether an optional file that its path does not show yet is in the new directory already: kubelet
// links a new key only after the switch.
func (s *fileSet) comesWith(dir string) bool {
	for _, f := range s.files {
		if f.missing() {
			if _, err := os.Lstat(filepath.Join(dir, filepath.Base(f.path))); err == nil {
				return true
			}
		}
	}
	return false
}
