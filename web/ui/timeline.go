package ui

import (
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// A timeline shows the intervals of a profile's rounds, with a lane for each item.
type timeline struct {
	Labels []label
	Lanes  []lane
}

// A lane holds the intervals of one query on the profile's time axis.
type lane struct {
	Name, Link, When string
	Marks            []mark
	Now              string
}

// Of returns the number of intervals in a state.
func (l lane) Of(state string) (n int) {
	for _, m := range l.Marks {
		if m.State == state {
			n++
		}
	}
	return n
}

// A mark is an interval: filled, with a stroke at the run that captured it; crossed if
// it expired; outlined while it is open; dashed before it opens.
type mark struct {
	State               string // captured, expired, open or coming
	X, Width, At, Cross string
	Span                stretch
	Done                time.Time // when it was captured, zero otherwise
	Reason              string
}

const (
	shownRounds  = 8
	slotsLooked  = 1000             // slots of the history that are read for their start times
	slotsStepped = 64               // slots of the schedule that are computed one by one; later ones are assumed to be equally spaced
	leastAxis    = 10 * time.Second // minimum length, so that the labels of both ends differ
)

// A slotClock returns the start times of an endpoint's slots: past ones from the
// history, future ones from the schedule.
type slotClock struct {
	began    map[uint64]time.Time
	last     uint64 // the last slot that began
	schedule scheduler.Schedule
	next     time.Time // start of the slot after last, zero if unknown
}

func (v profileHandler) slotClock(endpoint string) (*slotClock, error) {
	c := &slotClock{began: map[uint64]time.Time{}}
	e, err := v.Registry.Endpoint(endpoint)
	if err != nil {
		return nil, err
	}
	slots, err := v.slots(endpoint, slotsLooked)
	if err != nil {
		return nil, err
	}
	for _, s := range slots {
		c.began[s.Number] = s.Started
		c.last = max(c.last, s.Number)
	}
	if c.schedule, err = scheduler.ParseSlot(e.Slot); err != nil {
		return nil, err
	}
	if st, err := v.Daemon.State(endpoint); err == nil {
		c.last, c.next = max(c.last, st.Last.Number), st.Next
		if !st.Last.Started.IsZero() {
			c.began[st.Last.Number] = st.Last.Started
		}
	}
	return c, nil
}

// at returns when a slot begins; false if that is unknown.
func (c *slotClock) at(slot uint64) (time.Time, bool) {
	if slot <= c.last {
		t, known := c.began[slot]
		return t, known
	}
	t, step := c.next, time.Duration(0)
	for n := uint64(1); n < slot-c.last && !t.IsZero(); n++ {
		if n == slotsStepped {
			rest := min(slot-c.last-n, 1<<20)
			return t.Add(time.Duration(rest) * step), true
		}
		next := c.schedule.Next(t)
		if next.IsZero() {
			return next, false
		}
		t, step = next, next.Sub(t)
	}
	return t, !t.IsZero()
}

// A stretch is an interval on the axis. An interval in slots whose end is not yet
// known extends to the end of the axis.
type stretch struct {
	From, Until time.Time
	Endless     bool
	First, Last uint64 // its slots, 0 for an interval of times
}

// stretch places an interval; false if its place is not yet known. An interval that
// opens with a change begins at the time of the change and may end with a slot.
func (c *slotClock) stretch(i *registry.Interval) (stretch, bool) {
	if i.First == 0 || !i.Until.IsZero() {
		return stretch{From: i.From, Until: i.Until}, !i.From.IsZero()
	}
	s := c.slots(i.First, i.Last)
	switch {
	case !s.From.IsZero() && !i.From.IsZero():
		s.From = i.From
	case s.From.IsZero() && i.Done != nil:
		s.From, s.Until = i.Done.At, i.Done.At
	case s.From.IsZero():
		s.From, s.Until = i.From, i.From
	}
	return s, !s.From.IsZero()
}

// slots returns the stretch from the start of one slot to the end of another.
func (c *slotClock) slots(first, last uint64) stretch {
	s := stretch{First: first, Last: max(first, last)}
	from, known := c.at(first)
	if !known {
		return s
	}
	s.From, s.Until = from, from
	if until, known := c.at(last + 1); known {
		s.Until = until
	} else {
		s.Endless = true
	}
	return s
}

// coming returns the next interval of a periodic item, which is not yet part of a
// round.
func (c *slotClock) coming(w registry.When, now time.Time) (stretch, bool) {
	switch every := w.Every; {
	case every.Slots > 0:
		first := (c.last/every.Slots + 1) * every.Slots
		s := c.slots(first, first+w.Slack.Slots)
		return s, !s.From.IsZero()
	case every.Time > 0:
		from := time.Unix(0, (now.UnixNano()/int64(every.Time)+1)*int64(every.Time)).UTC()
		return stretch{From: from, Until: from.Add(w.Slack.Time)}, true
	}
	return stretch{}, false
}

// timeline draws rounds, given newest first, on a time axis that extends to the latest
// known end.
func (v profileHandler) timeline(p *registry.Profile, rounds []registry.Round) (timeline, error) {
	c, err := v.slotClock(p.Endpoint)
	if err != nil {
		return timeline{}, err
	}
	a := axis{now: v.now, lo: v.now, hi: v.now}
	lanes := make([][]placed, len(p.Items))
	for n, item := range p.Items {
		for _, r := range slices.Backward(rounds) {
			if n >= len(r.Intervals) {
				continue
			}
			if s, ok := c.stretch(&r.Intervals[n]); ok {
				lanes[n] = append(lanes[n], placed{r.Intervals[n], s, stateOfInterval(r, r.Intervals[n], s, v.now)})
			}
		}
		if s, ok := c.coming(item.When, v.now); ok && !slices.ContainsFunc(lanes[n], func(x placed) bool { return x.span.From.Equal(s.From) }) {
			lanes[n] = append(lanes[n], placed{span: s, state: "coming"})
		}
		for _, x := range lanes[n] {
			a.take(x.span)
		}
	}
	a.hi = later(a.hi, a.lo.Add(leastAxis))
	t := timeline{Labels: timeLabels(a.lo, a.hi, 0, "start", "end")}
	for n, item := range p.Items {
		t.Lanes = append(t.Lanes, v.lane(p, n, item, &a, lanes[n]))
	}
	return t, nil
}

// A placed interval has a position on the axis.
type placed struct {
	registry.Interval
	span  stretch
	state string
}

func stateOfInterval(r registry.Round, i registry.Interval, s stretch, now time.Time) string {
	switch {
	case i.Done != nil:
		return "captured"
	case r.State == registry.RoundExpired:
		return "expired"
	case now.Before(s.From):
		return "coming"
	}
	return "open"
}

func (v profileHandler) lane(p *registry.Profile, n int, item registry.Item, a *axis, list []placed) lane {
	l := lane{When: v.whenWords(item.When, p.IntervalLength(n)), Now: a.x(v.now), Name: item.Query}
	if q, err := v.Registry.Query(item.Query); err == nil {
		l.Name, l.Link = clip(v.name(&q), 120), queryPath(q.ID)
	}
	for _, x := range list {
		l.Marks = append(l.Marks, a.mark(x))
	}
	return l
}

// An axis is the time span of a timeline.
type axis struct{ lo, hi, now time.Time }

func (a *axis) take(s stretch) { a.lo, a.hi = earlier(a.lo, s.From), later(a.hi, s.Until) }

func (a *axis) at(t time.Time) float64 { return float64(t.Sub(a.lo)) / float64(a.hi.Sub(a.lo)) * 100 }

func (a *axis) x(t time.Time) string { return fmt.Sprintf("%.2f%%", a.at(t)) }

func (a *axis) mark(x placed) mark {
	until := x.span.Until
	if x.span.Endless {
		until = a.hi
	}
	x0, x1 := a.at(x.span.From), a.at(until)
	m := mark{State: x.state, X: fmt.Sprintf("%.2f%%", x0), Width: fmt.Sprintf("%.2f%%", max(x1-x0, 0.6)), Span: x.span,
		Reason: clip(x.Reason, 160)}
	switch {
	case x.Done != nil:
		m.At, m.Done = a.x(x.Done.At), x.Done.At
	case x.state == "expired":
		m.Cross = fmt.Sprintf("%.2f%%", (x0+x1)/2)
	}
	return m
}

// whenWords writes an item's interval in the syntax of the form, with names in place
// of ids.
func (v profileHandler) whenWords(w registry.When, within registry.Span) string {
	if w.Changed != "" {
		if q, err := v.Registry.Query(w.Changed); err == nil {
			w.Changed = clip(v.name(&q), 80)
		}
	}
	if w.Every.IsZero() {
		w.Within = within
	}
	return clip(w.String(), 300)
}
