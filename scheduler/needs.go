package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// tracker are the profiles of an endpoint and their open rounds. They say which
// intervals are open, take in what was executed, and keep what has to be
// recorded. They are pure: slots, times and results are told. A nil one has no
// profiles. A slot looks at those that time concerns and at those with open
// rounds, not at all that are registered.
type tracker struct {
	profiles map[string]*need
	timed    []*need                    // a slot may open or begin something of them; by id
	busy     map[*need]bool             // have open rounds
	spent    map[*need]bool             // have used something in this slot
	triggers map[string][]*need         // by the query whose changes they wait for
	wanted   map[string]map[*round]bool // by the query that they lack
	dirty    []*round                   // to be recorded
	models   map[string]*predictor      // of queries that profiles predict
	opened   bool                       // since the claims were ranked
}

// A need is a profile with its open rounds.
type need struct {
	registry.Profile
	lead   kind
	number uint64        // of the last round
	at     time.Time     // what opens by time has been looked at up to here
	slot   uint64        // likewise
	rounds []*round      // open, oldest first
	used   time.Duration // by executions that it claimed in this slot
	fired  []uint64      // by item: slot of its latest prediction
	since  []time.Time   // and when that was
}

// A kind says how an item's intervals come about.
type kind int

const (
	periodic kind = iota
	predicted
	changed
)

func kindOf(w registry.When) kind {
	switch {
	case w.Changed != "":
		return changed
	case w.Predicted:
		return predicted
	}
	return periodic
}

// A round is an open one, or one that has ended and is to be recorded.
type round struct {
	registry.Round
	need  *need
	dirty bool
	why   []string // by interval: why it was not executed in the last slot that could
}

// Bounds of what a profile can have open, and of what is made up for.
const (
	maxRounds = 256 // open rounds of a profile; one more ends the oldest
	maxMissed = 16  // rounds by time that opened while no slot ran
)

// load replaces all that is known by what the ledger knows. slot comes next.
func (n *tracker) load(list []ProfileState, models []Model, slot uint64) {
	*n = tracker{profiles: make(map[string]*need, len(list)), busy: map[*need]bool{}, spent: map[*need]bool{},
		triggers: map[string][]*need{}, wanted: map[string]map[*round]bool{}, models: map[string]*predictor{}}
	for _, m := range models {
		n.models[m.Query] = &predictor{Week: m.Week}
	}
	for _, x := range list {
		k := &need{Profile: x.Profile, lead: leads(&x.Profile), number: x.Rounds, at: x.Opened, slot: x.Slot}
		if k.at.Before(x.Profile.CreatedAt) {
			k.at = x.Profile.CreatedAt
		}
		if x.Rounds == 0 {
			k.slot = max(slot, 1) - 1
		}
		timed := k.lead == periodic
		k.fired, k.since = make([]uint64, len(x.Profile.Items)), make([]time.Time, len(x.Profile.Items))
		for j, i := range x.Profile.Items {
			if j < len(x.Expected) {
				k.fired[j], k.since[j] = x.Expected[j].Slot, x.Expected[j].At
			}
			timed = timed || kindOf(i.When) == predicted
			if i.When.Predicted && n.models[i.Query] == nil {
				n.models[i.Query] = &predictor{}
			}
			if q := i.When.Changed; q != "" && !slices.Contains(n.triggers[q], k) {
				n.triggers[q] = append(n.triggers[q], k)
			}
		}
		for _, r := range x.Open {
			n.enter(&round{Round: r, need: k, why: make([]string, len(r.Intervals))})
		}
		if n.profiles[k.ID] = k; timed {
			n.timed = append(n.timed, k)
		}
	}
	slices.SortFunc(n.timed, func(a, b *need) int { return cmp.Compare(a.ID, b.ID) })
}

// leads is the kind of items that open a profile's rounds.
func leads(p *registry.Profile) (lead kind) {
	for i := range p.Items {
		lead = max(lead, kindOf(p.Items[i].When))
	}
	return lead
}

// enter puts an open round where its queries find it.
func (n *tracker) enter(r *round) {
	r.need.rounds = append(r.need.rounds, r)
	n.busy[r.need] = true
	for i := range r.Intervals {
		x := &r.Intervals[i]
		if x.Done != nil {
			continue
		}
		if n.wanted[x.Query] == nil {
			n.wanted[x.Query] = map[*round]bool{}
		}
		n.wanted[x.Query][r] = true
	}
}

