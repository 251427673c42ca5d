package shadow

import "time"

// A Range has the smallest and the largest value of the histories that were played. They
// differ in when each change that is known came: as early as the record allows in one, as
// late in another, and at any time between in the others.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// A Report says what a policy would have done.
type Report struct {
	Policy   string `json:"policy"`
	From     uint64 `json:"from"` // first slot played
	To       uint64 `json:"to"`   // the last
	Queries  int    `json:"queries"`
	Known    int    `json:"known"` // changes that the endpoint's policy found in these slots; others are not known
	Total    Range  `json:"total"` // executions
	Relevant Range  `json:"relevant"`
	Missed   Range  `json:"missed"` // changes overwritten by the next, or never looked for
	Delay    Range  `json:"delay"`  // slots, per change found, since it was there
	MaxDelay Range  `json:"max_delay"`
	Used     Range  `json:"used_seconds"`
	// Same is what the policy that really ran scores in the same histories.
	Same Score `json:"same"`
}

// A Score is how the recorded executions themselves do.
type Score struct {
	Total int     `json:"total"`
	Delay Range   `json:"delay"`
	Used  float64 `json:"used_seconds"`
}

// A tally is what one play amounts to.
type tally struct {
	changes, total, relevant int
	slots, longest           uint64 // of delay
	used                     time.Duration
}

func (t tally) delay() float64 { return float64(t.slots) / float64(max(1, t.relevant)) }

// summarize fills in the ranges of r: of what was played, and of the recorded executions
// in the same histories.
func (r *Report) summarize(played, recorded [pasts]tally) {
	r.Total = rangeOf(played, func(t tally) float64 { return float64(t.total) })
	r.Relevant = rangeOf(played, func(t tally) float64 { return float64(t.relevant) })
	r.Missed = rangeOf(played, func(t tally) float64 { return float64(t.changes - t.relevant) })
	r.Delay = rangeOf(played, tally.delay)
	r.MaxDelay = rangeOf(played, func(t tally) float64 { return float64(t.longest) })
	r.Used = rangeOf(played, func(t tally) float64 { return t.used.Seconds() })
	r.Same = Score{Total: recorded[0].total, Used: recorded[0].used.Seconds(), Delay: rangeOf(recorded, tally.delay)}
}

func rangeOf(all [pasts]tally, of func(tally) float64) Range {
	r := Range{of(all[0]), of(all[0])}
	for _, t := range all[1:] {
		r.Low, r.High = min(r.Low, of(t)), max(r.High, of(t))
	}
	return r
}
