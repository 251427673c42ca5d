package plan

import (
	"time"

	"github.com/freshet/freshet/registry"
)

// A window looks ahead in an order and finds, for each cohort, the members that start
// soon: within a budget beyond what the slot has used, if each takes the time that it
// adds to a merged request. It looks no further than is needed.
type window struct {
	s      *SlotBudget
	list   *order
	number uint64 // no other window has it
	merged int    // list.merged when the window began
	next   int    // place of the next entry
	cost   time.Duration
	looked int // queries before next
}

// What a window looks at is bounded, so that riders do not cost more than they save: by
// lookFirst entries, and lookMore for each execution of the slot.
const (
	lookFirst = 512
	lookMore  = 2
)

// ahead returns the window of the ranked queries.
func (s *SlotBudget) ahead() *window {
	w, list := &s.window, &s.p.ranked
	if w.s == nil || w.merged != list.merged {
		s.p.windows++
		*w = window{s: s, list: list, number: s.p.windows, merged: list.merged, next: list.from}
	}
	return w
}

// queue returns the members of a cohort that the window has found.
func (w *window) queue(k *cohortOf) *queue {
	if q := &k.ahead; q.window != w.number {
		*q = queue{window: w.number, each: k.Marginal(k.MeanRows()), list: q.list[:0]}
	}
	return &k.ahead
}

// each calls join for the members of a cohort, in order, until it returns false. Members
// that have started leave the queue.
func (w *window) each(k *cohortOf, join func(*item) (more bool)) {
	q, kept, more := w.queue(k), 0, true
	for i := 0; ; i++ {
		if more && i == len(q.list) {
			w.extend(q)
		}
		if i == len(q.list) {
			break
		}
		c := q.list[i]
		if c.in != w.list {
			continue
		}
		q.list[kept] = c
		kept++
		if more {
			more = join(c)
		}
	}
	clear(q.list[kept:])
	q.list = q.list[:kept]
}

// extend looks further until it finds a member for the queue or reaches the end of the
// window.
func (w *window) extend(q *queue) {
	end, n := w.s.used+w.s.p.budget, len(q.list)
	most := lookFirst + lookMore*len(w.s.p.ran)
	for len(q.list) == n && w.cost < end && w.looked < most {
		e := w.list.at(w.next)
		if e == nil {
			return
		}
		if w.next++; e.c.in == w.list {
			w.looked++
			w.cost += w.add(e.c)
		}
	}
}

// add adds an item to the queue of its cohort and returns the time that it is expected to
// take.
func (w *window) add(c *item) time.Duration {
	k := c.cohort
	if k == nil || !w.s.pays(c) {
		return c.Estimate
	}
	q := w.queue(k)
	q.list = append(q.list, c)
	if c.Estimate == 0 {
		return q.each
	}
	return min(c.Estimate, q.each+time.Duration(c.chance()*float64(c.Estimate)))
}

// pays reports whether a query is worth a merged request: its result has probably not
// changed. Else it would be asked twice, or once and in the next slot again, where another
// change may be missed meanwhile. Only auto chooses.
func (s *SlotBudget) pays(c *item) bool {
	return s.merging.Mode != registry.MergeAuto || c.chance() < 0.5
}
