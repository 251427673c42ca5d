package rounds

import (
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// A cycle describes when the intervals of a periodic item begin: at the multiples
// of every, in time since the Unix epoch or in slot numbers. Each lasts for slack.
type cycle struct{ every, slack registry.Span }

func cycleOf(w registry.When) cycle { return cycle{w.Every, w.Slack} }

// before returns the last multiple at or before t.
func (c cycle) before(t time.Time) time.Time {
	n, d := t.UnixNano(), int64(c.every.Time)
	m := n % d
	if m < 0 {
		m += d
	}
	return time.Unix(0, n-m).UTC()
}

// place sets x to the interval that contains the moment, or else to the next one.
func (c cycle) place(x *registry.Interval, now time.Time, slot uint64) {
	if s := c.every.Slots; s > 0 {
		x.First = max(slot-slot%s, 1)
		if slot > x.First+c.slack.Slots {
			x.First += s
			x.First -= x.First % s
		}
		x.Last = x.First + c.slack.Slots
		return
	}
	x.From = c.before(now)
	if now.After(x.From.Add(c.slack.Time)) {
		x.From = x.From.Add(c.every.Time)
	}
	x.Until = x.From.Add(c.slack.Time)
}

// maxMissed limits the rounds that open for times at which no slot ran.
const maxMissed = 16

// openings lists the times after since and up to now at which periodic items open
// a round, only the latest for each item. inSlot reports whether this slot opens one.
func openings(items []registry.Item, since Expectation, now time.Time, slot uint64) (times []time.Time, inSlot bool) {
	for _, item := range items {
		c := cycleOf(item.When)
		if s := c.every.Slots; s > 0 {
			inSlot = inSlot || slot%s == 0 && slot > since.Slot
			continue
		}
		t := c.before(now)
		for range maxMissed {
			if !t.After(since.At) {
				break
			}
			times = append(times, t)
			t = t.Add(-c.every.Time)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return slices.CompactFunc(times, time.Time.Equal), inSlot
}

// nextOpening returns the time at which periodic items open the next round, zero
// if only slot numbers open rounds.
func nextOpening(items []registry.Item, now time.Time) (next time.Time) {
	for _, item := range items {
		if c := cycleOf(item.When); c.every.Slots == 0 {
			if t := c.before(now).Add(c.every.Time); next.IsZero() || t.Before(next) {
				next = t
			}
		}
	}
	return next
}
