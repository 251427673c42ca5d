package policy

import (
	"fmt"
	"math"
	"time"

	"github.com/freshet/freshet/scheduler/update"
	"github.com/freshet/freshet/scheduler/wic"
)

// supPolicy implements the policies sup and fbsup. Each query has a notification
// rule: every X-th update has to be reported while it is alive, until the next one
// (overwrite) or for Y slots (window,Y). Executions are few: only one, at the last
// slot of the interval in which the rule is expected to hold. A query that is due
// and does not fit into the budget stays due; the earliest due comes first.
//
// Expected updates are learnt from the query's own history: a Poisson process with
// a rate by hour of the day and by day of the week. The model places an update
// where the expected number since the start, Λ, is a whole number. The X-th, the
// 2X-th, … of these begin the intervals, as in algorithm 1. The phase is Λ mod X at
// the last execution, by the rates known at each time. If updates are expected less
// than a whole slot apart, every slot is due.
//
// fbsup uses feedback, as algorithm 2. When an execution has found only l < X
// updates since the rule was last satisfied, an interval is added for the (X −
// l)-th update that the model expects after it. The last slot of that interval is
// executed, unless the schedule already has an execution in it. An execution that
// found a change counts as one update. For X = 1 sup does the same.
//
// A query without a history is assumed to have one update in satisfySlots slots.
// Every execution that finds nothing lowers the rate, so that a query that never
// changes is executed ever more rarely.
//
// Source: H. Roitman, A. Gal, L. Bright, L. Raschid, "A dual framework and
// algorithms for targeted data delivery", algorithms 1 and 2.
type supPolicy struct {
	feedback bool
	rule     update.Rule
}

const satisfySlots = 8

func supDefinition() Definition {
	return satisfyDefinition("sup", "fewest executions that meet every expected update", false)
}

func fbsupDefinition() Definition {
	return satisfyDefinition("fbsup", "sup, with another execution after one that came too early", true)
}

func satisfyDefinition(name, doc string, feedback bool) Definition {
	return Definition{
		Name: name,
		Params: []Param{
			{Name: "x", Default: "1", Doc: "which updates are reported: every x-th"},
			{Name: "life", Default: "overwrite", Doc: "how long an update can be had: overwrite, or window,Y slots"},
		},
		Doc:    doc,
		Source: "Roitman, Gal, Bright, Raschid, A dual framework and algorithms for targeted data delivery",
		Build: func(a Args) (Policy, error) {
			x, err := a.Count("x")
			if err != nil {
				return nil, err
			}
			life, ok := readLife(a["life"])
			if !ok {
				return nil, fmt.Errorf("life=%s is not overwrite or window,Y", a["life"])
			}
			return supPolicy{feedback, update.Rule{X: int(x), Life: life}}, nil
		},
	}
}

// readLife reads "overwrite" and "window,10".
func readLife(s string) (update.Life, bool) {
	l, err := wic.ParseLife(s)
	return update.Life{Windowed: l.Kind == wic.Window, Window: l.W}, err == nil && (l.Kind == wic.Window || l.Kind == wic.Overwrite)
}

func (p supPolicy) String() string {
	name, life := "sup", wic.Life{Kind: wic.Overwrite}
	if p.feedback {
		name = "fbsup"
	}
	if p.rule.Life.Windowed {
		life = wic.Life{Kind: wic.Window, W: p.rule.Life.Window}
	}
	return fmt.Sprintf("%s:x=%d:life=%s", name, p.rule.X, life)
}

// An updateState is the state of a query: the learnt rates, its place in the rule,
// and a pending sample that has not been applied yet.
type updateState struct {
	noted, changed bool
	from           uint64 // slot of the execution before the pending one
	due            uint64 // 0 = not computed yet
	phase          float64
	seen           float64 // updates since the rule was last satisfied
	week           update.Week
}

const updatesSize = 8 + 2*(24+7)

func readUpdates(s []float64) updateState {
	v := updateState{week: update.Week{Unit: time.Hour, Before: update.Counter{Updates: 1, Watched: satisfySlots}}}
	if len(s) != updatesSize {
		return v
	}
	v.noted, v.changed, v.from, v.due = s[0] > 0, s[1] > 0, uint64(s[2]), uint64(s[3])
	v.phase, v.seen = s[4], s[5]
	v.week.All = update.Counter{Updates: s[6], Watched: s[7]}
	for i := range v.week.Hour {
		v.week.Hour[i] = update.Counter{Updates: s[8+2*i], Watched: s[9+2*i]}
	}
	for i := range v.week.Day {
		v.week.Day[i] = update.Counter{Updates: s[56+2*i], Watched: s[57+2*i]}
	}
	return v
}

func (v *updateState) state() []float64 {
	s := make([]float64, 8, updatesSize)
	if v.noted {
		s[0] = 1
	}
	if v.changed {
		s[1] = 1
	}
	s[2], s[3], s[4], s[5] = float64(v.from), float64(v.due), v.phase, v.seen
	s[6], s[7] = v.week.All.Updates, v.week.All.Watched
	for _, c := range v.week.Hour {
		s = append(s, c.Updates, c.Watched)
	}
	for _, c := range v.week.Day {
		s = append(s, c.Updates, c.Watched)
	}
	return s
}

// Fold stores an execution as a pending sample. Absorb, which knows the calendar,
// applies it. A sample that is still pending is applied without the calendar.
func (p supPolicy) Fold(state []float64, last uint64, x Sample) []float64 {
	v := readUpdates(state)
	if v.noted {
		span := float64(last - min(last, v.from))
		v.phase = math.Mod(v.phase+float64(v.week.Mean()*span), float64(p.rule.X))
		v.week.LearnMean(span, v.changed)
		p.count(&v, v.changed)
	}
	v.noted, v.changed, v.from, v.due = true, x.Changed, last, 0
	return v.state()
}

