package scheduler

import (
	"time"

	"github.com/freshet/freshet/registry"
)

// A cycle is a periodic item's: intervals begin at the multiples of every, of
// time since the Unix epoch or of slot numbers, and last for slack.
type cycle struct{ every, slack registry.Span }

func cycleOf(w registry.When) cycle { return cycle{w.Every, w.Slack} }

// before is the last multiple at or before t.
func (c cycle) before(t time.Time) time.Time {
	n, d := t.UnixNano(), int64(c.every.Time)
	m := n % d
	if m < 0 {
		m += d
	}
	return time.Unix(0, n-m).UTC()
}

// at gives x the interval that contains the moment, or else the next one.
func (c cycle) at(x *registry.Interval, now time.Time, slot uint64) {
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

// openings lists when periodic items open rounds of a profile after it was
// looked at last and not after now: times, and whether this slot does. Of what
// was missed for long only the newest count.
func (k *need) openings(now time.Time, slot uint64) (times []time.Time, this bool) {
	if k.lead != periodic {
		return nil, false
	}
	for _, item := range k.Items {
		c := cycleOf(item.When)
		if s := c.every.Slots; s > 0 {
			this = this || slot%s == 0 && slot > k.slot
			continue
		}
		t := c.before(now)
		for range maxMissed {
			if !t.After(k.at) {
				break
			}
			times = append(times, t)
			t = t.Add(-c.every.Time)
		}
	}
	return tidyTimes(times), this
}

// next is when time opens a profile's next round; zero when it is not by time.
func (k *need) next(now time.Time) (next time.Time) {
	if k.lead != periodic {
		return next
	}
	for _, item := range k.Items {
		if c := cycleOf(item.When); c.every.Slots == 0 {
			if t := c.before(now).Add(c.every.Time); next.IsZero() || t.Before(next) {
				next = t
			}
		}
	}
	return next
}
