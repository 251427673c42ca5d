package scheduler

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
)

// A sheet is the account of one slot: what was used, what runs, what is left.
// It applies the strict rule. With one execution at a time that is exactly: in
// order, a query starts when its estimate fits what is left; the first always
// starts, alone when its estimate exceeds the budget. With more, what is left
// is counted after what the running ones are expected to take.
type sheet struct {
	p        *planner
	width    int           // executions at a time, now
	serial   bool          // never more than one
	timeout  time.Duration // of one execution
	charged  time.Duration // used by trial runs before the slot began
	used     time.Duration // by finished executions, charges included
	front    time.Duration // of it, by refresh requests and new queries
	onHints  time.Duration // of it, by what hints put before its turn
	onClaims time.Duration // of it, by what intervals claimed
	runs     []*run
	debtor   *candidate
	begun    bool // something has started, whatever it took
	alone    bool // nothing else starts in this slot
}

// A run is an execution in progress.
type run struct {
	c       *candidate
	tier    string
	front   bool
	start   time.Time
	limit   time.Duration // what it may take of the budget
	open    bool          // its cost is not known, it may take all of its limit
	whole   bool          // its limit is the whole budget
	cut     bool          // told to stop because the budget is used up
	served  uint64
	need    *need // whose interval claimed it
	bounded bool  // by the share of intervals
	stop    func()
	took    atomic.Int64 // what it took, in nanoseconds from 1 once it is over
}

func newSheet(p *planner, width int, timeout, charged time.Duration) *sheet {
	charged = min(charged, p.budget)
	return &sheet{p: p, width: width, serial: width == 1, timeout: timeout, charged: charged, used: charged, debtor: p.debtor()}
}

// open says that the cost of a query is not known: it never completed, or was
// cut beyond its median.
func (c *candidate) open() bool { return c.Stats.Executions == 0 || c.Stats.Floor > c.Median }

func (r *run) elapsed(now time.Time) time.Duration { return max(0, now.Sub(r.start)) }

// reserve is what the run is expected to take at least, as things are now.
func (r *run) reserve(now time.Time) time.Duration {
	if r.open && r.c.Estimate > 0 {
		return max(r.limit, r.elapsed(now))
	}
	return max(r.c.Estimate, r.elapsed(now))
}

// left is what remains of the budget, and of the share of the front tiers,
// after what running executions have taken up to now.
func (s *sheet) left(now time.Time) (all, front time.Duration) {
	all, front = s.p.budget-s.used, s.p.share-s.front
	for _, r := range s.runs {
		all -= r.elapsed(now)
		if r.front {
			front -= r.elapsed(now)
		}
	}
	return all, min(front, all)
}

// room is what the estimate of another execution has to fit.
func (s *sheet) room(now time.Time) (ranked, front time.Duration) {
	ranked, front = s.p.budget-s.used, s.p.share-s.front
	var inFront time.Duration
	unknown := false
	for _, r := range s.runs {
		if !r.front {
			ranked -= r.reserve(now)
			continue
		}
		inFront += r.reserve(now)
		unknown = unknown || r.open
	}
	frontRoom := min(front-inFront, ranked-inFront)
	if unknown { // may take all that its tier has
		inFront = max(inFront, front)
	}
	return ranked - inFront, frontRoom
}

// next picks what starts now; nil when nothing may.
func (s *sheet) next(now time.Time) *run {
	if s.alone || len(s.runs) >= s.width {
		return nil
	}
	if c := s.debtor; c != nil {
		s.debtor = nil
		if c.in == &s.p.ranked {
			return s.first(c, now)
		}
	}
	ranked, front := s.room(now)
	least := time.Duration(0)
	if !s.serial {
		least = crumb
	}
	if front > least {
		for _, t := range s.p.front() {
			if c := t.fits(front); c != nil {
				_, left := s.left(now)
				return s.begin(c, now, left, true)
			}
		}
	}
	if ranked > least {
		if c := s.hinted(now, ranked); c != nil {
			return s.early(c, now, ranked)
		}
		if r := s.claimed(now, ranked, false); r != nil {
			return r
		}
	}
	if !s.begun && ranked > 0 {
		if c := s.p.ranked.first(); c != nil {
			return s.first(c, now)
		}
	}
	if ranked <= least {
		return nil
	}
	c := s.p.ranked.fits(ranked)
	if c == nil {
		return s.claimed(now, ranked, true)
	}
	left, _ := s.left(now)
	if c.open() {
		left = ranked // all that is not promised to others
	}
	return s.begin(c, now, left, false)
}

// early starts what a hint puts before its turn, as if it were its turn.
func (s *sheet) early(c *candidate, now time.Time, room time.Duration) *run {
	left, _ := s.left(now)
	if c.open() {
		left = room
	}
	r := s.begin(c, now, left, false)
	r.tier = TierHinted
	return r
}

// crumb is what is left to nobody where several run at a time: the shares of
// running executions are not told apart more finely.
const crumb = time.Millisecond

// first starts a query with all there is, alone when it may need more.
func (s *sheet) first(c *candidate, now time.Time) *run {
	left, _ := s.left(now)
	if left <= 0 {
		return nil
	}
	s.alone = c.Estimate > left
	r := s.begin(c, now, left, false)
	r.whole = left == s.p.budget
	return r
}

