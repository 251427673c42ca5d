package diff_test

import (
	"fmt"

	"github.com/freshet/freshet/diff"
)

// trains returns a SELECT result of one column.
func trains(names ...string) *diff.Result {
	b := diff.NewBuilder(diff.Select, diff.Options{})
	if err := b.SetVars([]string{"train"}); err != nil {
		panic(err)
	}
	for _, name := range names {
		if err := b.Row(diff.Term{Kind: diff.Literal, Value: name}); err != nil {
			panic(err)
		}
	}
	r, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return r
}

// An endpoint's answer becomes canonical: its rows are sorted, so two answers with the
// same rows are the same document and have the same hash.
func ExampleDecodeJSON() {
	decode := func(answer string) *diff.Result {
		r, err := diff.DecodeJSON([]byte(answer), diff.Select, diff.Options{})
		if err != nil {
			panic(err)
		}
		return r
	}
	a := decode(`{"head":{"vars":["n"]},"results":{"bindings":[{"n":{"type":"literal","value":"b"}},{"n":{"type":"literal","value":"a"}}]}}`)
	b := decode(`{ "head": {"vars": ["n"]}, "results": {"bindings": [ {"n":{"value":"a","type":"literal"}}, ` +
		`{"n":{"value":"b","type":"literal"}} ]}}`)
	fmt.Println(a.Hash() == b.Hash())
	fmt.Println(string(a.Document()))
	// Output:
	// true
	// {"head":{"vars":["n"]},"results":{"bindings":[{"n":{"type":"literal","value":"a"}},{"n":{"type":"literal","value":"b"}}]}}
}

// Compare returns the added and removed rows and the Jaccard distance.
func ExampleCompare() {
	d := diff.Compare(trains("IC 5", "RE 7"), trains("IC 5", "S 1"))
	fmt.Printf("added   %s\nremoved %s\ndistance %.2f\n", d.AddedJSON(), d.RemovedJSON(), d.Jaccard)
	// Output:
	// added   {"head":{"vars":["train"]},"results":{"bindings":[{"train":{"type":"literal","value":"S 1"}}]}}
	// removed {"head":{"vars":["train"]},"results":{"bindings":[{"train":{"type":"literal","value":"RE 7"}}]}}
	// distance 0.67
}

// A change applied to the result that it was computed from gives the new result, byte
// for byte.
func ExampleDelta_Apply() {
	old, now := trains("IC 5", "RE 7"), trains("IC 5", "S 1")
	got, err := diff.Compare(old, now).Apply(old)
	fmt.Println(got.Hash() == now.Hash(), err)
	_, err = diff.Compare(old, now).Apply(trains("another result"))
	fmt.Println(err != nil)
	// Output:
	// true <nil>
	// true
}

// Two consecutive changes compose into one. Rows that came and went are in neither list.
func ExampleCompose() {
	first := diff.Compare(trains("IC 5"), trains("IC 5", "RE 7"))
	second := diff.Compare(trains("IC 5", "RE 7"), trains("S 1"))
	net, err := diff.Compose(first, second)
	fmt.Println(err)
	fmt.Println(string(net.AddedJSON()))
	fmt.Println(string(net.RemovedJSON()))
	// Output:
	// <nil>
	// {"head":{"vars":["train"]},"results":{"bindings":[{"train":{"type":"literal","value":"S 1"}}]}}
	// {"head":{"vars":["train"]},"results":{"bindings":[{"train":{"type":"literal","value":"IC 5"}}]}}
}

// The inverse of a change leads back. Time travel starts from the newest result and walks
// backwards.
func ExampleInvert() {
	old, now := trains("IC 5", "RE 7"), trains("IC 5", "S 1")
	back, err := diff.Invert(diff.Compare(old, now)).Apply(now)
	fmt.Println(back.Hash() == old.Hash(), err)
	// Output:
	// true <nil>
}