// count counts an update if the result changed, and reports whether the rule is
// satisfied.
func (p supPolicy) count(v *updateState, changed bool) bool {
	if changed {
		v.seen++
	}
	if v.seen < float64(p.rule.X) {
		return false
	}
	v.seen = 0
	return true
}

// slotTime is the time of a slot by the endpoint's grid. Without a grid a slot
// counts as an hour.
func slotTime(m Moment, slot uint64) time.Time {
	if m.Lead <= 0 {
		return time.Unix(0, 0).UTC().Add(time.Duration(slot) * time.Hour)
	}
	return m.Now.Add((time.Duration(slot) - time.Duration(m.Slot)) * m.Lead)
}

func slotLength(m Moment) time.Duration {
	if m.Lead <= 0 {
		return time.Hour
	}
	return m.Lead
}

// Absorb applies the pending samples and computes when the queries are due next.
func (p supPolicy) Absorb(m Moment, ran []*Candidate, _ func(*Candidate) []*Candidate) Lesson {
	var l Lesson
	for _, c := range ran {
		v := readUpdates(c.Stats.State)
		if !v.noted {
			continue
		}
		p.settle(m, &v, c)
		l.States = append(l.States, Taught{Candidate: c, State: v.state()})
	}
	return l
}

// settle applies a pending sample and computes when the query is due next.
func (p supPolicy) settle(m Moment, v *updateState, c *Candidate) {
	v.week.Unit = slotLength(m)
	at, from := slotTime(m, c.Stats.Last), slotTime(m, v.from)
	v.phase = math.Mod(v.phase+v.week.Expected(from, at), float64(p.rule.X))
	v.week.Learn(from, at, v.changed)
	met := p.count(v, v.changed)
	v.noted, v.changed, v.from = false, false, 0
	v.due = 0
	for _, life := range p.lives(c) {
		due := p.next(m, v, c.Stats.Last, life, met)
		if v.due == 0 || due < v.due {
			v.due = due
		}
	}
}

// lives lists the lives that the query's holders ask for.
func (p supPolicy) lives(c *Candidate) (lives []update.Life) {
	for i := range c.Query.Holders {
		life, ok := readLife(c.Query.Holders[i].Life)
		if !ok {
			life = p.rule.Life
		}
		lives = append(lives, life)
	}
	if lives == nil {
		lives = append(lives, p.rule.Life)
	}
	return lives
}

// next is the slot of the next execution after one in slot last.
func (p supPolicy) next(m Moment, v *updateState, last uint64, life update.Life, met bool) uint64 {
	x := float64(p.rule.X)
	_, due := p.interval(m, v, last, life, x-v.phase)
	if !p.feedback || met {
		return due
	}
	// The model's next update is where the phase reaches a whole number.
	start, end := p.interval(m, v, last, life, math.Floor(v.phase)+1-v.phase+x-v.seen-1)
	if start <= due && due <= end {
		return due
	}
	return min(due, end)
}

// interval is the interval, in slots, of the update that the model expects where Λ
// since slot last reaches count. It ends in the slot after last or later.
func (p supPolicy) interval(m Moment, v *updateState, last uint64, life update.Life, count float64) (start, finish uint64) {
	at := slotTime(m, last)
	slots := func(t time.Time) uint64 { return uint64(math.Ceil(float64(t.Sub(at)) / float64(slotLength(m)))) }
	start = slots(v.week.When(at, count))
	if life.Windowed {
		finish = start + uint64(life.Window)
	} else {
		finish = slots(v.week.When(at, count+1))
		finish -= min(finish, 1)
	}
	return last + max(1, start), last + max(1, start, finish)
}

// due is the first slot in which the query may run: that of its rule, or an earlier
// one in which its max_staleness runs out.
func (p supPolicy) due(m Moment, c *Candidate) uint64 {
	due := p.ruled(m, c)
	if c.Overdue > 0 {
		due = min(due, c.Overdue)
	}
	return due
}

func (p supPolicy) ruled(m Moment, c *Candidate) uint64 {
	s := c.Stats.State
	switch {
	case len(s) != updatesSize && p.rule.Life.Windowed: // only the baseline is known
		return c.Stats.Last + satisfySlots*uint64(p.rule.X) + uint64(p.rule.Life.Window)
	case len(s) != updatesSize:
		return c.Stats.Last + satisfySlots*uint64(p.rule.X+1) - 1
	case s[0] > 0: // the process ended before the slot did
		v := readUpdates(s)
		p.settle(m, &v, c)
		return v.due
	}
	return uint64(s[3])
}

// Key is replaced by the keys of each Rank.
func (p supPolicy) Key(c *Candidate) Key {
	due := p.due(Moment{Slot: c.Stats.Last}, c)
	return Key{Due: due, Value: float64(due)}
}

// Rank leaves out queries that are not due.
func (p supPolicy) Rank(m Moment, all []*Candidate) Ranking {
	keys := make([]Key, len(all))
	for i, c := range all {
		due := p.due(m, c)
		keys[i] = Key{Due: due, Value: float64(due)}
	}
	return Ranking{Keys: keys}
}

func (p supPolicy) Inputs(m Moment, _ Ranking, c *Candidate) map[string]float64 {
	v := readUpdates(c.Stats.State)
	return map[string]float64{
		"last": float64(c.Stats.Last), "phase": v.phase, "seen": v.seen, "updates_per_slot": v.week.Mean(), "due": float64(p.due(m, c)),
	}
}
