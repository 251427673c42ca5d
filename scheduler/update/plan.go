package update

import (
	"slices"
	"sort"
)

// A Plan is the schedule of one page under fbSUP, algorithm 2: that of SUP, to
// which probes are added that feedback asks for.
type Plan struct {
	rule   Rule
	model  []int
	n      int
	probes []int // ascending, those done included
	done   int   // how many are
}

// NewPlan makes the plan that SUP has for an epoch of chronons 1 to n, model
// being the expected updates in ascending order.
func NewPlan(r Rule, model []int, n int) *Plan {
	return &Plan{rule: r, model: model, n: n, probes: SUP(r.Spans(model, n))}
}

// Next takes the next probe from the plan; ok is false when there is none.
func (p *Plan) Next() (t int, ok bool) {
	if p.done == len(p.probes) {
		return 0, false
	}
	p.done++
	return p.probes[p.done-1], true
}

// Unmet tells the plan that the probe at chronon t did not satisfy the rule, and
// that l updates were counted since the last one that did, 0 ≤ l < X. A new
// interval is computed for the (X − l)-th update after t in the model, and its
// last chronon will be probed, unless some probe lies in it already. It reports
// whether a probe was added.
func (p *Plan) Unmet(t, l int) bool {
	i := sort.SearchInts(p.model, t+1) + p.rule.X - l - 1
	if i >= len(p.model) {
		return false
	}
	s := p.rule.span(p.model, i, p.n)
	if s.Start > s.Finish {
		return false
	}
	at := sort.SearchInts(p.probes, s.Start)
	if at < len(p.probes) && p.probes[at] <= s.Finish {
		return false
	}
	p.probes = slices.Insert(p.probes, at, s.Finish)
	return true
}

// Feedback is fbSUP over a whole epoch whose true updates are known: a probe
// satisfies the rule when it lies in an interval of theirs. It returns the
// probes, ascending.
func Feedback(r Rule, model, truth []int, n int) []int {
	p := NewPlan(r, model, n)
	spans := r.Spans(truth, n)
	for {
		t, ok := p.Next()
		if !ok {
			return p.probes
		}
		if !met(spans, t) {
			p.Unmet(t, sort.SearchInts(truth, t+1)%r.X)
		}
	}
}

// met reports whether a chronon lies in one of the spans. Their ends ascend with
// their starts: of those that have started the last one ends last.
func met(spans []Span, t int) bool {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].Start > t }) - 1
	return i >= 0 && spans[i].Holds(t)
}
