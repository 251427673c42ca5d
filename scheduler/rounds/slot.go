package rounds

import (
	"time"

	"github.com/freshet/freshet/registry"
)

// BeginSlot opens the rounds that are due by time or prediction, and ends expired
// ones. lead is the time from this grid time to the next, 0 without a grid.
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

// openByTime opens the rounds of periodic items.
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

// foreseen reports whether the next change of an item's query is due: its
// probability, since the last change or the last time one was expected, has reached
// 1/2. With a grid and enough changes, the model of hours and days decides;
// otherwise the forecast by slots does.
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
	at, ok := m.slot(t.stats(query).Samples, p.expected[item].Slot)
	return ok && at <= t.slot
}

// countsFrom returns the time from which changes of an item's query are counted. ok
// is false if the query is not registered.
func (t *Tracker) countsFrom(p *profile, item int) (from time.Time, ok bool) {
	s := t.stats(p.Items[item].Query)
	if s == nil {
		return from, false
	}
	from = s.ChangedAt
	if at := p.expected[item].At; at.After(from) {
		from = at
	}
	return from, true
}

// Next returns the time at which a profile's next round opens, zero if slot numbers
// or changes open it. If byPrediction is true, only NextPredicted knows the time.
func Next(p *registry.Profile, now time.Time) (next time.Time, byPrediction bool) {
	switch openerOf(p) {
	case periodic:
		next = nextOpening(p.Items, now)
	case predicted:
		byPrediction = true
	}
	return next, byPrediction
}

// horizon limits how far ahead rounds are announced.
const horizon = 31 * 24 * time.Hour

// NextPredicted returns when an item of a profile first expects a change, zero if
// that is unknown or beyond the horizon.
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

// EndSlot records why the slot did not capture intervals, and ends the rounds that
// expire before the next slot.
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
