package plan

import "time"

// Cut lists the executions that have to be cut now and were not cut before, because
// the budget or a share of it is used up.
func (s *account) Cut(now time.Time) []*Execution {
	cut, _ := s.over(now)
	for _, r := range cut {
		r.cut = true
	}
	return cut
}

// Wait is the shortest time until running executions may have to be cut, or until the
// ledger has to record that they may exceed the budget. Outside the grid it ends when no
// execution may start any more.
func (s *account) Wait(now time.Time) time.Duration {
	if len(s.runs) == 0 && s.offGrid() {
		return max(0, s.until.Sub(now))
	}
	if len(s.runs) == 0 {
		return time.Hour
	}
	_, wait := s.over(now)
	if soon, ok := s.unlent(now); ok {
		wait = min(wait, soon)
	}
	return wait
}

// over lists the executions that have to be cut now because the budget or a share is
// used up. If there are none, wait is the shortest time until there can be one.
func (s *account) over(now time.Time) (cut []*Execution, wait time.Duration) {
	if s.credit > 0 {
		return s.overdrawn(now)
	}
	all, front := s.budget-s.used, s.share-s.front
	unpromised := all // less what running ranked queries are expected to take
	var n, inFront, going, goingFront time.Duration
	for _, r := range s.runs {
		e := r.Elapsed(now)
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
		if rest := r.limit - r.Elapsed(now); !r.cut && rest <= 0 {
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

// overdrawn is over for a slot with credit. The credit is for one execution, the one
// that has run longest: it may finish within its timeout. The others are cut when they
// and the finished executions use up the budget. All are cut when the credit is used
// up. Finished executions of the front tiers may have used part of it.
func (s *account) overdrawn(now time.Time) (cut []*Execution, wait time.Duration) {
	going, n := s.going(false), time.Duration(len(s.runs))
	if len(going) == 0 {
		return nil, time.Hour
	}
	all := s.reach(now)
	if all < n {
		return going, 0
	}
	wait = all / n
	for _, r := range going {
		rest := r.limit - r.Elapsed(now)
		if rest <= 0 {
			cut = append(cut, r)
		}
		wait = min(wait, rest)
	}
	if len(cut) > 0 {
		return cut, 0
	}
	others := going[1:]
	if len(others) == 0 {
		return nil, wait
	}
	left := s.budget + max(0, s.front-s.share) - s.used
	for _, r := range s.runs {
		if r != going[0] {
			left -= r.Elapsed(now)
		}
	}
	if left < n {
		return others, 0
	}
	return nil, min(wait, left/n)
}

// unlent is the shortest time until executions come near the end of the budget. ok is
// false if the ledger need not record that they may exceed it.
func (s *account) unlent(now time.Time) (wait time.Duration, ok bool) {
	if s.credit == 0 || s.lent {
		return 0, false
	}
	left := s.reach(now) - s.credit - min(s.budget/4, lendAhead)
	return max(0, left/time.Duration(max(1, len(s.runs)))), true
}

// LendsNow reports whether executions are about to exceed the budget. The ledger has
// to record that first.
func (s *account) LendsNow(now time.Time) bool {
	soon, ok := s.unlent(now)
	return ok && soon <= 0
}

// Lend notes that the ledger has recorded that executions may exceed the budget.
func (s *account) Lend() { s.lent = true }

// Lent reports whether Lend was called.
func (s *account) Lent() bool { return s.lent }

// lendAhead is the longest time before the end of the budget at which the ledger is
// written.
const lendAhead = time.Second

// Lendable is what running executions may still add to the debt.
func (s *account) Lendable() time.Duration { return s.credit - s.excess() }

// Left is what running executions may take together, including their elapsed time: the
// rest of the budget, and the credit if the ledger has recorded it.
func (s *account) Left() time.Duration {
	if s.lent {
		return s.budget + s.credit - s.used
	}
	return s.budget - s.used
}

// going lists the executions that were not told to stop, all or only those of the
// front tiers.
func (s *account) going(front bool) (list []*Execution) {
	for _, r := range s.runs {
		if !r.cut && (r.front || !front) {
			list = append(list, r)
		}
	}
	return list
}

// overClaims lists the claimed executions that have to be cut because rivals wait and
// the share of claims is used up. If there are none, wait is the shortest time until
// there can be one. A serial slot needs no such check: the limit of its execution is
// enough.
func (s *account) overClaims(now time.Time) (cut []*Execution, wait time.Duration) {
	wait = time.Hour
	if s.serial || s.claims.ranking == nil {
		return nil, wait
	}
	left := time.Duration(float64(s.budget)*s.claims.share) - s.onClaims
	for _, r := range s.runs {
		if r.bounded {
			left -= r.Elapsed(now)
			if !r.cut {
				cut = append(cut, r)
			}
		}
	}
	n := time.Duration(len(cut))
	switch {
	case n == 0:
		return nil, wait
	case left < n:
		return cut, 0
	}
	return nil, left / n
}
