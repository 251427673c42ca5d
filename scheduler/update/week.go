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
// updates.
type Week struct {
	Updates float64     `json:"updates"`
	Watched float64     `json:"watched"` // hours
	Hour    [24]Counter `json:"hour"`
	Day     [7]Counter  `json:"day"` // from Sunday
}

// A Counter is what was seen in a part of the day or of the week.
type Counter struct {
	Updates float64 `json:"updates"`
	Watched float64 `json:"watched"` // hours
}

const (
	// Prior is how many updates the belief that all hours and days are alike
	// is worth.
	Prior = 4
	// Before anything is seen: one update in four months.
	priorUpdates, priorHours = 0.05, 146
)

// Mean is the number of updates an hour.
func (w *Week) Mean() float64 {
	return (w.Updates + priorUpdates) / (w.Watched + priorHours)
}

// factor is how much busier the part is than all parts together.
func (c Counter) factor(mean float64) float64 {
	return (c.Updates + Prior) / (c.Watched*mean + Prior)
}

// At is the number of updates an hour at time t.
func (w *Week) At(t time.Time) float64 {
	t = t.UTC()
	mean := w.Mean()
	return mean * w.Hour[t.Hour()].factor(mean) * w.Day[t.Weekday()].factor(mean)
}

// Learn takes in a probe at time to, the one before having been at from.
func (w *Week) Learn(from, to time.Time, updated bool) {
	hours := to.Sub(from).Hours()
	if hours <= 0 {
		return
	}
	count := 0.0
	if updated {
		count = several(w.At(from.Add(to.Sub(from)/2)) * hours)
	}
	w.Watched += hours
	w.Updates += count
	if hours <= 24 { // what is longer tells nothing about the time of the day
		spread(from, to, count, func(t time.Time) *Counter { return &w.Hour[t.Hour()] }, time.Hour)
	}
	if hours <= 7*24 {
		spread(from, to, count, func(t time.Time) *Counter { return &w.Day[t.Weekday()] }, 24*time.Hour)
	}
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

// spread divides what a probe found among the parts of the time before it.
func spread(from, to time.Time, count float64, part func(time.Time) *Counter, step time.Duration) {
	whole := to.Sub(from)
	for t := from.UTC(); t.Before(to); {
		end := t.Truncate(step).Add(step)
		if end.After(to) {
			end = to.UTC()
		}
		c := part(t)
		c.Watched += end.Sub(t).Hours()
		c.Updates += count * float64(end.Sub(t)) / float64(whole)
		t = end
	}
}

// Rates are the expected updates in n chronons of a length, the first of which
// begins at start.
func (w *Week) Rates(start time.Time, chronon time.Duration, n int) Rates {
	r := make(Rates, n)
	for i := range r {
		r[i] = w.At(start.Add(time.Duration(i)*chronon+chronon/2)) * chronon.Hours()
	}
	return r
}
