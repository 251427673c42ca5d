package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff/growth"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// naming returns a query with n sorted constants.
func naming(id string, n int) registry.Query {
	q := registry.Query{ID: id}
	var text strings.Builder
	text.WriteString("SELECT * { ")
	for i := range n {
		q.Constants = append(q.Constants, fmt.Sprintf("http://x/%07d", i))
		fmt.Fprintf(&text, "?s <%s> ?o . ", q.Constants[i])
	}
	q.Text = text.String() + "}"
	return q
}

// TestLongIndexesAreNotQuadratic checks that the cost of indexing a query grows
// linearly with its text.
func TestLongIndexesAreNotQuadratic(t *testing.T) {
	p, err := parse("hybrid")
	if err != nil {
		t.Fatal(err)
	}
	growth.Check(t, growth.Sizes(4000, func(n int) growth.Input {
		q := naming("q_many", n)
		return growth.Input{Size: n, Work: func() {
			x := New(p, time.Second)
			x.GrowIndex()
			x.GrowPatterns()
			for range 10 {
				x.put(q, policy.Stats{})
			}
			x.related(&x.all[q.ID].Candidate)
			x.drop(q.ID)
		}}
	})...)
}

// TestManyConstants checks that a query with too many constants is related to no
// other, and that every hint may affect it.
func TestManyConstants(t *testing.T) {
	p, err := parse("hybrid")
	if err != nil {
		t.Fatal(err)
	}
	x := New(p, time.Second)
	x.GrowIndex()
	x.GrowPatterns()
	for id, n := range map[string]int{"q_most": maxIndexed, "q_more": maxIndexed + 1, "q_one": 1} {
		x.put(naming(id, n), policy.Stats{})
	}
	var got []string
	for _, c := range x.related(&x.all["q_one"].Candidate) {
		got = append(got, c.Query.ID)
	}
	if !slices.Equal(got, []string{"q_most"}) || len(x.related(&x.all["q_more"].Candidate)) != 0 {
		t.Errorf("related to q_one: %v", got)
	}
	found, _ := x.pattern.affected(&registry.Hint{Touched: []string{"http://y/"}})
	if _, ok := found[x.all["q_more"]]; !ok || len(found) != 1 {
		t.Errorf("a hint about something else affects %d queries", len(found))
	}
	for id := range x.all {
		x.drop(id)
	}
	if len(x.index.by) != 0 || len(x.pattern.by) != 0 {
		t.Errorf("after all are gone: %d constants and %d keys are indexed", len(x.index.by), len(x.pattern.by))
	}
}
