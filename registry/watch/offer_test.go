package watch_test

import (
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry/watch"
)

// Whatever an endpoint calls a number, a condition has quotes around what rules do not read as one.
func TestOffersQuoteValues(t *testing.T) {
	const integer, double = "http://www.w3.org/2001/XMLSchema#integer", "http://www.w3.org/2001/XMLSchema#double"
	for _, x := range []struct{ value, datatype, want string }{
		{"5 and ?b < 3", integer, `?a = "5 and ?b < 3"`},
		{"5\n", integer, `?a = "5\n"`},
		{"", integer, `?a = ""`},
		{"INF", double, `?a = "INF"`},
		{"true", integer, `?a = "true"`},
		{"5", integer, `?a = 5`},
		{"-1.5e3", double, `?a = -1.5e3`},
		{"5", "", `?a = "5"`},
	} {
		row := []diff.Term{{Kind: diff.Literal, Value: x.value, Datatype: x.datatype}, {Kind: diff.Literal, Value: "1", Datatype: integer}}
		found := false
		for _, o := range watch.Offers(diff.Select, []string{"a", "b"}, row) {
			if o.Kind == "row" || o.Key == "cell1" {
				found = true
				if when := o.When("10") + " "; !strings.Contains(when, x.want+" ") {
					t.Errorf("%q: %s", x.value, when)
				}
			}
		}
		if !found {
			t.Errorf("%q: no offer", x.value)
		}
	}
}
