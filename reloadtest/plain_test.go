package reloadtest_test

import (
	"errors"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("Plain", func() {
	var dir string
	BeforeEach(func() { dir = filepath.Join(GinkgoT().TempDir(), "a", "b") })

	DescribeTable("names its steps to the hook, key first",
		func(write func(*reloadtest.Plain, reloadtest.Files) error, want ...string) {
			p, err := reloadtest.NewPlain(dir, generation(1))
			Expect(err).NotTo(HaveOccurred())
			Expect(dir).To(hold(generation(1)))

			var steps []string
			p.Step = func(step string) error { steps = append(steps, step); return nil }
			Expect(write(p, generation(2))).To(Succeed())
			Expect(steps).To(Equal(want))
			Expect(dir).To(hold(generation(2)))
		},
		Entry("in place", (*reloadtest.Plain).Write,
			"truncate tls.key", "write tls.key", "truncate tls.crt", "write tls.crt", "truncate ca.crt"),
		Entry("by rename", (*reloadtest.Plain).Rename,
			"temp tls.key", "rename tls.key", "temp tls.crt", "rename tls.crt", "temp ca.crt"),
	)

	It("follows another order, and sorts what that leaves open", func() {
		p, err := reloadtest.NewPlain(dir, generation(1))
		Expect(err).NotTo(HaveOccurred())
		p.Order = []string{"tls.crt", "absent"}
		var steps []string
		p.Step = func(step string) error { steps = append(steps, step); return nil }
		Expect(p.Rename(generation(2))).To(Succeed())
		Expect(steps).To(HaveExactElements("temp tls.crt", "rename tls.crt", "temp ca.crt", "rename ca.crt", "temp tls.key"))
	})

	DescribeTable("can be stopped between any two steps, and starts over with the next call",
		func(write func(*reloadtest.Plain, reloadtest.Files) error, step string, cert []byte) {
			p, err := reloadtest.NewPlain(dir, generation(1))
			Expect(err).NotTo(HaveOccurred())
			killed := errors.New("killed")
			p.Step = func(s string) error {
				if s == step {
					return killed
				}
				return nil
			}
			Expect(write(p, generation(2))).To(MatchError(killed))
			Expect(dir).To(hold(reloadtest.Files{
				"tls.key": generation(2)["tls.key"], "tls.crt": cert, "ca.crt": generation(1)["ca.crt"]}))
			Expect(openBelow(dir)).To(BeEmpty())

			p.Step = nil
			Expect(write(p, generation(3))).To(Succeed())
			Expect(dir).To(hold(generation(3)))
		},
		Entry(nil, (*reloadtest.Plain).Write, "write tls.key", generation(1)["tls.crt"]),
		Entry(nil, (*reloadtest.Plain).Write, "truncate tls.crt", []byte{}),
		Entry(nil, (*reloadtest.Plain).Write, "write tls.crt", generation(2)["tls.crt"]),
		Entry(nil, (*reloadtest.Plain).Rename, "temp tls.crt", generation(1)["tls.crt"]),
		Entry(nil, (*reloadtest.Plain).Rename, "rename tls.crt", generation(2)["tls.crt"]),
	)

	It("keeps the key to its owner, and keeps files it is not asked to write", func() {
		p, err := reloadtest.NewPlain(dir, generation(1))
		Expect(err).NotTo(HaveOccurred())
		info, err := os.Stat(filepath.Join(dir, "tls.key"))
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm() & 0o077).To(BeZero())

		Expect(p.Write(reloadtest.Files{"tls.crt": []byte("x")})).To(Succeed())
		want := generation(1)
		want["tls.crt"] = []byte("x")
		Expect(dir).To(hold(want))
	})

	It("is not made where its files cannot be written", func() {
		p, err := reloadtest.NewPlain(dir, reloadtest.Files{"missing/tls.crt": []byte("x")})
		Expect(err).To(MatchError(os.ErrNotExist))
		Expect(p).To(BeNil())
	})

	It("reports what it cannot write", func() {
		p, err := reloadtest.NewPlain(dir, generation(1))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.RemoveAll(dir)).To(Succeed())
		Expect(p.Rename(generation(2))).To(MatchError(os.ErrNotExist))
	})
})
