package shadow

import (
	"math"
	"time"
)

// An Estimate is the mean over the sampled histories, its standard deviation over
// them, and the smallest and the largest: what the record leaves open, not what a
// longer one would show.
type Estimate struct {
	Mean float64 `json:"mean"`
	Dev  float64 `json:"dev"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// A Report says what a policy would have done.
type Report struct {
	Policy   string   `json:"policy"`
	From     uint64   `json:"from"` // first slot played
	To       uint64   `json:"to"`   // the last
	Queries  int      `json:"queries"`
	Samples  int      `json:"pasts"`   // histories that were played
	Known    int      `json:"known"`   // changes that the endpoint's policy found in these slots
	Changes  Estimate `json:"changes"` // those that there were
	Total    Estimate `json:"total"`   // executions
	Relevant Estimate `json:"relevant"`
	Missed   Estimate `json:"missed"` // changes overwritten by the next, or never looked for
	Delay    Estimate `json:"delay"`  // slots, per change found, since it was there
	MaxDelay Estimate `json:"max_delay"`
	Used     Estimate `json:"used_seconds"`
	// Same is what the policy that really ran scores in the same histories.
	Same Score `json:"same"`
}

// A Score is how the recorded executions themselves do.
type Score struct {
	Total    int      `json:"total"`
	Relevant int      `json:"relevant"`
	Missed   Estimate `json:"missed"`
	Delay    Estimate `json:"delay"`
	Used     float64  `json:"used_seconds"`
}

// A tally is what one play amounts to.
type tally struct {
	changes, total, relevant int
	slots, longest           uint64 // of delay
	used                     time.Duration
}

func (t tally) missed() float64 { return float64(t.changes - t.relevant) }

func (t tally) delay() float64 { return float64(t.slots) / float64(max(1, t.relevant)) }

// summarize fills in the estimates of r: of what was played, and of the recorded
// executions in the same histories.
func (r *Report) summarize(played, recorded []tally) {
	same := recorded[0] // only the delay and what is missed depend on the history
	r.Known = same.relevant
	r.Total = estimate(played, func(t tally) float64 { return float64(t.total) })
	r.Relevant = estimate(played, func(t tally) float64 { return float64(t.relevant) })
	r.Changes = estimate(played, func(t tally) float64 { return float64(t.changes) })
	r.Missed = estimate(played, tally.missed)
	r.Delay = estimate(played, tally.delay)
	r.MaxDelay = estimate(played, func(t tally) float64 { return float64(t.longest) })
	r.Used = estimate(played, func(t tally) float64 { return t.used.Seconds() })
	r.Same = Score{Total: same.total, Relevant: same.relevant, Used: same.used.Seconds(),
		Missed: estimate(recorded, tally.missed), Delay: estimate(recorded, tally.delay)}
}

func estimate(all []tally, of func(tally) float64) Estimate {
	e := Estimate{Low: math.Inf(1), High: math.Inf(-1)}
	for _, t := range all {
		e.Mean += of(t)
		e.Low, e.High = min(e.Low, of(t)), max(e.High, of(t))
	}
	e.Mean /= float64(len(all))
	for _, t := range all {
		e.Dev += (of(t) - e.Mean) * (of(t) - e.Mean)
	}
	e.Dev = math.Sqrt(e.Dev / float64(max(1, len(all)-1)))
	return e
}
