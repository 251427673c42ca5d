package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// The table of goals on two traces, by hand.
func TestGoalsTable(t *testing.T) {
	g := &Goals{Policies: []string{"cv", "dj"}, Budgets: []time.Duration{10 * time.Second, 20 * time.Second}, Rules: []string{"strict"}}
	row := func(p string, found, delay int) Row {
		return Row{Policy: p, Metrics: Metrics{Relevant: found, MaxDelay: delay}}
	}
	g.Traces = []string{"a", "b"}
	g.Rows = [][]Row{
		{row("hybrid", 880, 320), row("cv", 1000, 1), row("dj", 800, 9), row("hybrid", 969, 321), row("cv", 1000, 1), row("dj", 970, 9)},
		{row("hybrid", 870, 100), row("cv", 1000, 1), row("dj", 900, 9), row("hybrid", 860, 100), row("cv", 1000, 1), row("dj", 860, 9)},
	}
	var b bytes.Buffer
	if err := g.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"rule budget found more % of best reached % of cv reached longest reached",
		"strict 10s 875 2/2 96.7–110.0 1/2 87.0–88.0 1/2 320 2/2",
		"strict 20s 914 1/2 99.9–100.0 2/2 86.0–96.9 0/2 321 1/2",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// Merging applies to all policies except the clairvoyant one.
func TestGoalsMerge(t *testing.T) {
	g := &Goals{Policies: []string{"cv", "dj"}, Budgets: []time.Duration{time.Second}, Rules: []string{"strict"}, Merge: "auto"}
	var got []string
	for _, s := range g.Setups() {
		got = append(got, s.Policy+" "+s.Merge)
	}
	if want := "hybrid auto,cv ,dj auto"; strings.Join(got, ",") != want {
		t.Errorf("setups %q, not %q", got, want)
	}
}
