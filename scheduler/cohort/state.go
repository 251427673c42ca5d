package cohort

import (
	"math"
	"slices"
	"time"
)

// A State is what a cohort has learnt, and what is stored of it.
type State struct {
	Key       string              `json:"key"`    // of the cohort, as its owner knows it; empty until it is saved
	At        time.Time           `json:"at"`     // when it was saved
	Kind      Kind                `json:"kind"`   // of the last request
	Single    Mean                `json:"single"` // seconds of a request
	Rows      Mean                `json:"rows"`   // of a member
	Turn      uint64              `json:"turn"`
	Answers   int                 `json:"answers"` // merged answers since the last audit
	Audited   time.Time           `json:"audited,omitzero"`
	Audits    uint64              `json:"audits"`
	Different uint64              `json:"different"`
	Merged    map[Kind]*KindState `json:"merged"`
}

// A Mean follows a quantity.
type Mean struct {
	Value float64 `json:"value"`
	N     int     `json:"n"`
}

// A KindState is what a cohort has learnt about one kind of merged requests.
type KindState struct {
	Costs     int           `json:"costs"` // requests from which the costs were learnt
	Weight    [3]float64    `json:"weight"`
	Cov       [3][3]float64 `json:"cov"`
	Sizes     Mean          `json:"sizes"`        // members of a request
	Confirmed Mean          `json:"confirmed"`    // part of the members that are confirmed
	Limit     int           `json:"limit"`        // members of a request at most
	Good      int           `json:"good"`         // requests of that size since the limit was set
	Failures  int           `json:"failures"`     // of requests, mostFailures at most
	Off       time.Time     `json:"off,omitzero"` // until then the kind is not used
}

// sound is the mean, or none if it cannot be used.
func (m Mean) sound() Mean {
	if !finite(m.Value) || m.N < 0 {
		return Mean{}
	}
	return m
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
	s := c.known
	s.Key, s.At, s.Audited, s.Merged = key, now.UTC().Round(0), s.Audited.UTC(), map[Kind]*KindState{}
	for k, m := range c.known.Merged {
		x := *m
		x.Off = m.Off.UTC()
		if !finite(x.Weight[:]...) || !finite(x.Cov[0][:]...) || !finite(x.Cov[1][:]...) || !finite(x.Cov[2][:]...) {
			x.Costs, x.Weight, x.Cov = 0, [3]float64{}, [3][3]float64{}
		}
		s.Merged[k] = &x
	}
	return s
}

// Restore makes the cohort know what another one had learnt. An audit or a switch-off in
// the future, from before the clock was set back, lasts no longer than a new one.
func (c *Cohort) Restore(s State, now time.Time) {
	own := c.known
	c.known = s
	c.known.Single, c.known.Rows, c.known.Merged = s.Single.sound(), s.Rows.sound(), own.Merged
	if !slices.Contains(Kinds(), s.Kind) {
		c.known.Kind = own.Kind
	}
	for _, k := range Kinds() { // no trials now: all cohorts would have theirs at once
		c.tried[k] = s.Turn
	}
	for k, m := range c.known.Merged {
		x := s.Merged[k]
		if x == nil {
			continue
		}
		*m = *x
		if m.Off.Sub(now) > offFor {
			m.Off = now.Add(offFor)
		}
		m.Sizes, m.Confirmed = x.Sizes.sound(), x.Confirmed.sound()
		m.Limit, m.Failures = min(max(1, x.Limit), MaxMembers), min(max(0, x.Failures), mostFailures)
	}
}
