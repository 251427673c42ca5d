package cursor_test

import (
	"encoding/json"
	"fmt"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/cursor"
)

// A filter keeps the rows and columns that a follower wants. A change of which nothing is
// left is not sent.
func ExampleParseFilter() {
	f, err := cursor.ParseFilter(json.RawMessage(`{"vars":["line"],"where":[{"var":"delay","op":">","value":5}]}`))
	if err != nil {
		panic(err)
	}
	delays := func(delay string) *diff.Result {
		doc := `{"head":{"vars":["line","delay"]},"results":{"bindings":[{"line":{"type":"literal","value":"t2"},` +
			`"delay":{"type":"literal","value":"` + delay + `","datatype":"http://www.w3.org/2001/XMLSchema#integer"}}]}}`
		r, err := diff.DecodeJSON([]byte(doc), diff.Select, diff.Options{})
		if err != nil {
			panic(err)
		}
		return r
	}
	for _, d := range []*diff.Delta{diff.Compare(delays("2"), delays("3")), diff.Compare(delays("3"), delays("9"))} {
		left := f.Delta(d)
		if left == nil {
			fmt.Println("nothing to send")
			continue
		}
		fmt.Println(string(left.AddedJSON()))
	}
	_, err = cursor.ParseFilter(json.RawMessage(`{"columns":["line"]}`))
	fmt.Println(err)
	// Output:
	// nothing to send
	// {"head":{"vars":["line"]},"results":{"bindings":[{"line":{"type":"literal","value":"t2"}}]}}
	// filter: unknown field "columns"; known are min_jaccard, min_rows, vars and where
}
