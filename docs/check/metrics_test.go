package check_test

// metrics_test.go reads what is said in PromQL: alerts.yaml and dashboard.json.

import (
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/seed45259946/reload/reloadprom"
)

// labels of each metric there is: those of the collector, and those of every target.
var labels = func() map[string][]string {
	all := map[string][]string{}
	descs := make(chan *prometheus.Desc, 100)
	reloadprom.Collector{}.Describe(descs)
	close(descs)
	for desc := range descs {
		// A description tells nothing but by its text.
		found := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(desc.String())
		all[found[1]] = append(strings.Split(found[2], ","), "job", "instance")
	}
	return all
}()

// check parses an expression and fails on a metric or a label that does not exist. It returns the metrics.
func check(expression string) (metrics []string) {
	GinkgoHelper()
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	Expect(err).NotTo(HaveOccurred(), expression)
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			Expect(labels).To(HaveKey(node.Name), expression)
			metrics = append(metrics, node.Name)
			for _, matcher := range node.LabelMatchers {
				Expect(matcher.Name).To(Or(Equal("__name__"), BeElementOf(labels[node.Name])), expression)
			}
		case *parser.AggregateExpr:
			for _, label := range node.Grouping {
				Expect(label).To(BeElementOf(labels["apoxy_tls_cert_reloads_total"]), expression) // which has all there are
			}
		}
		return nil
	})
	return metrics
}

var _ = Describe("alerts.yaml", func() {
	It("is what Prometheus accepts, about series that exist", func() {
		groups, faults := rulefmt.Parse(page("alerts.yaml"), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.NewTextHandler(GinkgoWriter, nil)))
		Expect(faults).To(BeEmpty())
		Expect(groups.Groups).To(HaveLen(1))
		for _, rule := range groups.Groups[0].Rules {
			Expect(check(rule.Expr)).NotTo(BeEmpty(), rule.Alert)
			Expect(rule.Labels).To(HaveKey("severity"), rule.Alert)
			Expect(rule.Annotations).To(HaveKey("summary"), rule.Alert)
		}
	})
})

var _ = Describe("dashboard.json", func() {
	type board struct {
		Title, UID string
		Templating struct {
			List []struct {
				Name  string
				Query any
			}
		}
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, RefID string }
		}
	}
	var b board
	BeforeEach(func() {
		b = board{}
		Expect(json.Unmarshal(page("dashboard.json"), &b)).To(Succeed())
	})
	// Grafana puts values in the place of its variables.
	grafana := strings.NewReplacer("$__rate_interval", "5m", "$job", "all", "$component", "all")

	It("has panels about series that exist, and shows each series", func() {
		shown := map[string]bool{}
		for _, panel := range b.Panels {
			Expect(panel.Targets).NotTo(BeEmpty(), panel.Title)
			for _, target := range panel.Targets {
				for _, name := range check(grafana.Replace(target.Expr)) {
					shown[name] = true
				}
			}
		}
		for name := range labels {
			Expect(shown).To(HaveKey(name))
		}
	})

	It("has variables that are made of series that exist, and no others", func() {
		names := []string{}
		for _, variable := range b.Templating.List {
			names = append(names, variable.Name)
			query, ok := variable.Query.(map[string]any)
			if !ok {
				continue // the data source
			}
			of := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(query["query"].(string))
			Expect(of).NotTo(BeNil(), variable.Name)
			for _, name := range check(grafana.Replace(of[1])) {
				Expect(of[2]).To(BeElementOf(labels[name]))
			}
		}
		for _, used := range regexp.MustCompile(`\$\{?([a-z]+)`).FindAllStringSubmatch(string(page("dashboard.json")), -1) {
			Expect(used[1]).To(BeElementOf(names))
		}
	})

	It("has panels that lie beside each other", func() {
		taken := map[[2]int]string{}
		ids := map[int]bool{}
		for _, panel := range b.Panels {
			Expect(ids).NotTo(HaveKey(panel.ID))
			ids[panel.ID] = true
			at := panel.GridPos
			Expect(at.X + at.W).To(BeNumerically("<=", 24))
			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					Expect(taken).NotTo(HaveKey([2]int{x, y}), panel.Title)
					taken[[2]int{x, y}] = panel.Title
				}
			}
		}
	})
})
