package reloadtest_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload/reloadtest"
)

var timestamp = regexp.MustCompile(`^\.\.\d{4}(_\d\d){5}\.\d{9}$`)

var _ = Describe("Kubelet", func() {
	var dir string
	var volume *reloadtest.Kubelet
	BeforeEach(func() {
		dir = filepath.Join(GinkgoT().TempDir(), "volume")
		var err error
		volume, err = reloadtest.NewKubelet(dir, generation(1))
		Expect(err).NotTo(HaveOccurred())
	})

	DescribeTable("leaves one generation behind links, whatever came before",
		func(set func(*reloadtest.Kubelet)) {
			set(volume)
			for n := range 4 {
				f := generation(n + 2)
				if n%2 == 0 {
					delete(f, "ca.crt")
				}
				Expect(volume.Update(f)).To(Succeed())
				Expect(dir).To(hold(f))
				Expect(dir).To(beVolumeOf(f))
			}
		},
		Entry("as on Linux", func(*reloadtest.Kubelet) {}),
		Entry("with fsGroup", func(k *reloadtest.Kubelet) { k.FSGroup = true }),
		Entry("as on Windows", func(k *reloadtest.Kubelet) { k.Windows = true }),
	)

	It("is not made where its files cannot be written", func() {
		k, err := reloadtest.NewKubelet(filepath.Join(dir, "other"), reloadtest.Files{
			"tls.crt": []byte("x"), "tls.crt/tls.key": []byte("x"), // a file and a directory
		})
		Expect(err).To(HaveOccurred())
		Expect(k).To(BeNil())
	})

	It("links the first element of names with directories", func() {
		f := reloadtest.Files{"client/tls.crt": []byte("c"), "client/tls.key": []byte("k")}
		Expect(volume.Update(f)).To(Succeed())
		Expect(dir).To(hold(f))
		Expect(os.Readlink(filepath.Join(dir, "client"))).To(Equal(filepath.Join("..data", "client")))
		Expect(filepath.Join(dir, "tls.crt")).NotTo(BeAnExistingFile())
	})

	DescribeTable("can be stopped between any two steps, and recovers with the next update",
		func(set func(*reloadtest.Kubelet), step string, published int) {
			Expect(volume.Update(reloadtest.Files{"old": []byte("o"), "tls.crt": generation(1)["tls.crt"]})).To(Succeed())
			set(volume)
			killed := errors.New("killed")
			volume.Step = func(s string) error {
				if s == step {
					return killed
				}
				return nil
			}
			Expect(volume.Update(generation(2))).To(MatchError(killed))
			if published > 0 {
				Expect(os.ReadFile(filepath.Join(dir, "tls.crt"))).To(Equal(generation(published)["tls.crt"]))
			} else {
				Expect(filepath.Join(dir, "tls.crt")).NotTo(BeAnExistingFile())
			}

			volume.Step = nil
			Expect(volume.Update(generation(3))).To(Succeed())
			for name, data := range generation(3) {
				Expect(os.ReadFile(filepath.Join(dir, name))).To(Equal(data))
			}
		},
		Entry(nil, asIs, reloadtest.StepMkdir, 1),
		Entry(nil, asIs, reloadtest.StepChmod, 1),
		Entry(nil, asIs, reloadtest.StepPayload, 1),
		Entry(nil, withFSGroup, reloadtest.StepFSGroup, 1),
		Entry(nil, asIs, reloadtest.StepTempRef, 1),
		Entry(nil, asOnWindows, reloadtest.StepUnswap, 0),
		Entry(nil, asIs, reloadtest.StepSwap, 2),
		Entry(nil, asIs, reloadtest.StepLinks, 2),
		Entry(nil, asIs, reloadtest.StepUnlinks, 2),
	)

	It("links the new names of an update that was stopped when the same payload comes again", func() {
		f := generation(2)
		f["extra"] = []byte("e")
		volume.Step = func(step string) error {
			if step == reloadtest.StepSwap {
				return errors.New("killed")
			}
			return nil
		}
		Expect(volume.Update(f)).NotTo(Succeed())
		Expect(filepath.Join(dir, "extra")).NotTo(BeAnExistingFile())
		Expect(volume.Update(f)).To(Succeed())
		Expect(dir).To(hold(f))
	})

	When("a directory watch looks on", func() {
		BeforeEach(func() {
			if runtime.GOOS != "linux" {
				Skip("the events of inotify")
			}
		})
		// An event names the timestamp directories old and new, as they come.
		known := func() func(string) string {
			old, err := os.Readlink(filepath.Join(dir, "..data"))
			Expect(err).NotTo(HaveOccurred())
			return func(name string) string {
				switch {
				case name == old:
					return "old"
				case timestamp.MatchString(name):
					return "new"
				}
				return name
			}
		}

		It("shows the swap", func(ctx SpecContext) {
			events := eventsOf(ctx, dir, known(), func() { Expect(volume.Update(generation(2))).To(Succeed()) })
			Expect(events).To(Equal([]string{"CREATE new", "CHMOD new",
				"CREATE ..data_tmp", "RENAME ..data_tmp", "CREATE ..data", "REMOVE old"}))
		})

		It("shows the links of names that come and go", func(ctx SpecContext) {
			f := generation(2)
			f["extra"] = []byte("e")
			delete(f, "ca.crt")
			events := eventsOf(ctx, dir, known(), func() { Expect(volume.Update(f)).To(Succeed()) })
			Expect(events).To(Equal([]string{"CREATE new", "CHMOD new",
				"CREATE ..data_tmp", "RENAME ..data_tmp", "CREATE ..data",
				"CREATE extra", "REMOVE ca.crt", "REMOVE old"}))
		})

		It("shows an fsGroup touch everything before the swap, what is published included", func(ctx SpecContext) {
			volume.FSGroup = true
			events := eventsOf(ctx, dir, known(), func() { Expect(volume.Update(generation(2))).To(Succeed()) })
			swap := slices.Index(events, "CREATE ..data_tmp")
			Expect(swap).To(BeNumerically(">", 0), strings.Join(events, "; "))
			Expect(events[0]).To(Equal("CREATE new"))
			Expect(slices.Compact(slices.Sorted(slices.Values(events[1:swap])))).To(Equal([]string{
				"CHMOD .", "CHMOD ..data", "CHMOD ca.crt", "CHMOD new", "CHMOD old", "CHMOD tls.crt", "CHMOD tls.key"}))
			Expect(events[swap:]).To(Equal([]string{
				"CREATE ..data_tmp", "RENAME ..data_tmp", "CREATE ..data", "REMOVE old"}))
		})

		It("shows the gap of a Windows node", func(ctx SpecContext) {
			volume.Windows = true
			events := eventsOf(ctx, dir, known(), func() { Expect(volume.Update(generation(2))).To(Succeed()) })
			Expect(events).To(Equal([]string{"CREATE new", "CHMOD new",
				"CREATE ..data_tmp", "REMOVE ..data", "CREATE ..data", "REMOVE ..data_tmp", "REMOVE old"}))
		})

		It("shows nothing of an update to the same payload", func(ctx SpecContext) {
			volume.FSGroup = true
			events := eventsOf(ctx, dir, known(), func() { Expect(volume.Update(generation(1))).To(Succeed()) })
			Expect(events).To(BeEmpty())
		})
	})
})

func asIs(*reloadtest.Kubelet)          {}
func withFSGroup(k *reloadtest.Kubelet) { k.FSGroup = true }
func asOnWindows(k *reloadtest.Kubelet) { k.Windows = true }

// beVolumeOf matches a directory of a timestamp directory, ..data, and one link for each of f's names.
func beVolumeOf(f reloadtest.Files) OmegaMatcher {
	return WithTransform(func(dir string) []string {
		entries, err := os.ReadDir(dir)
		Expect(err).NotTo(HaveOccurred())
		data, err := os.Readlink(filepath.Join(dir, "..data"))
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, entry := range entries {
			target, _ := os.Readlink(filepath.Join(dir, entry.Name()))
			switch name := entry.Name(); {
			case timestamp.MatchString(name) && name == data:
				names = append(names, "generation")
			case target == filepath.Join("..data", name):
				names = append(names, name)
			case name != "..data":
				names = append(names, "unexpected "+name)
			}
		}
		return names
	}, ConsistOf(append([]any{"generation"}, anySlice(f)...)...))
}

func anySlice(f reloadtest.Files) (names []any) {
	for name := range f {
		names = append(names, name)
	}
	return names
}
