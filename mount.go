package reload

// mount.go finds the file that can change no more: one that is mounted by itself, as with subPath or docker run -v of a
// file, and was replaced at its source. The mount holds the old inode, which nobody writes to again.

import "fmt"

// frozen returns the path of the first such file, empty where there is none. Its last name is gone (st_nlink is 0) and yet
// a path leads to it, which only a mount makes possible.
func (s *fileSet) frozen() string {
	for _, f := range s.files {
		if f.walk.err == nil && stampOf(f.walk.info).nlink == 0 && f.mounted() {
			return f.path
		}
	}
	return ""
}

// freezes notes the outcome of frozen and warns once: the remedy is the same for every file of a bundle. It warns
// again only if no file was frozen in between.
func (f *follower) freezes(path string) {
	if path != "" && f.frozen == "" {
		f.log.Warn("mounted file was replaced at its source and will never change here: mount its directory", "file", path)
	}
	f.frozen = path
}

// degraded says why a change may be noticed late, or never; empty where neither is to be feared.
func (f *follower) degraded() string {
	if f.frozen != "" {
		return fmt.Sprintf("%s is a mount of its own and was replaced at its source: it will never change here, mount its directory", f.frozen)
	}
	return f.hearing.deaf
}
