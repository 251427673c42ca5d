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
	Pasts    int      `json:"pasts"` // possible ones that were played
	Known    int      `json:"known"` // changes that the endpoint's policy found in these slots
	Total    Estimate `json:"total"` // executions
	Relevant Estimate `json:"relevant"`
	Missed   Estimate `json:"missed"` // known changes overwritten by the next, or never looked for
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
	Delay    Estimate `json:"delay"`
	Used     float64  `json:"used_seconds"`
}

// Shadow estimates what a policy would have executed, found, missed and delayed
// on an endpoint's recorded history. It asks nobody. ctx ends it between two
// pasts.
//
// The history tells for every execution when the one before it was and whether
// something had changed in between, not when. So a number of pasts that fit it
// are drawn: each change found lies in a slot of its interval, all equally
// likely, independently of each other; in each past the policy is played by the
// planner under the endpoint's rule from the same start, owing nothing. An execution takes what the
// nearest recorded one of its query took. Estimates are means over the pasts
// with their standard deviations.
//
// What it cannot know: changes that came and went, or followed on each other,
// between two recorded executions count as one, so a policy that asks more
// often than the recorded one is scored too low, and "missed" counts known
// changes only. Each query's history begins with its oldest remembered
// execution: the slots played are those that at least half of the queries
// remember, and before its own first one a query counts as unchanged.
func Shadow(ctx context.Context, c ShadowConfig) (ShadowReport, error) {
	past, err := remember(c.Entries, c.Work)
	if err != nil {
		return ShadowReport{}, err
	}
	if _, cv := c.Policy.(clairvoyant); cv || c.Policy == nil {
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
	r.Missed = estimate(played, func(s score) float64 { return float64(r.Known - s.relevant) })
	r.Delay = estimate(played, score.delay)
	r.MaxDelay = estimate(played, func(s score) float64 { return float64(s.longest) })
	r.Used = estimate(played, func(s score) float64 { return s.used.Seconds() })
	r.Same = ShadowScore{Total: same[0].total, Relevant: same[0].relevant, Delay: estimate(same, score.delay), Used: same[0].used.Seconds()}
	return r, nil
}

// A history is what is remembered of an endpoint, its slots from 0.
type history struct {
	from, to uint64 // slots of the endpoint; from is t0
	queries  []registry.Query
	samples  [][]Sample // oldest first, those after from
	before   []Sample   // the last one until then
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
	return h, nil
}

// pasts is how many may be played.
func (h *history) pasts(work int) int {
	if work == 0 {
		return mostPasts
	}
	return min(mostPasts, max(fewestPasts, work/max(1, len(h.queries)*int(h.to-h.from))))
}

// A drawn is one possible past: when each change found came, in slots after
// from, with its distance; ascending.
type drawn struct {
	h       *history
	changes [][]event
}

type event struct {
	slot uint64
	at   int // the sample that found it
}

func (h *history) draw(seed uint64) *drawn {
	w := &drawn{h: h, changes: make([][]event, len(h.queries))}
	for q, samples := range h.samples {
		last := max(h.before[q].Slot, h.from) // the former where its history begins later
		for i, x := range samples {
			if x.Changed && x.Slot > last {
				gap := x.Slot - last
				w.changes[q] = append(w.changes[q], event{x.Slot - h.from - mixed(seed, uint64(q), x.Slot)%gap, i})
			}
			last = max(last, x.Slot)
		}
	}
	return w
}

// mixed is a number that follows from others and looks random.
func mixed(a, b, c uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b*0xbf58476d1ce4e5b9 + c*0x94d049bb133111eb
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Execute tells what an execution would have brought.
func (w *drawn) Execute(query int, slot, last uint64) Known {
	k := Known{Outcome: registry.Unchanged, Elapsed: w.h.cost(query, slot)}
	if slot == 0 {
		return k
	}
	list := w.changes[query]
	n, _ := slices.BinarySearchFunc(list, last+1, func(e event, s uint64) int { return cmp.Compare(e.slot, s) })
	if n < len(list) && list[n].slot <= slot {
		k.Outcome, k.Jaccard = registry.Changed, w.h.samples[query][list[n].at].Jaccard
	}
	return k
}

// Total says nothing: slots are played one by one.
func (*drawn) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

// cost is the time of the recorded execution nearest to a slot.
func (h *history) cost(query int, slot uint64) time.Duration {
	all, at := h.samples[query], slot+h.from
	n, _ := slices.BinarySearchFunc(all, at, func(x Sample, s uint64) int { return cmp.Compare(x.Slot, s) })
	before := h.before[query]
	if n > 0 {
		before = all[n-1]
	}
	if n < len(all) && all[n].Slot-at <= at-min(at, before.Slot) {
		return all[n].Elapsed
	}
	return before.Elapsed
}

// A score is what one play amounts to.
type score struct {
	total, relevant int
	slots, longest  uint64 // of delay
	used            time.Duration
}

func (s score) delay() float64 { return float64(s.slots) / float64(max(1, s.relevant)) }

// add counts a complete execution of a query in a slot after one in last.
func (s *score) add(w *drawn, query int, slot, last uint64, took time.Duration) {
	s.total++
	s.used += took
	list := w.changes[query]
	n, _ := slices.BinarySearchFunc(list, last+1, func(e event, s uint64) int { return cmp.Compare(e.slot, s) })
	if n < len(list) && list[n].slot <= slot {
		s.relevant++
		s.slots += slot - list[n].slot
		s.longest = max(s.longest, slot-list[n].slot)
	}
}

func (h *history) play(c ShadowConfig, w *drawn) (score, error) {
	r, err := NewReplay(ReplayConfig{Policy: c.Policy, Rule: cmp.Or(c.Rule, RuleStrict), Budget: c.Budget, Timeout: c.Timeout, Queries: h.queries, World: w, Ring: true, Ranked: true})
	if err != nil {
		return score{}, fmt.Errorf("shadow: %w", err)
	}
	var s score
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
	var s score
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
