package rounds

import (
	"time"

	"github.com/freshet/freshet/registry"
)

// BeginSlot opens the rounds that time or a prediction opens, and ends those that
// are over. lead is the time from this grid time to the next, 0 without a grid.
func (t *Tracker) BeginSlot(slot uint64, now time.Time, lead time.Duration) {
	t.slot, t.now, t.lead = slot, now.Round(0), lead
	for p := range t.charged {
		p.used = 0
	}
	clear(t.charged)
	for _, p := range t.timed {
		t.openByTime(p)
		p.seen = Expectation{t.now, slot}
		t.expect(p)
	}
	t.Expire(t.now, slot)
}

// openByTime opens the rounds that periodic items open.
func (t *Tracker) openByTime(p *profile) {
	if p.opener != periodic {
		return
	}
	times, inSlot := openings(p.Items, p.seen, t.now, t.slot)
	if inSlot {
		times = append(times, t.now)
	}
	for _, at := range times {
		t.endCaptured(t.openRound(p, &event{at: at, slot: t.slot}), t.now, t.slot)
	}
}

// expect begins the intervals of predicted items whose change is due.
func (t *Tracker) expect(p *profile) {
	var begun []bool
	for i, item := range p.Items {
		if kindOf(item.When) != predicted || !t.foreseen(p, i) {
			continue
		}
		if begun == nil {
			begun = make([]bool, len(p.Items))
		}
		begun[i], p.expected[i] = true, Expectation{t.now, t.slot}
	}
	if begun != nil {
		t.begin(p, &event{at: t.now, slot: t.slot, begun: begun})
	}
}

// foreseen reports whether the next change of an item's query is due: one is as
// likely as not since the last one, or since the last time that one was expected.
// On a grid the model of hours and days says when. Without a grid, or with few
// changes, the forecast by slots does.
func (t *Tracker) foreseen(p *profile, item int) bool {
	query := p.Items[item].Query
	from, ok := t.countsFrom(p, item)
	if !ok {
		return false
	}
	m := t.predictors[query]
	if t.lead > 0 && m.knowsHours() {
		return !m.next(from).After(t.now)
	}
	at, ok := m.slot(t.queries.History(query), p.expected[item].Slot)
	return ok && at <= t.slot
}

// countsFrom is from when on the changes of an item's query are counted; ok is
// false when the query is not registered.
func (t *Tracker) countsFrom(p *profile, item int) (from time.Time, ok bool) {
	from, ok = t.queries.Changed(p.Items[item].Query)
	if at := p.expected[item].At; at.After(from) {
		from = at
	}
	return from, ok
}

// Next is when time opens the next round of a profile, zero where slot numbers
// or changes do. predicted reports that only NextPredicted can tell.
func Next(p *registry.Profile, now time.Time) (next time.Time, byPrediction bool) {
	switch openerOf(p) {
	case periodic:
		next = nextOpening(p.Items, now)
	case predicted:
		byPrediction = true
	}
	return next, byPrediction
}

// horizon is how far ahead rounds are announced.
const horizon = 31 * 24 * time.Hour

// NextPredicted is when an item of a profile expects a change first, zero when
// that is too far ahead or not known.
func (t *Tracker) NextPredicted(profile string, now time.Time) (next time.Time) {
	p := t.profiles[profile]
	if p == nil || t.lead <= 0 {
		return next
	}
	for i, item := range p.Items {
		m := t.predictors[item.Query]
		from, ok := t.countsFrom(p, i)
		if !ok || m == nil || !m.knowsHours() {
			continue
		}
		if at := m.next(from); at.Before(now.Add(horizon)) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.Before(now) && !next.IsZero() {
		return now
	}
	return next
}

// EndSlot records why intervals were not captured in the slot, and ends the
// rounds that the next slot is too late for.
func (t *Tracker) EndSlot(now time.Time, missed func(query string) string) {
	for p := range t.busy {
		for _, r := range p.rounds {
			for i := range r.Intervals {
				if r.wants(i, now, t.slot) {
					r.why[i] = missed(r.Intervals[i].Query)
				}
			}
		}
	}
	t.Expire(now, t.slot+1)
}
