package reloadtest_test

import (
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// eventsOf returns what a watch on dir tells of act, as "OP name", without repetitions (the kernel may merge them).
// The names go through rename first; one that it makes empty is left out.
func eventsOf(ctx SpecContext, dir string, rename func(name string) string, act func()) []string {
	GinkgoHelper()
	watcher, err := fsnotify.NewBufferedWatcher(1000)
	Expect(err).NotTo(HaveOccurred())
	defer watcher.Close()
	Expect(watcher.Add(dir)).To(Succeed())
	act()

	// Events keep their order, so the one for the end comes after all others.
	end := filepath.Join(dir, "the-end")
	writeFile(end, "")
	var events []string
	for {
		select {
		case event := <-watcher.Events:
			if event.Name == end {
				return events
			}
			name := "."
			if event.Name != dir {
				name = rename(filepath.Base(event.Name))
			}
			line := strings.ReplaceAll(event.Op.String(), "|", "+") + " " + name
			if name != "" && (len(events) == 0 || events[len(events)-1] != line) {
				events = append(events, line)
			}
		case err := <-watcher.Errors:
			Expect(err).NotTo(HaveOccurred())
		case <-ctx.Done():
			Fail("the last event did not come; before it: " + strings.Join(events, "; "))
		}
	}
}
