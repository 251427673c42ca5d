package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// A ShadowConfig asks what another policy would have done.
type ShadowConfig struct {
	Policy Policy
	Budget time.Duration
	Rule   string // RuleStrict when empty, or RuleDebt
	// Timeout of one execution, 0 = none.
	Timeout time.Duration
	// Entries are the queries of the endpoint with their statistics: the
	// executions in Stats.Samples are the recorded history.
	Entries []Entry
	// Worlds is how many possible pasts are played, 0 for 16.
	Worlds int
	Seed   uint64
	// Work, when given, bounds queries × slots × pasts: then there are as many
	// pasts, from 4 to 16, as it allows, and of more slots than 4 allow the last.
	Work int
}

// ErrNoHistory: no query has been executed yet.
var ErrNoHistory = errors.New("no query has a history yet")

// An Estimate is the mean over the possible pasts, its standard deviation over
// them, and the least and the greatest: what the history leaves open, not what a
// longer one would show.
type Estimate struct {
	Mean float64 `json:"mean"`
	Dev  float64 `json:"dev"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// A ShadowReport says what a policy would have done.
type ShadowReport struct {
	Policy   string   `json:"policy"`
	From     uint64   `json:"from"` // first slot played
	To       uint64   `json:"to"`   // the last
	Queries  int      `json:"queries"`
	Pasts    int      `json:"pasts"`   // possible ones that were played
	Known    int      `json:"known"`   // changes that the endpoint's policy found in these slots
	Changes  Estimate `json:"changes"` // those that there were
	Total    Estimate `json:"total"`   // executions
	Relevant Estimate `json:"relevant"`
	Missed   Estimate `json:"missed"` // changes overwritten by the next, or never looked for
	Delay    Estimate `json:"delay"`  // slots, per change found, since it was there
	MaxDelay Estimate `json:"max_delay"`
	Used     Estimate `json:"used_seconds"`
	// Same is what the policy that really ran scores in the same pasts.
	Same ShadowScore `json:"same"`
}

// A ShadowScore is how the recorded executions themselves do.
type ShadowScore struct {
	Total    int      `json:"total"`
	Relevant int      `json:"relevant"`
	Missed   Estimate `json:"missed"`
	Delay    Estimate `json:"delay"`
	Used     float64  `json:"used_seconds"`
}

// Shadow estimates what a policy would have executed, found, missed and delayed
// on an endpoint's recorded history. It asks nobody. ctx ends it between two
// pasts.
//
// The history tells for every execution when the one before it was and whether
// something had changed in between, not when or how often. So a number of pasts
// that fit it are drawn, in which the recorded executions find what they found:
// results change in each slot with a probability of the query's own, which is
// drawn from what its history and those of the others make of it. In each past
// the policy is played by the planner under the endpoint's rule from the same
// start, owing nothing. An execution takes what the recorded one of its query and
// slot took, or one of the two nearest. Estimates are means over the pasts with
// their standard deviations.
//
// What it cannot know: whether a result changed and came back between two
// executions (it is taken as unchanged), and rates that rose or fell on the way
// (a query has one). Each query's history begins with its oldest remembered
// execution: the slots played are those that at least half of the queries
// remember, and before its own first one a query counts as unchanged.
func Shadow(ctx context.Context, c ShadowConfig) (ShadowReport, error) {
	past, err := remember(c.Entries, c.Work)
	if err != nil {
		return ShadowReport{}, err
	}
	if c.Policy == nil || policy.NeedsOracle(c.Policy) {
		return ShadowReport{}, fmt.Errorf("shadow: %w: a policy that can run live is needed", ErrPolicy)
	}
	worlds := cmp.Or(c.Worlds, past.pasts(c.Work))
	r := ShadowReport{Policy: c.Policy.String(), From: past.from + 1, To: past.to, Queries: len(past.queries), Pasts: worlds}
	var played, same []score
	for n := range worlds {
		if ctx.Err() != nil {
			return ShadowReport{}, fmt.Errorf("shadow: %w", ctx.Err())
		}
		w := past.draw(c.Seed + uint64(n))
		s, err := past.play(c, w)
		if err != nil {
			return ShadowReport{}, err
		}
		played, same = append(played, s), append(same, past.recorded(w))
	}
	r.Known = same[0].relevant
	r.Total = estimate(played, func(s score) float64 { return float64(s.total) })
	r.Relevant = estimate(played, func(s score) float64 { return float64(s.relevant) })
	r.Changes = estimate(played, func(s score) float64 { return float64(s.changes) })
	r.Missed = estimate(played, score.missed)
	r.Delay = estimate(played, score.delay)
	r.MaxDelay = estimate(played, func(s score) float64 { return float64(s.longest) })
	r.Used = estimate(played, func(s score) float64 { return s.used.Seconds() })
	r.Same = ShadowScore{Total: same[0].total, Relevant: same[0].relevant, Missed: estimate(same, score.missed), Delay: estimate(same, score.delay), Used: same[0].used.Seconds()}
	return r, nil
}

// A history is what is remembered of an endpoint, its slots from 0.
type history struct {
	from, to uint64 // slots of the endpoint; from is t0
	queries  []registry.Query
	samples  [][]Sample       // oldest first, those after from
	before   []Sample         // the last one until then
	chances  [][rates]float64 // by query: what each rate makes of its history
}

// remember finds the slots to play.
func remember(entries []Entry, work int) (*history, error) {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return len(e.Stats.Samples) == 0 })
	if len(entries) == 0 {
		return nil, fmt.Errorf("shadow: %w", ErrNoHistory)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Query.ID, b.Query.ID) })
	h := &history{}
	var firsts []uint64
	for _, e := range entries {
		firsts = append(firsts, e.Stats.Samples[0].Slot)
		h.to = max(h.to, e.Stats.Last)
	}
	slices.Sort(firsts)
	h.from = firsts[len(firsts)/2]
	if work > 0 {
		h.from = max(h.from, h.to-min(h.to, uint64(max(1, work/fewestPasts/len(entries)))))
	}
	for _, e := range entries {
		all := e.Stats.Samples
		n, _ := slices.BinarySearchFunc(all, h.from+1, func(x Sample, s uint64) int { return cmp.Compare(x.Slot, s) })
		h.queries = append(h.queries, registry.Query{ID: e.Query.ID, Constants: e.Query.Constants, Form: e.Query.Form})
		h.before = append(h.before, all[max(0, n-1)])
		h.samples = append(h.samples, all[n:])
	}
	h.chances = h.likelihood()
	return h, nil
}

// pasts is how many may be played.
func (h *history) pasts(work int) int {
	if work == 0 {
		return mostPasts
	}
	return min(mostPasts, max(fewestPasts, work/max(1, len(h.queries)*int(h.to-h.from))))
}

// A score is what one play amounts to.
type score struct {
	changes, total, relevant int
	slots, longest           uint64 // of delay
	used                     time.Duration
}

func (s score) missed() float64 { return float64(s.changes - s.relevant) }

func (s score) delay() float64 { return float64(s.slots) / float64(max(1, s.relevant)) }

// add counts a complete execution of a query in a slot after one in last.
func (s *score) add(w *drawn, query int, slot, last uint64, took time.Duration) {
	s.total++
	s.used += took
	if found := w.within(query, last, slot); len(found) > 0 {
		s.relevant++
		s.slots += slot - found[0].slot
		s.longest = max(s.longest, slot-found[0].slot)
	}
}

func (h *history) play(c ShadowConfig, w *drawn) (score, error) {
	r, err := NewReplay(ReplayConfig{Policy: c.Policy, Rule: cmp.Or(c.Rule, RuleStrict), Budget: c.Budget, Timeout: c.Timeout, Queries: h.queries, World: w, Ring: true, Ranked: true})
	if err != nil {
		return score{}, fmt.Errorf("shadow: %w", err)
	}
	s := score{changes: w.total()}
	last := make([]uint64, len(h.queries))
	for slot := uint64(1); slot <= h.to-h.from; slot++ {
		r.Slot(func(x Played) {
			if !x.Outcome.Complete() {
				s.used += x.Elapsed
				return
			}
			s.add(w, x.Query, slot, last[x.Query], x.Elapsed)
			last[x.Query] = slot
		})
	}
	return s, nil
}

// recorded scores what really ran.
func (h *history) recorded(w *drawn) score {
	s := score{changes: w.total()}
	for q, samples := range h.samples {
		var last uint64
		for _, x := range samples {
			s.add(w, q, x.Slot-h.from, last, x.Elapsed)
			last = x.Slot - h.from
		}
	}
	return s
}

func estimate(all []score, of func(score) float64) Estimate {
	e := Estimate{Low: math.Inf(1), High: math.Inf(-1)}
	for _, s := range all {
		e.Mean += of(s)
		e.Low, e.High = min(e.Low, of(s)), max(e.High, of(s))
	}
	e.Mean /= float64(len(all))
	for _, s := range all {
		e.Dev += (of(s) - e.Mean) * (of(s) - e.Mean)
	}
	e.Dev = math.Sqrt(e.Dev / float64(max(1, len(all)-1)))
	return e
}
