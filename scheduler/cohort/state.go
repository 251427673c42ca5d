package cohort

import (
	"math"
	"slices"
	"time"
)

// A State is what a cohort has learnt, in a form that can be stored.
type State struct {
	Key       string             `json:"key"` // of the cohort, as its owner knows it
	At        time.Time          `json:"at"`  // when it was saved
	Kind      Kind               `json:"kind"`
	Single    Mean               `json:"single"` // seconds of a request
	Rows      Mean               `json:"rows"`   // of a member
	Turn      uint64             `json:"turn"`
	Answers   int                `json:"answers"` // merged answers since the last audit
	Audited   time.Time          `json:"audited,omitzero"`
	Audits    uint64             `json:"audits"`
	Different uint64             `json:"different"`
	Merged    map[Kind]KindState `json:"merged"`
}

// A Mean is the state of an average.
type Mean struct {
	Value float64 `json:"value"`
	N     int     `json:"n"`
}

// A KindState is what a cohort has learnt about one kind of merged requests.
type KindState struct {
	Costs     int           `json:"costs"` // requests from which the costs were learnt
	Weight    [3]float64    `json:"weight"`
	Cov       [3][3]float64 `json:"cov"`
	Sizes     Mean          `json:"sizes"`
	Confirmed Mean          `json:"confirmed"`
	Limit     int           `json:"limit"`
	Good      int           `json:"good"`
	Failures  int           `json:"failures"`     // of requests
	Off       time.Time     `json:"off,omitzero"` // until then the kind is not used
}

func (a average) mean() Mean { return Mean{a.value, a.n} }

func (m Mean) average() average {
	if !finite(m.Value) || m.N < 0 {
		return average{}
	}
	return average{value: m.Value, n: m.N}
}

func finite(list ...float64) bool {
	for _, f := range list {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return false
		}
	}
	return true
}

// State returns what the cohort has learnt.
func (c *Cohort) State(key string, now time.Time) State {
	s := State{
		Key: key, At: now.UTC().Round(0), Kind: c.last, Single: c.single.mean(), Rows: c.rows.mean(), Turn: c.turn, Answers: c.answers,
		Audited: c.audited.UTC(), Audits: c.audits, Different: c.different, Merged: map[Kind]KindState{},
	}
	for k, m := range c.merged {
		x := KindState{Sizes: m.sizes.mean(), Confirmed: m.confirmed.mean(), Limit: m.limit, Good: m.good, Failures: m.failures, Off: m.off.UTC()}
		if finite(m.costs.weight[:]...) && finite(m.costs.cov[0][:]...) && finite(m.costs.cov[1][:]...) && finite(m.costs.cov[2][:]...) {
			x.Costs, x.Weight, x.Cov = m.costs.n, m.costs.weight, m.costs.cov
		}
		s.Merged[k] = x
	}
	return s
}

// Restore makes the cohort know what another one had learnt. An audit or a switch-off in
// the future, from before the clock was set back, lasts no longer than a new one.
func (c *Cohort) Restore(s State, now time.Time) {
	c.single, c.rows, c.turn, c.answers = s.Single.average(), s.Rows.average(), s.Turn, s.Answers
	c.audits, c.different, c.audited = s.Audits, s.Different, s.Audited
	if slices.Contains(Kinds(), s.Kind) {
		c.last = s.Kind
	}
	for _, k := range Kinds() { // no trials now: all cohorts would have theirs at once
		c.tried[k] = s.Turn
	}
	for k, m := range c.merged {
		x, known := s.Merged[k]
		if !known {
			continue
		}
		m.costs = costs{n: x.Costs, weight: x.Weight, cov: x.Cov}
		if m.off = x.Off; m.off.Sub(now) > offFor {
			m.off = now.Add(offFor)
		}
		m.sizes, m.confirmed = x.Sizes.average(), x.Confirmed.average()
		m.limit, m.good, m.failures = min(max(1, x.Limit), MaxMembers), x.Good, min(max(0, x.Failures), mostFailures)
	}
}
