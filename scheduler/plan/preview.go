package plan

import "time"

// typical is the estimate in a preview of a query that never completed.
const typical = 100 * time.Millisecond

// Preview returns the number and cost of the executions that the slot would start if
// each took its estimate.
func (s *SlotBudget) Preview() (n int, cost time.Duration) {
	left := s.budget - s.used
	add := func(c *item) {
		e := c.Estimate
		if e == 0 && c.Stats.Executions == 0 {
			e = typical
		}
		n++
		cost += e
		left -= e
	}
	if s.opener != nil {
		add(s.opener)
		if left <= 0 {
			return n, cost
		}
	}
	share := min(s.share, left)
	for _, t := range s.p.front() {
		for c := range t.all {
			if before := left; c.Estimate <= share {
				add(c)
				share -= before - left
			}
		}
	}
	for _, c := range s.p.earlyHinted() {
		add(c)
	}
	for _, c := range s.p.claims.earlyClaimed() {
		add(c)
	}
	first := s.p.ranked.first()
	if n == 0 && first != nil && leads(s.owes, first.Estimate, left) {
		add(first)
	} else {
		first = nil // considered with the others
	}
	for c := range s.p.ranked.all {
		if c.Estimate <= left && c != first && c != s.opener {
			add(c)
		}
	}
	return n, cost
}
