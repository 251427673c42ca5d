package plan

// This file finds the riders of an execution: members of its cohort that join its request.

import (
	"iter"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/cohort"
)

const (
	defaultRows = 5000
	maxText     = 48 << 10 // bytes of the arguments of a request
	// lookPast bounds how many unsuitable members are passed over for each rider, and
	// lookAhead how many queries are looked at for one request.
	lookPast  = 4
	lookAhead = 4096
	// A request that takes longer than worthwhileTimes as long as asking each member
	// alone, and a second, is given up. Some endpoints plan merged queries so badly that
	// a trial would otherwise take the whole timeout.
	worthwhileTimes = 4
)

// ride adds other members of its cohort to an execution that has begun. They take at
// most half of the time that is left for others. What a hint has marked is likely to have
// changed, so it is not asked for digests.
func (s *SlotBudget) ride(r *Execution, now time.Time) {
	c := r.c
	if r.search != nil || s.merging.Mode == "" || s.merging.Mode == registry.MergeOff || s.alone || !s.p.rule.fits() || !c.mergeable() {
		return
	}
	hinted := r.tier == TierHinted
	if r.tier != TierRanked && !hinted {
		return
	}
	m := c.member
	kind, most := m.again, lookPast
	if !r.again {
		if !s.pays(c) {
			return
		}
		kind, most = c.cohort.Next(now, s.merging.Mode, s.without(c, hinted)...)
	}
	if kind == cohort.Single || most < 2 {
		return
	}
	f := s.fit(r, kind, now)
	if f.add(c); f.full {
		return
	}
	riders := s.riders(r, &f, most-1)
	if len(riders) == 0 {
		return
	}
	s.board(r, riders, &f)
}

// board makes riders members of an execution.
func (s *SlotBudget) board(r *Execution, riders []*item, f *fitting) {
	r.kind, r.expected = f.kind, max(r.expected, f.time())
	r.limit = min(r.limit, f.worthwhile())
	list := make([]Execution, len(riders))
	r.riders = make([]*Execution, len(riders))
	for i, o := range riders {
		list[i] = Execution{c: o, tier: r.tier, front: r.front, start: r.start, served: o.asked, marked: s.p.hints.has(o), cause: s.p.cause(o)}
		s.p.pick(o)
		r.riders[i] = &list[i]
	}
}

// without lists the kinds that a query cannot be asked by, first in a request.
func (s *SlotBudget) without(c *item, hinted bool) (list []cohort.Kind) {
	if hinted || !c.provable() {
		list = append(list, cohort.Probe)
	}
	if c.rows()+c.cohort.MeanRows() > s.merging.rows() { // no other member fits
		list = append(list, cohort.Values)
	}
	return list
}

// riders returns the members that join the execution: those that hints have marked, and those that start next in the policy's order.
func (s *SlotBudget) riders(r *Execution, f *fitting, most int) (out []*item) {
	passes := lookPast*most + lookPast
	join := func(o *item) (more bool) {
		passes--
		if o != r.c && s.joins(o, r) && (!f.suspect || o.member.suspected == 0) && (f.kind != cohort.Probe || o.provable()) {
			if f.add(o); !f.full {
				o.member.asked = true
				out = append(out, o)
			}
		}
		return len(out) < most && passes > 0 && !f.full
	}
	for o := range s.companions(r) {
		if !join(o) {
			return out
		}
	}
	for o := range s.ahead {
		if o.cohort == r.c.cohort && !join(o) {
			break
		}
	}
	return out
}

// ahead visits the ranked queries that start soon: within a budget, if each takes the time
// that it adds to a merged request.
func (s *SlotBudget) ahead(yield func(*item) bool) {
	cost, n := time.Duration(0), 0
	for o := range s.p.ranked.all {
		if n++; cost >= s.used+s.p.budget || n > lookAhead || !yield(o) {
			return
		}
		each := o.Estimate
		if k := o.cohort; k != nil && s.pays(o) {
			each = k.Marginal(k.MeanRows())
			if o.Estimate > 0 {
				each = min(o.Estimate, each+time.Duration(o.chance()*float64(o.Estimate)))
			}
		}
		cost += each
	}
}

