package wic

import (
	"cmp"
	"math"
	"slices"
)

// A Pending is the expected value of monitoring a page now: the sum over the
// instants since its last monitoring.
type Pending struct {
	urgency Urgency
	life    Life
	reach   int
	recent  []float64 // the probabilities of the instants within reach, oldest first
	at      []float64 // without a reach: the value of the changes that q later ones followed
}

// NewPending returns the Pending of a page that was just monitored. The settings
// must be valid.
func NewPending(u Urgency, l Life) *Pending {
	return &Pending{urgency: u, life: l, reach: reach(u, l), at: make([]float64, l.states())}
}

// Step advances to the next instant, in which the page changes with probability pi.
func (p *Pending) Step(pi float64) {
	if p.reach >= 0 {
		p.recent = append(p.recent, pi)
		p.recent = p.recent[max(0, len(p.recent)-p.reach-1):]
		return
	}
	if p.life.dies() {
		follow(p.at, pi)
	}
	for q := range p.at {
		p.at[q] *= p.urgency.decay()
	}
	p.at[0] += pi
}

// follow replaces values of changes by how many later ones followed them when the next
// instant has a change with probability pi.
func follow(at []float64, pi float64) {
	for q := len(at) - 1; q > 0; q-- {
		at[q] = at[q]*(1-pi) + at[q-1]*pi
	}
	at[0] *= 1 - pi
}

// Gain returns the sum. The caller multiplies it by the importance of the page.
func (p *Pending) Gain() (g float64) {
	for _, x := range p.at {
		g += x
	}
	alive, decay := make([]float64, p.life.states()), 1.0
	alive[0] = 1
	for _, pi := range slices.Backward(p.recent) {
		for _, x := range alive {
			g += pi * x * decay
		}
		if decay *= p.urgency.decay(); p.life.dies() {
			follow(alive, pi)
		}
	}
	return g
}

// Monitored resets the sum: the page was monitored in the current instant.
func (p *Pending) Monitored() {
	p.recent = p.recent[:0]
	clear(p.at)
}

// tie is the relative difference of gains that counts as rounding. Pages of equal
// value may have sums of different lengths, whose last bits must not order them.
const tie = 1e-13

// Top lists the c pages with the largest gains, largest first; ties go to the
// smaller page. Pages without a gain are left out. A gain ties with the largest
// remaining one if it is smaller by at most one part in 10^13.
func Top(gains []float64, c int) []int {
	floor := least(gains, c) * (1 - tie)
	pages := []int{}
	for i, g := range gains {
		if g > 0 && g >= floor {
			pages = append(pages, i)
		}
	}
	slices.SortStableFunc(pages, func(a, b int) int { return cmp.Compare(gains[b], gains[a]) })
	for from, to := 0, 0; from < len(pages); from = to {
		for to = from; to < len(pages) && gains[pages[to]] >= gains[pages[from]]*(1-tie); to++ {
		}
		slices.Sort(pages[from:to])
	}
	return pages[:min(c, len(pages))]
}

// least returns the c-th largest gain, 0 if fewer pages have one.
func least(gains []float64, c int) float64 {
	switch {
	case c == 0:
		return math.Inf(1)
	case c > len(gains):
		return 0
	}
	sorted := slices.Sorted(slices.Values(gains))
	return max(0, sorted[len(sorted)-c])
}
