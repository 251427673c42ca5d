package merge

import (
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
)

func TestDistinguishable(t *testing.T) {
	iri := diff.Term{Kind: diff.IRI, Value: "http://x/a"}
	literal := func(value, datatype, lang string) diff.Term {
		return diff.Term{Kind: diff.Literal, Value: value, Datatype: datatype, Lang: lang}
	}
	for _, c := range []struct {
		a, b diff.Term
		want bool
	}{
		{iri, diff.Term{Kind: diff.IRI, Value: "http://x/b"}, true},
		{iri, diff.Term{}, true},
		{iri, literal("a", "", ""), false}, // Virtuoso
		{iri, diff.Term{Kind: diff.Blank, Value: "b"}, false},
		{diff.Term{Kind: diff.Blank, Value: "a"}, diff.Term{Kind: diff.Blank, Value: "b"}, false},
		{literal("a", "", ""), literal("b", "", ""), true},
		{literal("a", "", "en"), literal("b", "", "en"), false},
		{literal("a", "", ""), literal("a", "", "en"), false},
		{literal("1", xsd+"integer", ""), literal("2", xsd+"integer", ""), true},
		{literal("1", xsd+"integer", ""), literal("01", xsd+"integer", ""), false},
		{literal("1", xsd+"integer", ""), literal("2", xsd+"double", ""), false},
		{literal("1.5", xsd+"decimal", ""), literal("-1", xsd+"decimal", ""), true},
		{literal("1", xsd+"decimal", ""), literal("2e999999999", xsd+"decimal", ""), false},
		{literal("1", xsd+"integer", ""), literal(strings.Repeat("9", 1<<20), xsd+"integer", ""), false},
		{literal("2020-01-01Z", xsd+"date", ""), literal("2020-01-02Z", xsd+"date", ""), true},
		{literal("2020-01-01", xsd+"date", ""), literal("2020-01-02", xsd+"date", ""), false},
	} {
		for _, swapped := range []bool{false, true} {
			a, b := c.a, c.b
			if swapped {
				a, b = b, a
			}
			if got := distinguishable(a, b); got != c.want {
				t.Errorf("%v and %v: %v", a, b, got)
			}
		}
	}
}
