package sparql

import (
	"fmt"
	"strings"
	"testing"
)

func BenchmarkAnalyse(b *testing.B) {
	const small = "PREFIX f: <http://example.org/f/>\nselect $x where { ?x a f:P ; f:n 'a' . ?x f:knows ?y . " +
		"FILTER(?y > 4) OPTIONAL { ?y f:name ?n } } ORDER BY ?x LIMIT 10"
	var rows strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&rows, " (f:item%d \"label %d\"@en)", i, i)
	}
	large := "PREFIX f: <http://example.org/f/> SELECT * { ?s f:p ?o VALUES (?s ?l) {" + rows.String() + " } }"
	for _, c := range []struct{ name, text string }{{"small", small}, {"values=5000", large}} {
		b.Run("query="+c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Analyse(c.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
