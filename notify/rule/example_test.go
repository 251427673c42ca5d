package rule_test

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/rule"
	"github.com/freshet/freshet/registry"
)

// A rule fires for each row that meets its condition and resolves when the row no longer does.
func ExampleProgram() {
	p, err := rule.Compile(registry.RuleSettings{Name: "late", When: "?delay > 5", Summary: "line {{?line}} is late"},
		diff.Select, []string{"line", "delay"}, 1000)
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
	var state registry.RuleState
	at := time.Date(2026, 1, 15, 8, 0, 0, 0, time.UTC)
	for i, delay := range []string{"3", "9", "12", "4"} {
		at = at.Add(time.Minute)
		for _, e := range p.Reset(&state, delays(delay), registry.Position{Epoch: "k7f2", Seq: uint64(i + 1)}, at) {
			fmt.Println(delay, e.State)
		}
	}
	_, err = rule.Compile(registry.RuleSettings{Name: "late", When: "?dely > 5"}, diff.Select, []string{"line", "delay"}, 1000)
	fmt.Println(err)
	// Output:
	// 9 firing
	// 4 resolved
	// A setting is out of range: when names ?dely, which is not available here: there is ?line, ?delay
}
