package update

import (
	"math"
	"time"
)

// A Week learns how often something is updated, by hour of the day and by day of the
// week: rate(t) = mean · hour(t) · day(t). It is plain data. The zero value has
// learnt nothing.
//
// It learns from probes, each of which says whether there was an update since the
// previous one. Several updates between two probes are seen as one; their number is
// estimated from the rate itself. A prior worth Prior updates pulls the factors
// towards 1, and Before is the prior of the mean.
type Week struct {
	// Unit is the unit of time of all counters and rates. 0 means an hour.
	Unit time.Duration `json:"unit,omitempty"`
	// Before is the assumed observation before the first probe. Zero means one update
	// in four months.
	Before Counter     `json:"before"`
	All    Counter     `json:"all"`
	Hour   [24]Counter `json:"hour"`
	Day    [7]Counter  `json:"day"` // from Sunday
}

// A Counter counts the updates seen during a time.
type Counter struct {
	Updates float64 `json:"updates"`
	Watched float64 `json:"watched"` // units of time
}

// Prior is the weight, in updates, of the assumption that all hours and days are alike.
const Prior = 4

// priorUpdates and priorUnits are the default of Before.
const priorUpdates, priorUnits = 0.05, 146

func (w *Week) units(d time.Duration) float64 {
	return float64(d) / float64(w.unit())
}

// Mean returns the mean number of updates per unit of time.
func (w *Week) Mean() float64 {
	before := w.Before
	if before.Watched <= 0 {
		before = Counter{priorUpdates, priorUnits}
	}
	return (w.All.Updates + before.Updates) / (w.All.Watched + before.Watched)
}

// factor returns the rate of one part relative to the mean.
func (c Counter) factor(mean float64) float64 {
	return (c.Updates + Prior) / (c.Watched*mean + Prior)
}

// At returns the number of updates per unit of time at time t.
func (w *Week) At(t time.Time) float64 {
	t = t.UTC()
	mean := w.Mean()
	return mean * w.Hour[t.Hour()].factor(mean) * w.Day[t.Weekday()].factor(mean)
}

// Learn applies a probe at time to. The probe before it was at from.
func (w *Week) Learn(from, to time.Time, updated bool) {
	span := to.Sub(from)
	if span <= 0 {
		return
	}
	count := 0.0
	if updated {
		count = Several(w.At(from.Add(span/2)) * w.units(span))
	}
	w.spread(from, to, count)
	w.take(w.units(span), count)
}

// LearnMean learns from a probe that came units after the previous one at an unknown
// time of the week.
func (w *Week) LearnMean(units float64, updated bool) {
	count := 0.0
	if updated {
		count = Several(w.Mean() * units)
	}
	w.take(units, count)
}

func (w *Week) take(units, count float64) {
	w.All.Watched += units
	w.All.Updates += count
}

// Several returns the expected number of updates, given that x were expected and
// there was at least one. It is at most five: a page that has changed at every probe
// shows only that it changes often.
func Several(x float64) float64 {
	if x < 1e-6 {
		return 1
	}
	return min(5, -x/math.Expm1(-x))
}

// spread divides a probe's count among the parts of the time before it, in proportion
// to the current rates. A span of more than a day says nothing about the time of day,
// and one of more than a week nothing about the day of the week.
func (w *Week) spread(from, to time.Time, count float64) {
	if to.Sub(from) > weekLength {
		return
	}
	expected := w.Expected(from, to)
	type share struct {
		at             time.Time
		watched, count float64
	}
	var shares []share // all computed from the rates before this probe
	for t := from.UTC(); t.Before(to); {
		end := nextHour(t)
		if end.After(to) {
			end = to.UTC()
		}
		long := w.units(end.Sub(t))
		shares = append(shares, share{t, long, count * w.At(t) * long / expected})
		t = end
	}
	for _, s := range shares {
		if to.Sub(from) <= 24*time.Hour {
			w.Hour[s.at.Hour()].add(s.watched, s.count)
		}
		w.Day[s.at.Weekday()].add(s.watched, s.count)
	}
}

func (c *Counter) add(watched, updates float64) {
	c.Watched += watched
	c.Updates += updates
}

// Rates returns the expected updates in n chronons of equal length. The first one
// begins at start.
func (w *Week) Rates(start time.Time, chronon time.Duration, n int) Rates {
	r := make(Rates, n)
	for i := range r {
		r[i] = w.At(start.Add(time.Duration(i)*chronon+chronon/2)) * w.units(chronon)
	}
	return r
}

// Expected returns the expected number of updates between two times, Λ(from, to).
func (w *Week) Expected(from, to time.Time) (sum float64) {
	if weeks := to.Sub(from) / weekLength; weeks > 0 {
		sum = float64(weeks) * w.whole(from)
		from = from.Add(weeks * weekLength)
	}
	for t := from; t.Before(to); {
		end := nextHour(t)
		if end.After(to) {
			end = to
		}
		sum += w.At(t) * w.units(end.Sub(t))
		t = end
	}
	return sum
}

// When returns the time at which the expected number of updates since start reaches
// count, at most 250 years later. It takes one step for each hour of a week, however
// distant the result.
func (w *Week) When(start time.Time, count float64) time.Time {
	const far = 250 * 365 * 24 * time.Hour // close to the largest Duration
	each := w.whole(start)
	weeks := math.Floor(count / each)
	if !(each > 0) || weeks > float64(far/weekLength) {
		return start.Add(far)
	}
	t := start.Add(time.Duration(weeks) * weekLength)
	for count -= weeks * each; ; {
		end, rate := nextHour(t), w.At(t)
		if there := rate * w.units(end.Sub(t)); there < count {
			count -= there
			t = end
			continue
		}
		return t.Add(time.Duration(max(0, count) / rate * float64(w.unit())))
	}
}

const weekLength = 7 * 24 * time.Hour

// whole returns Λ over a week.
func (w *Week) whole(start time.Time) (sum float64) {
	t := start.UTC().Truncate(24 * time.Hour)
	for range 7 * 24 {
		sum += w.At(t) * w.units(time.Hour)
		t = t.Add(time.Hour)
	}
	return sum
}

func (w *Week) unit() time.Duration {
	if w.Unit <= 0 {
		return time.Hour
	}
	return w.Unit
}

func nextHour(t time.Time) time.Time { return t.Truncate(time.Hour).Add(time.Hour) }
