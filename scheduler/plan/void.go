package plan

// This file asks again, in the same slot, for what a void request had asked for: a merged request whose
// answer says nothing about its members.

import (
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/cohort"
)

// hopeless is the number of void requests after which a search without a good one asks the rest of its
// queries alone.
const hopeless = 7

// A search asks for the members of a void request in halves, and for those of a pair alone. It finds out
// whether the number of members, one of them or the kind of request was the reason.
type search struct {
	cohort  *cohortOf
	kind    cohort.Kind
	undo    func() // takes back what the first failure has taught about the number of members
	groups  [][]*item
	running int
	void    int           // requests
	took    time.Duration // void ones
	least   int           // members of the smallest void request
	largest int           // members of the largest good one
	pairs   [][]*item     // void requests that were not halved
	over    bool
}

// A VoidAsk describes a void request of a query.
type VoidAsk struct {
	Slot    uint64
	Members int
	Why     string
}

// Void returns the members of a merged request whose answer says nothing about them, for a reason. They
// are asked again in this slot if the budget allows it, and else in the next one. blame says that the
// request itself may be the reason.
func (s *SlotBudget) Void(r *Execution, blame bool, why string, took time.Duration) {
	void := &VoidAsk{Slot: s.p.slot, Members: len(r.riders) + 1, Why: why}
	members := make([]*item, 0, void.Members)
	for _, x := range r.Members() {
		s.giveBack(x)
		if x.c.member != nil {
			x.c.member.void = void
			members = append(members, x.c)
		}
	}
	k := r.search
	switch {
	case k != nil:
		k.running--
	case !blame || r.c.member == nil:
		return
	default:
		k = &search{cohort: r.c.cohort, kind: r.kind, least: void.Members, undo: r.c.cohort.Failed(r.kind, void.Members)}
		s.p.learnt(k.cohort, false)
		if s.offGrid() || r.again { // nothing else of them starts
			r.c.member.failed = true
			s.recheck(r.c, checkAlone)
			return
		}
		s.searches = append(s.searches, k)
	}
	if r.search != nil && r.c.member != nil {
		k.cohort.Voided(k.kind, void.Members)
	}
	if blame {
		k.split(members, took, s.budget)
	}
	k.conclude(s)
}

// split divides the members of a void request into the groups that are asked next.
func (k *search) split(members []*item, took, budget time.Duration) {
	k.void++
	k.took += took
	k.least = min(k.least, len(members))
	if len(members) == 2 {
		k.pairs = append(k.pairs, members)
	}
	half := len(members) / 2
	k.groups = append(k.groups, members[:half], members[half:])
	if k.largest == 0 && (k.void >= hopeless || k.took > budget/hopeless) {
		var alone [][]*item
		for _, g := range k.groups {
			for i := range g {
				alone = append(alone, g[i:i+1])
			}
		}
		k.groups = alone
	}
}

// searching reports whether groups of void requests are still to be asked.
func searching(searches []*search) bool {
	return slices.ContainsFunc(searches, func(k *search) bool { return len(k.groups) > 0 })
}

// startSearch starts the next group of a search that fits. While other queries wait, searches have a part
// of the budget.
func (s *SlotBudget) startSearch(now time.Time, room time.Duration) *Execution {
	if s.p.ranked.n > 0 {
		room = min(room, s.budget/checkShare-s.onChecks)
	}
	for _, k := range s.searches {
		for len(k.groups) > 0 {
			g := slices.DeleteFunc(slices.Clone(k.groups[0]), func(c *item) bool {
				return !c.planned || c.cohort != k.cohort || c.member.asked || c.in != nil
			})
			if len(g) > 0 && k.cost(g) > room {
				break
			}
			if k.groups = k.groups[1:]; len(g) > 0 {
				return k.start(s, g, now)
			}
		}
		k.conclude(s)
	}
	return nil
}

// cost is the expected time of a request for a group.
func (k *search) cost(g []*item) time.Duration {
	if len(g) == 1 {
		return g[0].Estimate
	}
	f := fitting{kind: k.kind}
	f.a, f.b, f.c = k.cohort.Costs(k.kind)
	for _, c := range g {
		f.n, f.rows = f.n+1, f.rows+c.rows()
	}
	return f.time()
}

// start starts a request for a group, or for its first part.
func (k *search) start(s *SlotBudget, g []*item, now time.Time) *Execution {
	left, _ := s.left(now)
	r := s.begin(g[0], now, left, false)
	r.tier, r.checks, r.search = TierRanked, true, k
	k.running++
	f := s.fit(r, k.kind, now)
	n := 0
	for n < len(g) {
		if f.add(g[n]); f.full {
			break
		}
		n++
	}
	n = max(n, 1)
	if n < len(g) {
		k.groups = slices.Insert(k.groups, 0, g[n:])
	}
	if n > 1 {
		s.board(r, g[1:n], &f)
	} else {
		r.c.member.failed = true
	}
	return r
}

// ended notes that a request of a search has ended, and whether it was a good merged one.
func (k *search) ended(s *SlotBudget, r *Execution, good bool) {
	if k.running--; good {
		k.largest = max(k.largest, len(r.riders)+1)
	}
	k.conclude(s)
}

// conclude draws the conclusions of a search that has ended.
func (k *search) conclude(s *SlotBudget) {
	if k.over || k.running > 0 || len(k.groups) > 0 {
		return
	}
	k.over = true
	switch {
	case k.largest == 0: // merging itself, or the endpoint
		k.cohort.Shrink(k.kind, k.least)
	case k.largest < k.least: // the number of members
		k.cohort.Shrink(k.kind, 2*k.largest)
	default:
		k.undo()
		s.spoilers = append(s.spoilers, accuse(k.pairs)...)
	}
	s.p.learnt(k.cohort, false)
}

// accuse suspects the members of void pairs. One that was in two of them, with other members, spoils
// requests: it is asked alone from now on. accuse returns the ids of those queries.
func accuse(pairs [][]*item) (spoilers []string) {
	for _, c := range slices.Concat(pairs...) {
		m := c.member
		if m == nil {
			continue
		}
		if m.suspected++; m.suspected > 1 && !m.spoils {
			m.spoils = true
			spoilers = append(spoilers, c.Query.ID)
		}
	}
	return spoilers
}

// Spoilers are the queries that were found to spoil merged requests in this slot.
func (s *SlotBudget) Spoilers() []string { return s.spoilers }
