package plan

import "time"

// MayStart reports whether Next could start an execution. It is false when nothing
// waits or the budget is used up.
func (s *SlotBudget) MayStart() bool {
	if s.offGrid() {
		return len(s.runs) < s.width && s.offGridHas() && !s.spent()
	}
	return !s.alone && len(s.runs) < s.width && (s.p.waiting() > 0 || s.p.anyHinted() || s.p.claims.anyClaimed() ||
		s.p.anyChecks() || searching(s.searches)) && !s.spent()
}

// Next starts the next execution, which may bring others along, see Riders. It returns
// nil if none may start now.
func (s *SlotBudget) Next(now time.Time) *Execution {
	r := s.next(now)
	if r != nil {
		s.ride(r, now)
	}
	return r
}

func (s *SlotBudget) next(now time.Time) *Execution {
	if s.alone || len(s.runs) >= s.width {
		return nil
	}
	if s.offGrid() {
		return s.nextOffGrid(now)
	}
	if c := s.opener; c != nil {
		s.opener = nil
		if c.in == &s.p.ranked {
			return s.startFirst(c, now)
		}
	}
	if !s.p.rule.fits() {
		return s.startAny(now)
	}
	o := s.opening(now)
	ranked := o.ranked
	if o.grants(o.front) {
		for _, t := range s.p.front() {
			if c := t.fits(o.front); c != nil {
				_, left := s.left(now)
				return s.begin(c, now, left, true)
			}
		}
	}
	if o.grants(ranked) {
		if r := s.startSearch(now, ranked); r != nil {
			return r
		}
		if r := s.startCheck(now, ranked); r != nil {
			return r
		}
		if c := s.nextHinted(now, ranked); c != nil {
			return s.startHinted(c, now, ranked)
		}
		if r := s.startClaimed(now, ranked, false); r != nil {
			return r
		}
	}
	if !s.begun && ranked > 0 {
		if c := s.p.ranked.first(); c != nil && leads(s.owes, c.Estimate, ranked) {
			return s.startFirst(c, now)
		}
	}
	if !o.grants(ranked) {
		return nil
	}
	c := s.p.ranked.fits(ranked)
	if c == nil {
		return s.startClaimed(now, ranked, true)
	}
	left, _ := s.left(now)
	if c.open() {
		left = ranked // what is not reserved for others
	}
	return s.begin(c, now, left, false)
}

// startFirst starts a query with the rest of the budget, alone if it may need more.
func (s *SlotBudget) startFirst(c *item, now time.Time) *Execution {
	left, _ := s.left(now)
	if left <= 0 {
		return nil
	}
	s.alone = c.Estimate > left
	r := s.begin(c, now, left, false)
	r.whole = s.credit == 0 && left == s.p.budget
	return r
}

// startAny starts the first query in order while any budget is left.
func (s *SlotBudget) startAny(now time.Time) *Execution {
	c, left := s.p.ranked.first(), s.budget-s.used
	if c == nil || left <= 0 {
		return nil
	}
	return s.begin(c, now, left, false)
}

// startClaimed starts the next claimed query. While rivals wait, it has to fit the
// rest of the share of claims. Otherwise, or if last says that no rival fits, it has
// to fit room.
func (s *SlotBudget) startClaimed(now time.Time, room time.Duration, last bool) *Execution {
	p := s.p
	if p.claims.ranking == nil {
		return nil
	}
	if p.rounds.Stale() {
		p.claims.rankClaims()
	}
	limit, bounded := room, !last && p.claims.rivals()
	if bounded {
		limit = min(limit, s.claimShare(now))
	}
	for _, x := range p.claims.order {
		if limit > 0 && p.claims.claimable(x.c) && x.c.Estimate <= limit && x.Affords(x.c.Estimate) {
			return s.startClaim(x, now, limit, bounded)
		}
	}
	return nil
}

// claimShare is the rest of the share of claims.
func (s *account) claimShare(now time.Time) time.Duration {
	left := time.Duration(float64(s.budget)*s.claims.share) - s.onClaims
	for _, r := range s.runs {
		if r.tier == TierInterval {
			left -= r.reserve(now)
		}
	}
	return left
}

// startClaim starts a claimed query within limit and within the rest of its profile's
// budget.
func (s *SlotBudget) startClaim(x claim, now time.Time, limit time.Duration, bounded bool) *Execution {
	left, _ := s.left(now)
	own, hasOwn := x.Left()
	if hasOwn {
		limit = min(limit, own)
	}
	r := s.begin(x.c, now, min(left, limit), false)
	if hasOwn {
		r.limit = min(r.limit, own)
	}
	r.tier, r.claim = TierInterval, x.Claim
	r.bounded = bounded
	return r
}

// LeastGrant is the smallest budget with which executions outside the grid begin, unless
// less is left.
const LeastGrant = 10 * minShare