// leave takes a round that has ended out of all lists.
func (n *tracker) leave(r *round) {
	r.need.rounds = slices.DeleteFunc(r.need.rounds, func(x *round) bool { return x == r })
	if len(r.need.rounds) == 0 {
		delete(n.busy, r.need)
	}
	for i := range r.Intervals {
		q := r.Intervals[i].Query
		if delete(n.wanted[q], r); len(n.wanted[q]) == 0 {
			delete(n.wanted, q)
		}
	}
}

// touch marks a round to be recorded.
func (n *tracker) touch(r *round) {
	if !r.dirty {
		r.dirty = true
		n.dirty = append(n.dirty, r)
	}
}

// take hands out what is to be recorded, and the profiles of which a round
// ended. What ends at once ends in the order of its opening.
func (n *tracker) take() (list []registry.Round, ended []string) {
	if n == nil || len(n.dirty) == 0 {
		return nil, nil
	}
	slices.SortFunc(n.dirty, func(a, b *round) int {
		return cmp.Or(cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.Number, b.Number))
	})
	for _, r := range n.dirty {
		r.dirty = false
		x := r.Round
		x.Intervals = slices.Clone(x.Intervals)
		list = append(list, x)
		if r.State != registry.RoundOpen && (len(ended) == 0 || ended[len(ended)-1] != r.Profile) {
			ended = append(ended, r.Profile)
		}
	}
	n.dirty = nil
	return list, ended
}

// A latest tells of a query's last complete execution; ok is false when there is
// none, or it is not the last one.
type latest func(query string) (e ranAt, ok bool)

// An ranAt query, as intervals see it.
type ranAt struct {
	start, end time.Time
	slot       uint64
	tier       string
}

// open makes a round with every interval that can be told; fired says which
// items an event has begun.
func (n *tracker) open(k *need, at time.Time, slot uint64, cause registry.Cause, fired func(item int) bool, last latest) *round {
	k.number++
	r := &round{need: k, why: make([]string, len(k.Items)), Round: registry.Round{
		Profile: k.ID, Number: k.number, State: registry.RoundOpen, OpenedAt: at.UTC(), Slot: slot, Trigger: cause,
		Intervals: make([]registry.Interval, len(k.Items))}}
	for i := range k.Items {
		x := &r.Intervals[i]
		x.Query = k.Items[i].Query
		switch when := k.Items[i].When; {
		case kindOf(when) == periodic:
			cycleOf(when).at(x, at, slot)
			if e, ok := last(x.Query); ok && inside(x, e) {
				x.Done = &registry.Execution{At: e.end.UTC(), Slot: e.slot, Why: e.tier}
			}
		case fired(i):
			k.begin(x, i, at, slot, cause)
		}
	}
	if len(k.rounds) >= maxRounds {
		old := k.rounds[0]
		for i := range old.Intervals {
			if old.Intervals[i].Done == nil {
				old.why[i] = "too many rounds of the profile are open: the oldest is given up"
			}
		}
		n.lose(old, at, slot, func(int) bool { return true })
	}
	n.enter(r)
	n.touch(r)
	n.opened = true
	return r
}

// begin gives an interval that an event begins its bounds. The change that
// began it captures it when it is the change of its own query.
func (k *need) begin(x *registry.Interval, item int, at time.Time, slot uint64, cause registry.Cause) {
	x.From, x.Cause = at.UTC(), cause
	if s := k.IntervalLength(item); s.Slots > 0 {
		x.First, x.Last = slot, slot+s.Slots
	} else {
		x.Until = x.From.Add(s.Time)
	}
}

// inside says whether an execution captures an interval: it began no earlier
// and ended no later than the interval. The slots of an interval count whole.
func inside(x *registry.Interval, e ranAt) bool {
	return x.HasBounds() && !e.start.Before(x.From) && (x.Until.IsZero() || !e.end.After(x.Until)) &&
		e.slot >= x.First && (x.Last == 0 || e.slot <= x.Last)
}

// ran takes in a complete execution. ended says that it completed a round.
func (n *tracker) ran(query string, e ranAt) (ended bool) {
	if n == nil {
		return false
	}
	for r := range n.wanted[query] { // take puts in order what ends
		for i := range r.Intervals {
			if x := &r.Intervals[i]; x.Query == query && x.Done == nil && inside(x, e) {
				x.Done = &registry.Execution{At: e.end.UTC(), Slot: e.slot, Why: e.tier}
				n.touch(r)
			}
		}
		ended = n.settle(r, e.end, e.slot) || ended
	}
	return ended
}

