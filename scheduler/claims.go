package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// claims are what the open intervals of profiles ask of a slot. Their order is
// that of the endpoint's policy at the beginning of the slot, and is made anew
// when a change opens a round within it. They go before ranked queries, in at
// most their share of the budget while others wait, and leave out whoever is
// paused, backs off, waits for its min_interval or has never completed: that is
// the business of other tiers. A query that its second policy does not have due
// runs all the same.
type claims struct {
	ranking *interval.Ranking // nil: the policy does not look at intervals
	share   float64           // of the budget
	order   []claim
}

// A claim is an interval that puts its query where it is.
type claim struct {
	c    *candidate
	need *need
}

// claimFor puts a policy for intervals in force, or none.
func (p *planner) claimFor(ranking *interval.Ranking, share float64) {
	p.claims.ranking, p.claims.share = ranking, share
}

// openRounds brings the profiles up to the slot that begins: what is over, what
// opens by time or by prediction, and who goes first.
func (p *planner) openRounds(now time.Time) {
	p.claims.order = p.claims.order[:0]
	n := p.needs
	if n == nil {
		return
	}
	for k := range n.spent {
		k.used = 0
	}
	clear(n.spent)
	for _, k := range n.timed {
		times, this := k.openings(now, p.slot)
		for _, t := range times {
			n.settle(n.open(k, t, p.slot, registry.Cause{}, nobody, p.latest), now, p.slot)
		}
		if this {
			n.settle(n.open(k, now, p.slot, registry.Cause{}, nobody, p.latest), now, p.slot)
		}
		k.at, k.slot = now, p.slot
		p.expect(k, now)
	}
	n.expire(now, p.slot)
	p.claim()
}

func nobody(int) bool { return false }

// expect begins the intervals of predicted items whose slot has come.
func (p *planner) expect(k *need, now time.Time) {
	var fired []bool
	for i, item := range k.Items {
		c := p.all[item.Query]
		if kindOf(item.When) != predicted || c == nil {
			continue
		}
		if p.foreseen(k, i, c, now) {
			if fired == nil {
				fired = make([]bool, len(k.Items))
			}
			fired[i], k.fired[i], k.since[i] = true, p.slot, now
		}
	}
	if fired != nil {
		p.needs.fire(k, fired, now, p.slot, registry.Cause{}, p.latest, nil)
	}
}

// latest is the last complete execution of a query, if nothing came after it.
func (p *planner) latest(query string) (ranAt, bool) {
	c := p.all[query]
	if c == nil || !c.Stats.LastRun.Outcome.Complete() {
		return ranAt{}, false
	}
	r := c.Stats.LastRun
	return ranAt{start: r.At.Add(-r.Elapsed), end: r.At, slot: r.Slot, tier: r.Why}, true
}

// claim ranks what the open intervals ask for now.
func (p *planner) claim() {
	p.needs.opened = false
	p.claims.order = p.claims.order[:0]
	if p.claims.ranking == nil {
		return
	}
	open := p.needs.all()
	agenda := interval.NewAgenda[string](*p.claims.ranking)
	agenda.Advance(p.slot)
	for i, r := range open {
		// What is malformed or over asks for nothing; expire ends it.
		_ = agenda.Resume(p.progress(uint64(i+1), r))
	}
	for x := range agenda.Order() {
		if c := p.all[x.Resource]; c != nil {
			p.claims.order = append(p.claims.order, claim{c, open[x.CEI-1].need})
		}
	}
}

// all lists the open rounds in the order in which they were opened.
func (n *tracker) all() (list []*round) {
	for k := range n.busy {
		list = append(list, k.rounds...)
	}
	slices.SortFunc(list, byOpening)
	return list
}

func byOpening(a, b *round) int {
	return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.Number, b.Number))
}

// progress writes a round in slots. An interval that has not begun counts as one
// that begins in the next slot, with its full length.
func (p *planner) progress(id uint64, r *round) interval.Progress[string] {
	x := interval.Progress[string]{CEI: interval.CEI[string]{ID: id, Profile: r.Profile, Weight: r.need.Weight,
		EIs: make([]interval.EI[string], len(r.Intervals))}, Captured: make([]uint64, len(r.Intervals))}
	for i := range r.Intervals {
		v := &r.Intervals[i]
		e := &x.EIs[i]
		e.Resource, e.Start, e.Finish = v.Query, p.slot, p.slot
		switch {
		case v.Done != nil:
			x.Captured[i] = max(v.Done.Slot, 1)
		case !v.HasBounds():
			e.Start = p.slot + 1
			e.Finish = e.Start + p.ahead(r.need.IntervalLength(i))
		case v.Last > 0:
			e.Start, e.Finish = max(v.First, 1), max(v.Last, v.First, 1)
		default:
			if v.From.After(p.now) {
				e.Start += 1 + p.ahead(registry.Span{Time: v.From.Sub(p.now) - 1})
			}
			e.Finish = max(e.Start, p.slot+p.ahead(registry.Span{Time: v.Until.Sub(p.now)}))
		}
	}
	return x
}

// ahead is how many slots follow within a span.
func (p *planner) ahead(s registry.Span) uint64 {
	if s.Slots > 0 || s.Time <= 0 {
		return s.Slots
	}
	lead := p.lead
	if lead <= 0 {
		lead = usualLead
	}
	return uint64(s.Time / lead)
}

// usualLead stands for the distance of slots where there is no grid.
const usualLead = time.Minute

// claimable says whether an interval may let a query run now.
func (p *planner) claimable(c *candidate) bool {
	return !c.ran && (c.in == &p.ranked && c.tier == TierRanked || c.in == nil && c.why == notDue)
}

