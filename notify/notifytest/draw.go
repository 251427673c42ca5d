package notifytest

import (
	"fmt"
	"math/rand/v2"

	"github.com/freshet/freshet/diff"
)

// Rows returns an unordered SELECT result with the variable s and these literals.
func Rows(values ...string) *diff.Result { return Table(false, values...) }

// Table returns a SELECT result with the variable s and these literals.
func Table(ordered bool, values ...string) *diff.Result {
	b := diff.NewBuilder(diff.Select, diff.Options{Ordered: ordered})
	b.SetVars([]string{"s"})
	for _, v := range values {
		b.Row(diff.Term{Kind: diff.Literal, Value: v})
	}
	r, err := b.Finish() // returns the first error of all calls
	if err != nil {
		panic(err)
	}
	return r
}

// Random returns a random result of a form. It draws from few values, so that two results
// have rows in common.
func Random(r *rand.Rand, form diff.Form, ordered bool) *diff.Result {
	b := diff.NewBuilder(form, diff.Options{Ordered: ordered})
	n := r.IntN(8)
	switch {
	case form == diff.Ask:
		b.SetBoolean(r.IntN(2) == 0)
	case form.Graph():
		for range n {
			o := literal(r)
			if o.Kind == diff.Unbound {
				o = diff.Term{Kind: diff.Blank, Value: fmt.Sprint("b", r.IntN(2))}
			}
			b.Triple(diff.Term{Kind: diff.IRI, Value: fmt.Sprintf("http://x/%d", r.IntN(6))}, diff.Term{Kind: diff.IRI, Value: "http://x/p"}, o)
		}
	default:
		b.SetVars([]string{"s", "o"})
		for range n {
			b.Row(literal(r), literal(r))
		}
	}
	res, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return res
}

// literal returns a literal that is hard to encode, or an unbound term.
func literal(r *rand.Rand) diff.Term {
	t := diff.Term{Kind: diff.Literal, Value: []string{"a", "b<&>", "c \"q\"", "ü\u2028", "\x01\n", "𝄞"}[r.IntN(6)]}
	switch r.IntN(4) {
	case 0:
		t.Lang = "en"
	case 1:
		t.Datatype = "http://www.w3.org/2001/XMLSchema#integer"
	case 2:
		return diff.Term{} // unbound
	}
	return t
}