func (s *sheet) begin(c *candidate, now time.Time, limit time.Duration, front bool) *run {
	r := &run{
		c: c, tier: c.tier, front: front, start: now, limit: limit,
		open:   c.open(),
		served: c.Query.Refreshes,
	}
	s.p.pick(c)
	s.begun = true
	s.runs = append(s.runs, r)
	return r
}

// bound is the limit that the executor is given.
func (s *sheet) bound(r *run) time.Duration { return min(r.limit, s.timeout) }

// over lists the runs that have to be cut now because the budget, or the share
// of the front tiers, is used up. When there are none, wait is how long it
// takes at least until there are.
func (s *sheet) over(now time.Time) (cut []*run, wait time.Duration) {
	all, front := s.p.budget-s.used, s.p.share-s.front
	unpromised := all // to ranked ones that run
	var n, inFront, going, goingFront time.Duration
	for _, r := range s.runs {
		e := r.elapsed(now)
		all -= e
		n++
		if !r.cut {
			going++
		}
		if !r.front {
			unpromised -= r.reserve(now)
			continue
		}
		front -= e
		unpromised -= e
		inFront++
		if !r.cut {
			goingFront++
		}
	}
	front = min(front, unpromised)
	claimed, wait := s.overClaims(now)
	for _, r := range s.runs {
		if rest := r.limit - r.elapsed(now); !r.cut && rest <= 0 {
			cut = append(cut, r)
		} else if !r.cut {
			wait = min(wait, rest)
		}
	}
	switch {
	case going == 0:
		return nil, time.Hour
	case all < n:
		return s.going(false), 0
	case goingFront > 0 && front < inFront:
		return s.going(true), 0
	case len(cut) > 0:
		return cut, 0
	case len(claimed) > 0:
		return claimed, 0
	case goingFront > 0:
		wait = min(wait, front/inFront)
	}
	return nil, min(wait, all/n)
}

// going lists the runs that have not been told to stop, all or those in front.
func (s *sheet) going(front bool) (list []*run) {
	for _, r := range s.runs {
		if !r.cut && (r.front || !front) {
			list = append(list, r)
		}
	}
	return list
}

// finish books an answer and says what it amounts to under the budget: a run
// beyond its limit is cut, whatever it brought, and takes what was left.
// stopped says that the process is ending, which is nobody's fault.
func (s *sheet) finish(r *run, a Answer, stopped bool) (Answer, bool) {
	s.runs = slices.DeleteFunc(s.runs, func(o *run) bool { return o == r })
	a = s.verdict(r, a, stopped)
	left := s.p.budget - s.used
	if a.Outcome == registry.Cut {
		a.Elapsed = min(a.Elapsed, left)
		if s.serial && !stopped {
			a.Elapsed = min(r.limit, left)
		}
		r.c.short = !stopped && r.limit < s.p.budget
	}
	taken := min(a.Elapsed, left)
	s.used += taken
	if r.front {
		s.front += taken
	}
	if r.tier == TierHinted {
		s.onHints += taken
	}
	s.booked(r, taken)
	whole := a.Outcome == registry.Cut && r.whole && !stopped && a.Elapsed >= s.p.budget-s.p.budget/10
	return a, whole
}

// verdict tells the budget's limit from the endpoint's own: an execution that
// ends at the smaller of the two ended because of it.
func (s *sheet) verdict(r *run, a Answer, stopped bool) Answer {
	switch {
	case a.Outcome == registry.Cut:
		if !stopped && s.timeout < r.limit && a.Elapsed >= s.timeout-s.timeout/10 {
			a.Outcome, a.Error = registry.Timeout, "no complete answer within "+s.timeout.String()
		}
	case a.Outcome.Complete():
		if a.Elapsed > r.limit {
			a.Outcome = registry.Cut
		}
	case a.Outcome == registry.Timeout && r.limit <= s.timeout && a.Elapsed >= r.limit-r.limit/10,
		a.Elapsed >= r.limit:
		a.Outcome = registry.Cut
	}
	return a
}

// typical stands for an unknown cost where a plan is only counted.
const typical = 100 * time.Millisecond

// preview counts what the slot would execute if everything took its estimate.
func (s *sheet) preview() (n int, cost time.Duration) {
	left := s.p.budget - s.used
	add := func(c *candidate) {
		e := c.Estimate
		if e == 0 && c.Stats.Executions == 0 {
			e = typical
		}
		n++
		cost += e
		left -= e
	}
	if s.debtor != nil {
		add(s.debtor)
		if left <= 0 {
			return n, cost
		}
	}
	share := min(s.p.share, left)
	for _, t := range s.p.front() {
		t.take(share, func(c *candidate) time.Duration {
			before := left
			add(c)
			share -= before - left
			return share
		})
	}
	for _, c := range s.p.early() {
		add(c)
	}
	for _, c := range s.p.unexpected() {
		add(c)
	}
	first := s.p.ranked.first()
	if n == 0 && first != nil {
		add(first)
	} else {
		first = nil // looked at like all others
	}
	s.p.ranked.take(left, func(c *candidate) time.Duration {
		if c != first && c != s.debtor {
			add(c)
		}
		return left
	})
	return n, cost
}