// settle ends a round of which every interval is captured.
func (n *tracker) settle(r *round, at time.Time, slot uint64) bool {
	if r.State != registry.RoundOpen || slices.ContainsFunc(r.Intervals, func(x registry.Interval) bool { return x.Done == nil }) {
		return false
	}
	r.State, r.EndedAt, r.EndedSlot = registry.RoundCaptured, at.UTC(), slot
	n.leave(r)
	n.touch(r)
	return true
}

// change takes in a change, after ran did the execution that found it. ended
// says that it completed a round, as one does whose only item waits for it.
func (n *tracker) change(query string, d *diff.Delta, e ranAt, last latest) (ended bool) {
	if n == nil || d == nil || d.Baseline {
		return false
	}
	for _, k := range n.triggers[query] {
		fired := make([]bool, len(k.Items))
		any := false
		for i, item := range k.Items {
			fired[i] = item.When.Changed == query && registry.Added(d, item.When.Where)
			any = any || fired[i]
		}
		if any {
			ended = n.fire(k, fired, e.end, e.slot, registry.Cause{Query: query}, last, &e) || ended
		}
	}
	return ended
}

// fire begins what waited for an event in open rounds, and opens a round when
// no open one waited for it, if it is of the kind that does.
func (n *tracker) fire(k *need, fired []bool, at time.Time, slot uint64, cause registry.Cause, last latest, e *ranAt) (ended bool) {
	waited := false
	touched := slices.Clone(k.rounds)
	for _, r := range touched {
		for i := range r.Intervals {
			if x := &r.Intervals[i]; fired[i] && !x.HasBounds() {
				k.begin(x, i, at, slot, cause)
				waited, n.opened = true, true
				n.touch(r)
			}
		}
	}
	leads := false
	for i := range fired {
		leads = leads || fired[i] && kindOf(k.Items[i].When) == k.lead
	}
	if !waited && leads {
		touched = append(touched, n.open(k, at, slot, cause, func(i int) bool { return fired[i] }, last))
	}
	for _, r := range touched {
		n.own(r, fired, e)
		ended = n.settle(r, at, slot) || ended
	}
	return ended
}

// own captures the intervals of the very query whose change began them.
func (n *tracker) own(r *round, fired []bool, e *ranAt) {
	for i := range r.Intervals {
		x := &r.Intervals[i]
		if e != nil && fired[i] && x.Done == nil && x.Query == x.Cause.Query && x.From.Equal(e.end.UTC()) {
			x.Done = &registry.Execution{At: e.end.UTC(), Slot: e.slot, Why: e.tier}
			n.touch(r)
		}
	}
}

// expire ends the rounds of which an interval is over, or has not begun in
// time. slot is the one that begins, or the next one when none runs.
func (n *tracker) expire(now time.Time, slot uint64) {
	for k := range n.busy { // take puts in order what ends
		for _, r := range slices.Clone(k.rounds) {
			late := func(i int) bool { return k.late(r, i, now, slot) }
			for i := range r.Intervals {
				if late(i) {
					n.lose(r, now, slot, late)
					break
				}
			}
		}
	}
}

// late says whether an interval can be captured no more.
func (k *need) late(r *round, i int, now time.Time, slot uint64) bool {
	if r.Intervals[i].Done != nil {
		return false
	}
	at, last := k.bound(r, i)
	return !at.IsZero() && now.After(at) || last > 0 && slot > last
}

// bound is the last moment, or the last slot, in which an interval can be
// captured, or can begin. One of the two is zero.
func (k *need) bound(r *round, i int) (at time.Time, last uint64) {
	x := &r.Intervals[i]
	if x.HasBounds() {
		return x.Until, x.Last
	}
	s := k.Window
	if s.IsZero() {
		s = k.IntervalLength(i) // then its own length bounds the waiting, too
	}
	if s.Slots > 0 {
		return at, r.Slot + s.Slots
	}
	return r.OpenedAt.Add(s.Time), 0
}

// lose ends a round for its late intervals.
func (n *tracker) lose(r *round, now time.Time, slot uint64, late func(int) bool) {
	r.State, r.EndedAt, r.EndedSlot = registry.RoundExpired, now.UTC(), slot
	for i := range r.Intervals {
		x := &r.Intervals[i]
		if x.Done != nil || !late(i) {
			continue
		}
		switch {
		case !x.HasBounds():
			x.Reason = "what it waits for did not happen within the window"
		case r.why[i] != "":
			x.Reason = r.why[i]
		default:
			x.Reason = "no slot ran inside it"
		}
		if r.Reason == "" {
			r.Reason = x.Query + ": " + x.Reason
		}
	}
	n.leave(r)
	n.touch(r)
}
