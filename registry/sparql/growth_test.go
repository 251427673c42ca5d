package sparql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff/growth"
)

func each(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

var hostileTexts = map[string]func(n int) string{
	"constants":  func(n int) string { return "SELECT ?s { VALUES ?s {" + each(n, " <a:%d>") + " } ?s ?p ?o }" },
	"variables":  func(n int) string { return "SELECT" + each(n, " ?v%d") + " { ?s ?p ?o }" },
	"prefixes":   func(n int) string { return each(n, "PREFIX p%d: <http://x/>\n") + "SELECT ?s { ?s ?p ?o }" },
	"order keys": func(n int) string { return "SELECT ?s { ?s ?p ?o } ORDER BY" + each(n, " ?v%d") },
	"groups":     func(n int) string { return "SELECT ?s " + strings.Repeat("{", n) + strings.Repeat("}", n) },
	"unions":     func(n int) string { return "SELECT ?s { {?s ?p ?o}" + each(n, " UNION {?s ?p %d}") + " }" },
	"bnodes":     func(n int) string { return "SELECT (BNODE() AS ?a)" + each(n, " (BNODE() AS ?a%d)") + " { ?s ?p ?o }" },
	"subselects": func(n int) string { return "SELECT ?s {" + each(n, " {SELECT ?v%d {?s ?p ?o} LIMIT 1}") + " }" },
	"comments":   func(n int) string { return "SELECT ?s { ?s ?p ?o }" + each(n, "\n# %d") },
	"services":   func(n int) string { return "SELECT ?s {" + each(n, " SERVICE <http://x/%d> {?s ?p ?o}") + " }" },
	"open IRIs":  func(n int) string { return "SELECT ?s { ?s ?p ?o FILTER(1 " + strings.Repeat("<a://", n) },
	"functions": func(n int) string {
		return "SELECT ?s { ?s ?p ?o FILTER(" + each(n, "<http://f/%d>(?s) || ") + " true) }"
	},
}

// The cost of analysing a text is bounded by its length, whatever its content.
func TestLongAnalysisIsNotQuadratic(t *testing.T) {
	for name, text := range hostileTexts {
		t.Run(name, func(t *testing.T) {
			growth.Check(t, growth.Sizes(1000, func(n int) growth.Input {
				s := text(n)
				return growth.Input{Size: len(s), Work: func() { _, _ = Analyse(s) }}
			})...)
		})
	}
}