// claimed says whether an interval still brings a query into the slot that would
// not be in it otherwise.
func (p *planner) claimed() bool {
	return slices.ContainsFunc(p.claims.order, func(x claim) bool { return x.c.in == nil && p.claimable(x.c) && x.affords(x.c.Estimate) })
}

// affords says whether the profile's own budget has room for an execution.
func (x claim) affords(cost time.Duration) bool {
	b := time.Duration(x.need.Budget)
	return b == 0 || x.need.used+max(cost, 1) <= b
}

// claimedEarly lists those that would not run without an interval, and fit their
// share: their policy does not have them due yet.
func (p *planner) claimedEarly() (list []*candidate) {
	left := p.budget
	if p.rivals() {
		left = time.Duration(float64(p.budget) * p.claims.share)
	}
	for _, x := range p.claims.order {
		if x.c.in == nil && p.claimable(x.c) && x.c.Estimate <= left {
			left -= x.c.Estimate
			list = append(list, x.c)
		}
	}
	return list
}

// rivals says whether queries wait that no interval claims.
func (p *planner) rivals() bool {
	n := p.ranked.len()
	for _, x := range p.claims.order {
		if n == 0 || n > len(p.claims.order) {
			break
		}
		if x.c.in == &p.ranked {
			n--
		}
	}
	return n > 0
}

// claimed starts the next query that an interval puts before its turn. It may
// take what is left of the share while rivals wait, and all there is when none
// does, or, last, none that fits.
func (s *sheet) claimed(now time.Time, room time.Duration, last bool) *run {
	p := s.p
	if p.needs == nil || p.claims.ranking == nil {
		return nil
	}
	if p.needs.opened {
		p.claim()
	}
	limit, bounded := room, !last && p.rivals()
	if bounded {
		limit = min(limit, s.claimShare(now))
	}
	for _, x := range p.claims.order {
		if limit > 0 && p.claimable(x.c) && x.c.Estimate <= limit && x.affords(x.c.Estimate) {
			return s.claim(x, now, limit, bounded)
		}
	}
	return nil
}

// claimShare is what is left of the share of intervals.
func (s *sheet) claimShare(now time.Time) time.Duration {
	left := time.Duration(float64(s.budget)*s.p.claims.share) - s.onClaims
	for _, r := range s.runs {
		if r.tier == TierInterval {
			left -= r.reserve(now)
		}
	}
	return left
}

// claim starts what an interval claims. Its limit bounds what it takes, and the
// budget of its profile does.
func (s *sheet) claim(x claim, now time.Time, limit time.Duration, bounded bool) *run {
	left, _ := s.left(now)
	own := time.Duration(x.need.Budget) - x.need.used
	if x.need.Budget > 0 {
		limit = min(limit, own)
	}
	r := s.begin(x.c, now, min(left, limit), false)
	if x.need.Budget > 0 {
		r.limit = min(r.limit, own)
	}
	r.tier, r.need = TierInterval, x.need
	r.bounded = bounded
	return r
}

// overClaims lists the executions that intervals claimed and that have to be cut,
// because rivals wait and together they use up the share; else wait is how long
// it takes at least until then. Where one runs at a time its own limit says so.
func (s *sheet) overClaims(now time.Time) (cut []*run, wait time.Duration) {
	wait = time.Hour
	if s.serial || s.p.claims.ranking == nil {
		return nil, wait
	}
	left := time.Duration(float64(s.budget)*s.p.claims.share) - s.onClaims
	for _, r := range s.runs {
		if r.bounded {
			left -= r.elapsed(now)
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

// booked charges what an execution took that an interval claimed.
func (s *sheet) booked(r *run, taken time.Duration) {
	if r.tier == TierInterval {
		s.onClaims += taken
		r.need.used += taken
		s.p.needs.spent[r.need] = true
	}
}

// closeRounds notes at the end of a slot why what intervals want did not run.
func (p *planner) closeRounds(now time.Time, stopped string) {
	if p.needs == nil {
		return
	}
	for k := range p.needs.busy {
		for _, r := range k.rounds {
			for i := range r.Intervals {
				x := &r.Intervals[i]
				if x.Done == nil && x.HasBounds() && !x.From.After(now) && x.First <= p.slot {
					r.why[i] = p.missed(x.Query, stopped)
				}
			}
		}
	}
	p.needs.expire(now, p.slot+1)
}

// missed tells why a query did not capture an interval in this slot.
func (p *planner) missed(query, stopped string) string {
	c := p.all[query]
	switch {
	case c == nil:
		return "nobody watches it any more"
	case stopped != "":
		return "nothing could run: " + stopped
	case c.ran && !c.Stats.LastRun.Outcome.Complete():
		return "it was executed, and ended as " + string(c.Stats.LastRun.Outcome)
	case c.ran:
		return "its execution in that slot was not inside the interval"
	}
	switch c.why {
	case paused:
		return "it was paused"
	case inactive:
		return "no holder wanted executions"
	case backingOff:
		return "it backed off after failures"
	case cutOut:
		return "it had used up whole budgets, and was left out"
	case tooSoon:
		return "its min_interval had not passed"
	case notDue:
		if p.claims.ranking == nil {
			return p.name + " did not have it due, and does not look at intervals"
		}
	}
	if p.claims.ranking == nil {
		return "the budget was used up before its turn; " + p.name + " does not look at intervals"
	}
	return "the budget was used up before its turn"
}

func tidyTimes(times []time.Time) []time.Time {
	slices.SortFunc(times, time.Time.Compare)
	return slices.CompactFunc(times, time.Time.Equal)
}
