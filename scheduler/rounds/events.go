package rounds

import (
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// maxRounds is the largest number of open rounds per profile. Opening one more
// ends the oldest.
const maxRounds = 256

// An event begins intervals. It is a change, a predicted change or, without an
// item, the passing of time.
type event struct {
	at    time.Time
	slot  uint64
	cause registry.Cause
	begun []bool     // by item, nil = none
	found *Execution // the execution that found the change
}

func (e *event) begins(item int) bool { return e.begun != nil && e.begun[item] }

// Observe applies a complete execution. ended reports whether it ended a round.
func (t *Tracker) Observe(x Observation) (ended bool) {
	if p := t.predictors[x.Query]; p != nil {
		p.observe(&x)
	}
	ended = t.capture(x.Query, &x.Execution)
	if x.changed() {
		ended = t.change(&x) || ended
	}
	return ended
}

// capture captures the open intervals of the query that contain the execution.
func (t *Tracker) capture(query string, e *Execution) (ended bool) {
	for r := range t.wanted[query] { // Drain sorts the rounds that end
		for i := range r.Intervals {
			if x := &r.Intervals[i]; x.Query == query && x.Done == nil && e.inside(x) {
				e.capture(x)
				t.markDirty(r)
			}
		}
		ended = t.endCaptured(r, e.End, e.Slot) || ended
	}
	return ended
}

// endCaptured ends a round if all its intervals are captured.
func (t *Tracker) endCaptured(r *round, at time.Time, slot uint64) bool {
	if r.State != registry.RoundOpen || !r.captured() {
		return false
	}
	r.end(registry.RoundCaptured, at, slot)
	t.unindexRound(r)
	t.markDirty(r)
	return true
}

// change begins the intervals that wait for the change. ended reports whether that
// ended a round, for example one whose only item waits for its own change.
func (t *Tracker) change(x *Observation) (ended bool) {
	for _, p := range t.waiting[x.Query] {
		e := event{at: x.End, slot: x.Slot, cause: registry.Cause{Query: x.Query}, begun: make([]bool, len(p.Items)), found: &x.Execution}
		for i, item := range p.Items {
			e.begun[i] = item.When.Changed == x.Query && registry.Added(x.Delta, item.When.Where)
		}
		if slices.Contains(e.begun, true) {
			ended = t.begin(p, &e) || ended
		}
	}
	return ended
}

// begin begins the intervals of open rounds that wait for the event. If there are
// none and the event is of the kind that opens rounds, begin opens a round.
func (t *Tracker) begin(p *profile, e *event) (ended bool) {
	waited, opens := false, false
	for i, begins := range e.begun {
		opens = opens || begins && kindOf(p.Items[i].When) == p.opener
	}
	touched := slices.Clone(p.rounds)
	for _, r := range touched {
		for i := range r.Intervals {
			if x := &r.Intervals[i]; e.begun[i] && !x.HasBounds() {
				p.begin(x, i, e.at, e.slot, e.cause)
				waited, t.stale = true, true
				t.markDirty(r)
			}
		}
	}
	if !waited && opens {
		touched = append(touched, t.openRound(p, e))
	}
	for _, r := range touched {
		t.captureOwn(r, e)
		ended = t.endCaptured(r, e.at, e.slot) || ended
	}
	return ended
}

// captureOwn captures the intervals of the query whose change began them.
func (t *Tracker) captureOwn(r *round, e *event) {
	for i := range r.Intervals {
		x := &r.Intervals[i]
		if e.found != nil && e.begun[i] && x.Done == nil && x.Query == x.Cause.Query && x.From.Equal(e.found.End.UTC()) {
			e.found.capture(x)
			t.markDirty(r)
		}
	}
}

// openRound opens a round and sets the known bounds of its intervals.
func (t *Tracker) openRound(p *profile, e *event) *round {
	p.number++
	r := roundOf(registry.Round{
		Profile: p.ID, Number: p.number, State: registry.RoundOpen, OpenedAt: e.at.UTC(), Slot: e.slot, Trigger: e.cause,
		Intervals: make([]registry.Interval, len(p.Items))}, p)
	for i := range p.Items {
		x := &r.Intervals[i]
		x.Query = p.Items[i].Query
		switch when := p.Items[i].When; {
		case kindOf(when) == periodic:
			cycleOf(when).place(x, e.at, e.slot)
			if last, ok := lastOf(t.stats(x.Query)); ok && last.inside(x) {
				last.capture(x)
			}
		case e.begins(i):
			p.begin(x, i, e.at, e.slot, e.cause)
		}
	}
	if len(p.rounds) >= maxRounds {
		t.giveUp(p.rounds[0], e.at, e.slot)
	}
	t.indexRound(r)
	t.markDirty(r)
	t.stale = true
	return r
}

// giveUp ends a profile's oldest round to make room for a new one.
func (t *Tracker) giveUp(r *round, now time.Time, slot uint64) {
	for i := range r.why {
		r.why[i] = "too many rounds of the profile are open: the oldest is given up"
	}
	t.expire(r, now, slot, func(int) bool { return true })
}

// Expire ends the rounds that have an interval that has expired or has not begun in
// time. slot is the slot that begins, or the next one if none is in progress.
func (t *Tracker) Expire(now time.Time, slot uint64) {
	for p := range t.busy { // Drain sorts the rounds that end
		for _, r := range slices.Clone(p.rounds) {
			if r.anyOver(now, slot) {
				t.expire(r, now, slot, func(i int) bool { return r.over(i, now, slot) })
			}
		}
	}
}

// expire ends a round and records why its expired intervals were not captured.
func (t *Tracker) expire(r *round, now time.Time, slot uint64, over func(item int) bool) {
	r.end(registry.RoundExpired, now, slot)
	for i := range r.Intervals {
		if r.Intervals[i].Done == nil && over(i) {
			r.lose(i)
		}
	}
	t.unindexRound(r)
	t.markDirty(r)
}

// NextExpiry returns the earliest time after which an open round expires, zero if
// no round expires by time.
func (t *Tracker) NextExpiry() (first time.Time) {
	for p := range t.busy {
		for _, r := range p.rounds {
			for i := range r.Intervals {
				at, _ := r.deadline(i)
				if r.Intervals[i].Done == nil && !at.IsZero() && (first.IsZero() || at.Before(first)) {
					first = at
				}
			}
		}
	}
	return first
}
