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
	sum     run   // of all instants, or of those in back
	back    []run // single instants, oldest first
	front   []run // sums from an old instant up to the youngest of front, longest last
}

// A run is the sum over successive instants. at[q] is the value, in its last
// instant, of the changes in the run that were followed by q later ones in it.
// follows[q] is the probability of q changes in the run. decay is the factor by
// which urgency decreases over the run.
type run struct {
	at, follows []float64
	decay       float64
}

// NewPending returns the Pending of a page that was just monitored. The settings
// must be valid.
func NewPending(u Urgency, l Life) *Pending {
	return &Pending{urgency: u, life: l, reach: reach(u, l)}
}

// Step advances to the next instant, in which the page changes with probability pi.
func (p *Pending) Step(pi float64) {
	if p.reach < 0 && p.sum.at != nil {
		p.extend(pi)
		return
	}
	one := p.instant(pi)
	p.sum = join(p.sum, one)
	if p.reach < 0 {
		return
	}
	p.back = append(p.back, one)
	if len(p.front)+len(p.back) > p.reach+1 {
		p.forget()
	}
}

// extend is Step for settings that never forget an instant. It updates the sum in place.
func (p *Pending) extend(pi float64) {
	at, decay := p.sum.at, p.urgency.decay()
	if p.life.dies() {
		for q := len(at) - 1; q > 0; q-- {
			at[q] = (at[q]*(1-pi) + at[q-1]*pi) * decay
		}
		at[0] *= 1 - pi
	}
	at[0] = at[0]*decay + pi
}

// instant returns the run of a single instant.
func (p *Pending) instant(pi float64) run {
	n := p.life.states()
	values := make([]float64, 2*n)
	r := run{at: values[:n:n], follows: values[n:], decay: p.urgency.decay()}
	r.at[0], r.follows[0] = pi, 1
	if p.life.dies() {
		r.follows[0] = 1 - pi
		if n > 1 {
			r.follows[1] = pi
		}
	}
	return r
}

// join returns run a followed by run b. A nil run has no instants.
func join(a, b run) run {
	if a.at == nil {
		return b
	}
	n := len(a.at)
	values := make([]float64, 2*n)
	r := run{at: values[:n:n], follows: values[n:], decay: a.decay * b.decay}
	for q := range n {
		for i := range q + 1 {
			r.at[q] += a.at[i] * b.follows[q-i]
			r.follows[q] += a.follows[i] * b.follows[q-i]
		}
		r.at[q] = r.at[q]*b.decay + b.at[q]
	}
	return r
}

// forget drops the oldest instant. If the front is empty, it is first rebuilt from
// the back, so each instant moves only once.
func (p *Pending) forget() {
	if len(p.front) == 0 {
		var sum run
		for i := len(p.back) - 1; i >= 0; i-- {
			sum = joinBefore(p.back[i], sum)
			p.front = append(p.front, sum)
		}
		p.back, p.sum = p.back[:0], run{}
	}
	p.front[len(p.front)-1] = run{}
	p.front = p.front[:len(p.front)-1]
}

func joinBefore(a, rest run) run {
	if rest.at == nil {
		return a
	}
	return join(a, rest)
}

// Gain returns the sum. The caller multiplies it by the importance of the page.
func (p *Pending) Gain() (g float64) {
	all := p.sum
	if n := len(p.front); n > 0 && all.at == nil {
		all = p.front[n-1]
	} else if n > 0 {
		all = join(p.front[n-1], all)
	}
	for _, x := range all.at {
		g += x
	}
	return g
}

// Monitored resets the sum: the page was monitored in the current instant.
func (p *Pending) Monitored() {
	p.sum, p.back, p.front = run{}, p.back[:0], p.front[:0]
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
	if c == 0 {
		return math.Inf(1)
	}
	h := gainHeap{gains: gains}
	for i, g := range gains {
		if g > 0 {
			h.offer(i, c)
		}
	}
	if len(h.pages) < c {
		return 0
	}
	return gains[h.pages[0]]
}

// gainHeap is a heap of the best pages so far, with the worst of them first.
type gainHeap struct {
	gains []float64
	pages []int
}

func (h *gainHeap) worse(a, b int) bool { return h.gains[a] < h.gains[b] }

func (h *gainHeap) offer(page, c int) {
	if len(h.pages) == c {
		if !h.worse(h.pages[0], page) {
			return
		}
		h.pages[0] = page
		h.down()
		return
	}
	h.pages = append(h.pages, page)
	for i := len(h.pages) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.worse(h.pages[i], h.pages[parent]) {
			return
		}
		h.pages[i], h.pages[parent] = h.pages[parent], h.pages[i]
		i = parent
	}
}

func (h *gainHeap) down() {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.pages); child++ {
			if h.worse(h.pages[child], h.pages[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.pages[i], h.pages[least] = h.pages[least], h.pages[i]
		i = least
	}
}
