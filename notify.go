package reload

// notify.go is the hub: one fsnotify watcher per process, shared by every bundle, since inotify instances are scarce
// (128 per user by default, counted across all containers of a host; inotify(7)). It tells a bundle only that something near one of its paths
// happened; what it was is for a look at the disk to find out.

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// notifications is the process's hub. It has no watcher while nobody listens.
var notifications hub

// hub shares one watcher. Its two locks are never taken in the order mu, arm; and mu is never held across a call into
// fsnotify, which sends errors while it holds its own lock: a reader of its channels that waited for a caller of Add would
// stop everything for ever.
type hub struct {
	arm     sync.Mutex // one caller of fsnotify at a time; guards the next two; run never takes it
	watcher *fsnotify.Watcher
	ended   chan struct{} // closed when run ends

	mu    sync.Mutex // guards the maps and everything in them; held for look-ups and non-blocking sends only
	nodes map[nodeID]*node
	paths map[string]*node
	all   map[*listener]struct{}
}

// nodeID is what a directory or file is, whatever path leads to it: fsnotify records one inode once, under the path it
// was first added by.
type nodeID struct {
	dev, ino uint64
	path     string // where there are no inode numbers
}

// node is one watched directory, or one watched file.
type node struct {
	id    nodeID
	path  string                 // the path it was added by, and so the one in its events
	wants map[string][]*listener // who looks up a name in the directory; who watches the file, where it is one, under ""
}

// target is what a listener wants watched: names in a directory, or one file, whose name is "".
type target struct {
	path  string
	id    nodeID // as the walk saw it
	names []string
}

// listener is one bundle's ear.
type listener struct {
	hub   *hub
	wake  chan struct{}      // capacity 1: something happened
	nodes map[*node][]string // what it watches, and for which names; guarded by hub.arm
	left  bool               // guarded by hub.arm
	arms  solo[string]       // used by one look at a time
}