// pays reports whether a query is worth a merged request: its result has probably not
// changed. Else it would be asked twice, or once and in the next slot again, where another
// change may be missed meanwhile. Only auto chooses.
func (s *SlotBudget) pays(c *item) bool {
	return s.merging.Mode != registry.MergeAuto || c.chance() < 0.5
}

// companions are members of the execution's cohort that join it although the policy may
// have them start later. The second look of an audit shows nothing without others.
func (s *SlotBudget) companions(r *Execution) iter.Seq[*item] {
	k := r.c.cohort
	return func(yield func(*item) bool) {
		var lists [2][]*item
		if r.tier == TierHinted {
			lists[0] = s.p.hints.order
		}
		if r.again {
			lists[1] = slices.Concat(k.members[r.c.member.at:], k.members[:r.c.member.at])
		}
		for _, list := range lists {
			for _, o := range list {
				if o.cohort == k && !yield(o) {
					return
				}
			}
		}
	}
}

// joins reports whether a query may start now with the execution.
func (s *SlotBudget) joins(o *item, r *Execution) bool {
	m := o.member
	switch {
	case m.asked || !o.mergeable():
		return false
	case !r.again && !s.pays(o):
		return false
	case m.check == checkAgain && r.again && m.again == r.c.member.again: // its second look, too
	case m.check != unchecked:
		return false
	}
	return o.in == &s.p.ranked && o.tier == TierRanked || (r.again || s.p.hints.has(o)) && o.in == nil && !o.ran && o.why == notDue
}

// A fitting adds up what the members of a request need.
type fitting struct {
	kind       cohort.Kind
	a, b, c    float64 // see cohort.Cohort.Costs
	n, rows    int
	text       int
	maxSeconds float64
	maxRows    int
	alone      float64       // seconds of asking alone for those that have changed
	one        time.Duration // of asking one alone, in the mean of the cohort
	single     time.Duration // of asking each alone
	suspect    bool          // a member may spoil the request
	full       bool          // the last member does not fit
}

func (s *SlotBudget) fit(r *Execution, kind cohort.Kind, now time.Time) fitting {
	rest, _ := s.room(now)
	rest /= 2
	if r.tier == TierHinted {
		rest = min(rest, s.budget/(2*hintShare))
	}
	f := fitting{kind: kind, maxRows: s.merging.rows(), maxSeconds: min(r.expected+max(0, rest), s.Limit(r)/2, s.timeout/4).Seconds()}
	f.a, f.b, f.c = r.c.cohort.Costs(kind)
	f.one = r.c.cohort.Alone()
	return f
}

// add adds a member if it fits.
func (f *fitting) add(c *item) {
	n, rows, text := f.n+1, f.rows+c.rows(), f.text+c.member.text
	answer := rows
	if f.kind == cohort.Probe {
		answer = n
	}
	alone := f.alone + c.chance()*c.Estimate.Seconds()
	seconds := f.a + f.b*float64(n) + f.c*float64(rows) + alone
	if f.full = n > 1 && seconds > f.maxSeconds || answer > f.maxRows || text > maxText; !f.full {
		f.n, f.rows, f.text, f.alone = n, rows, text, alone
		f.suspect = f.suspect || c.member.suspected > 0
		f.single += max(c.Estimate, f.one) // the estimate may be the share of merged requests
	}
}

// time is the expected time of the request.
func (f *fitting) time() time.Duration {
	return time.Duration((f.a + f.b*float64(f.n) + f.c*float64(f.rows)) * float64(time.Second))
}

// worthwhile is the longest that the request may take.
func (f *fitting) worthwhile() time.Duration { return worthwhileTimes*f.single + time.Second }
