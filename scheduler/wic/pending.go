package wic

import (
	"cmp"
	"math"
	"slices"
)

// A Pending is what monitoring a page now would capture: the sum over the
// instants since its last monitoring.
type Pending struct {
	urgency Urgency
	life    Life
	reach   int
	sum     run   // of all instants, or of those in the queue's back
	back    []run // single instants, the oldest first
	front   []run // sums of old instants up to the youngest of them, the longest last
}

// A run sums up successive instants. at[q] is the worth of the changes in it that
// q later changes of the run followed, as of its last instant; follows[q] is the
// probability that there are q changes in it; decay is what urgency loses over it.
type run struct {
	at, follows []float64
	decay       float64
}

// NewPending is that of a page that was just monitored. The settings must be good.
func NewPending(u Urgency, l Life) *Pending {
	return &Pending{urgency: u, life: l, reach: reach(u, l)}
}

// Step goes on to the next instant, in which the page changes with probability pi.
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

// extend is Step where nothing is ever forgotten: the sum is changed in place.
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

// instant is the run of one.
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

// join appends run b to run a; nil is no instants.
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

// forget drops the oldest instant. When the front is used up, the back is turned
// into one: each instant is turned over once.
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

// Gain is the sum; the caller multiplies it by the importance of the page.
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

// Monitored starts again: the page was monitored in the current instant.
func (p *Pending) Monitored() {
	p.sum, p.back, p.front = run{}, p.back[:0], p.front[:0]
}

// tie is how much of a gain may be rounding: pages that are worth the same reach
// that by sums of different lengths, and must not be told apart by their last bits.
const tie = 1e-13

// Top lists the c pages with the largest gains, the largest first, ties by the
// smaller page. Pages without gain are left out. Gains that are at most a part in
// 10^13 below the largest one left are ties with that.
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

// least is the c-th largest gain, 0 where fewer pages have one.
func least(gains []float64, c int) float64 {
	if c == 0 {
		return math.Inf(1)
	}
	h := top{gains: gains}
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

// top is a heap of the best pages so far, the worst of them first.
type top struct {
	gains []float64
	pages []int
}

func (h *top) worse(a, b int) bool { return h.gains[a] < h.gains[b] }

func (h *top) offer(page, c int) {
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

func (h *top) down() {
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
