package update

import (
	"math"
	"time"
)

// A Week learns how often something is updated, by hour of the day and by day
// of the week: rate(t) = mean · hour(t) · day(t). It is plain data; the zero
// value has learnt nothing.
//
// What is observed are probes: whether there was an update since the one before.
// Several updates between two probes are seen as one; how many they were is
// estimated from the rate itself. Factors are drawn to 1 by a prior worth Prior
// updates, the mean by Before.
type Week struct {
	// Unit is the unit of time of all counters and rates; 0 is an hour.
	Unit time.Duration `json:"unit,omitempty"`
	// Before is what is assumed to have been seen before anything was; where it is
	// zero, one update in four months.
	Before Counter     `json:"before"`
	All    Counter     `json:"all"`
	Hour   [24]Counter `json:"hour"`
	Day    [7]Counter  `json:"day"` // from Sunday
}

// A Counter is what was seen in a time.
type Counter struct {
	Updates float64 `json:"updates"`
	Watched float64 `json:"watched"` // units of time
}

// Prior is how many updates the belief that all hours and days are alike is worth.
const Prior = 4

// priorUnits and priorUpdates are Before where it is not given.
const priorUpdates, priorUnits = 0.05, 146

func (w *Week) units(d time.Duration) float64 {
	return float64(d) / float64(w.unit())
}

// Mean is the number of updates in a unit of time.
func (w *Week) Mean() float64 {
	before := w.Before
	if before.Watched <= 0 {
		before = Counter{priorUpdates, priorUnits}
	}
	return (w.All.Updates + before.Updates) / (w.All.Watched + before.Watched)
}

// factor is how much busier the part is than all parts together.
func (c Counter) factor(mean float64) float64 {
	return (c.Updates + Prior) / (c.Watched*mean + Prior)
}

// At is the number of updates in a unit of time at time t.
func (w *Week) At(t time.Time) float64 {
	t = t.UTC()
	mean := w.Mean()
	return mean * w.Hour[t.Hour()].factor(mean) * w.Day[t.Weekday()].factor(mean)
}

// Learn takes in a probe at time to, the one before having been at from.
func (w *Week) Learn(from, to time.Time, updated bool) {
	span := to.Sub(from)
	if span <= 0 {
		return
	}
	count := 0.0
	if updated {
		count = several(w.At(from.Add(span/2)) * w.units(span))
	}
	w.spread(from, to, count)
	w.take(w.units(span), count)
}

// LearnMean learns from a probe that came so many units after the one before, at an
// unknown time of the week.
func (w *Week) LearnMean(units float64, updated bool) {
	count := 0.0
	if updated {
		count = several(w.Mean() * units)
	}
	w.take(units, count)
}

func (w *Week) take(units, count float64) {
	w.All.Watched += units
	w.All.Updates += count
}

// several is how many updates to expect where x were expected and there is at
// least one. What is always updated between two probes tells no more than that
// it is often: it counts five at most.
func several(x float64) float64 {
	if x < 1e-6 {
		return 1
	}
	return min(5, -x/math.Expm1(-x))
}

// spread divides what a probe found among the parts of the time before it, as the
// rates known so far have it. What looks back on more than a day tells nothing
// about the time of the day, more than a week nothing about that of the week.
func (w *Week) spread(from, to time.Time, count float64) {
	if to.Sub(from) > week {
		return
	}
	expected := w.Expected(from, to)
	type share struct {
		at             time.Time
		watched, count float64
	}
	var shares []share // all by the rates as they were
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

// Rates are the expected updates in n chronons of a length, the first of which
// begins at start.
func (w *Week) Rates(start time.Time, chronon time.Duration, n int) Rates {
	r := make(Rates, n)
	for i := range r {
		r[i] = w.At(start.Add(time.Duration(i)*chronon+chronon/2)) * w.units(chronon)
	}
	return r
}

// Expected is the number of updates to expect from one time to another, Λ(from, to).
func (w *Week) Expected(from, to time.Time) (sum float64) {
	if weeks := to.Sub(from) / week; weeks > 0 {
		sum = float64(weeks) * w.whole(from)
		from = from.Add(weeks * week)
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

// When is the time at which the number of updates to expect since start reaches
// count, or 250 years later where that is further. It takes a step for each
// hour of a week, however far that is.
func (w *Week) When(start time.Time, count float64) time.Time {
	const far = 250 * 365 * 24 * time.Hour // a Duration has room for little more
	each := w.whole(start)
	weeks := math.Floor(count / each)
	if !(each > 0) || weeks > float64(far/week) {
		return start.Add(far)
	}
	t := start.Add(time.Duration(weeks) * week)
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

const week = 7 * 24 * time.Hour

// whole is Λ over a week.
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
