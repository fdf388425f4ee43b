package reload_test

import (
	"encoding/xml"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("A bundle as XML", func() {
	DescribeTable("has nothing of its private key", func(value bool) {
		b := bundleOf(reloadtest.NewCA(reloadtest.Options{}).Issue(reloadtest.Options{}))
		var v any = b
		if value {
			v = *b
		}
		out, err := xml.Marshal(v)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(out)).To(And(ContainSubstring(b.Fingerprint), Not(ContainSubstring("PrivateKey"))))
	},
		Entry("by pointer", false),
		Entry("by value", true),
	)
})
