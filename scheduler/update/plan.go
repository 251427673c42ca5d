package update

import (
	"slices"
	"sort"
)

// A Plan is the schedule of one page under fbSUP, algorithm 2: the schedule of SUP
// with the probes that feedback adds.
type Plan struct {
	rule   Rule
	model  []int
	n      int
	probes []int // ascending, including those that are done
	done   int   // number of probes done
}

// NewPlan returns the schedule of SUP for an epoch of chronons 1 to n. model holds
// the expected updates in ascending order.
func NewPlan(r Rule, model []int, n int) *Plan {
	return &Plan{rule: r, model: model, n: n, probes: SUP(r.Spans(model, n))}
}

// Next removes and returns the next probe of the plan. ok is false if there is none.
func (p *Plan) Next() (t int, ok bool) {
	if p.done == len(p.probes) {
		return 0, false
	}
	p.done++
	return p.probes[p.done-1], true
}

// Unmet reports to the plan that the probe at chronon t did not satisfy the rule.
// l is the number of updates counted since the last probe that did, 0 ≤ l < X. Unmet
// computes an interval for the (X − l)-th update after t in the model. It adds a
// probe at the interval's last chronon unless some probe already lies in the
// interval, and returns whether it added one.
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

// Feedback runs fbSUP over a whole epoch whose true updates are known. A probe
// satisfies the rule if it lies in an interval of the true updates. Feedback returns
// the probes in ascending order.
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

// met reports whether a chronon lies in one of the spans. Both ends of the spans
// ascend, so of the spans that have started the last one ends last.
func met(spans []Span, t int) bool {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].Start > t }) - 1
	return i >= 0 && spans[i].Holds(t)
}