// join adds a listener. It hears nothing before its first watch, and must leave. It waits for nobody who is adding a
// watch, which can hang.
func (h *hub) join() *listener {
	l := &listener{hub: h, wake: make(chan struct{}, 1), nodes: map[*node][]string{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.nodes, h.paths, h.all = map[nodeID]*node{}, map[string]*node{}, map[*listener]struct{}{}
	}
	h.all[l] = struct{}{}
	return l
}

// leave ends the listener; the last one closes the watcher.
func (l *listener) leave() {
	h := l.hub
	h.arm.Lock()
	defer h.arm.Unlock()
	l.left = true
	h.drop(l, l.nodes)
	h.mu.Lock()
	delete(h.all, l)
	last := len(h.all) == 0
	h.mu.Unlock()
	if last && h.watcher != nil { // who joins now opens another with its first watch
		h.watcher.Close()
		<-h.ended // run waits for nothing that is held here
		h.watcher = nil
	}
}

// watch makes targets all that l listens to. Every one is added again, which for a live watch is one system call and
// otherwise heals what was lost. What cannot be watched is returned with the reason.
func (l *listener) watch(targets []target) (failed map[string]error) {
	h := l.hub
	h.arm.Lock()
	defer h.arm.Unlock()
	if l.left { // a look that the system let go of too late
		return nil
	}
	failed = map[string]error{}
	err := h.open()
	old := l.nodes
	l.nodes = make(map[*node][]string, len(targets))
	for _, t := range targets {
		if err != nil {
			failed[t.path] = err
			continue
		}
		if err := h.add(l, t, old); err != nil {
			failed[t.path] = err
		}
	}
	h.drop(l, old)
	return failed
}

// open makes the watcher where there is none, or where its goroutine has ended.
func (h *hub) open() error {
	if h.watcher != nil {
		select {
		case <-h.ended:
			h.watcher.Close()
			h.watcher = nil
		default:
			return nil
		}
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	h.watcher, h.ended = w, make(chan struct{})
	go h.run(w, h.ended) // ends when leave closes w
	return nil
}

// add registers the interest of l and then adds the watch, in this order: an event right after Add finds its listener. What
// l wanted there before is taken out of old.
func (h *hub) add(l *listener, t target, old map[*node][]string) error {
	h.mu.Lock()
	stranger := h.paths[t.path]
	n := h.nodes[t.id]
	h.mu.Unlock()
	if stranger != nil && stranger.id != t.id { // the path leads to another inode now, fsnotify's watch does not
		h.remove(stranger)
	}
	if n != nil && n.path != t.path {
		if at, err := identify(n.path); err != nil || at != t.id { // moved: not a second way to the same place
			h.remove(n)
			n = nil
		}
	}
	h.mu.Lock()
	if n == nil || h.nodes[t.id] != n {
		n = &node{id: t.id, path: t.path, wants: map[string][]*listener{}}
		h.nodes[t.id], h.paths[t.path] = n, n
	}
	if was := old[n]; !slices.Equal(was, t.names) { // a thousand others may look up the same name
		n.forget(l, was)
		n.want(l, t.names)
	}
	h.mu.Unlock()
	delete(old, n)
	l.nodes[n] = slices.Concat(l.nodes[n], t.names) // two paths may lead to one directory
	return h.watcher.Add(n.path)
}

// want has n tell l of names. The caller holds mu.
func (n *node) want(l *listener, names []string) {
	for _, name := range names {
		n.wants[name] = append(n.wants[name], l)
	}
}

// forget undoes want. The caller holds mu.
func (n *node) forget(l *listener, names []string) {
	for _, name := range names {
		if others := slices.DeleteFunc(n.wants[name], func(o *listener) bool { return o == l }); len(others) > 0 {
			n.wants[name] = others
		} else {
			delete(n.wants, name)
		}
	}
}

// poke wakes all who want anything of n. The caller holds mu.
func (n *node) poke() {
	for _, all := range n.wants {
		for _, l := range all {
			l.poke()
		}
	}
}

// remove ends the watch of n. Its listeners are woken, to add what they still need.
func (h *hub) remove(n *node) {
	h.watcher.Remove(n.path) // the watch may be gone already, which is all that is wanted
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(n)
	n.poke()
}

// forget takes n out of the maps. The caller holds mu.
func (h *hub) forget(n *node) {
	if h.nodes[n.id] == n {
		delete(h.nodes, n.id)
	}
	if h.paths[n.path] == n {
		delete(h.paths, n.path)
	}
}

// drop ends the interest of l in nodes, and the watches that nobody else needs.
func (h *hub) drop(l *listener, nodes map[*node][]string) {
	for n, names := range nodes {
		h.mu.Lock()
		n.forget(l, names)
		last := len(n.wants) == 0 && h.paths[n.path] == n
		if last {
			h.forget(n)
		}
		h.mu.Unlock()
		if last && h.watcher != nil {
			h.watcher.Remove(n.path)
		}
	}
}

// run hands events to listeners until w is closed. It takes no lock that is held across a call into fsnotify.
func (h *hub) run(w *fsnotify.Watcher, ended chan struct{}) {
	defer close(ended)
	for events, errs := w.Events, w.Errors; events != nil || errs != nil; {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				break
			}
			h.dispatch(e.Name)
		case _, ok := <-errs:
			if !ok {
				errs = nil
			}
			// An overflow means that anything may have changed. Other errors are noise of watches that go away with their
			// directory. Either way the answer is to look.
			h.wakeAll()
		}
	}
	h.wakeAll()
}

// dispatch wakes whoever looks up the named file, or watches it. Where events are not complete any event in a directory
// wakes all that watch it.
func (h *hub) dispatch(name string) {
	if name == "" {
		h.wakeAll()
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.paths[filepath.Dir(name)]; n != nil {
		if runtime.GOOS != "linux" {
			n.poke()
		}
		for _, l := range n.wants[filepath.Base(name)] {
			l.poke()
		}
	}
	if n := h.paths[filepath.Clean(name)]; n != nil {
		n.poke()
	}
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.all {
		l.poke()
	}
}

// poke wakes l without ever waiting for it.
func (l *listener) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// identify says what is at a physical path.
func identify(path string) (nodeID, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nodeID{}, err
	}
	return identityOf(path, info), nil
}

func identityOf(path string, info fs.FileInfo) nodeID {
	if s := stampOf(info); s.ino != 0 {
		return nodeID{dev: s.dev, ino: s.ino}
	}
	return nodeID{path: path}
}

// identity says what a walk found at a physical path. A walk does not look at the root directory, which stays what it is.
func (seen pass) identity(physical string) nodeID {
	if e, known := seen[physical]; known && e.err == nil {
		return identityOf(physical, e.info)
	}
	return nodeID{path: physical}
}
