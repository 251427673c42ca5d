package policy

import (
	"fmt"
	"math"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/update"
	"github.com/freshet/freshet/scheduler/wic"
)

// wicPolicy is the policy wic: each slot executes the queries that would capture
// the most now, by importance, age and probability. It ranks by the largest
//
//	g = W · Σ_{t=0..τ−1} urgency(t) · π · life(t)
//
// where τ is the number of slots since the last execution, this one included, and π
// is the probability that the query changes in a slot, estimated from its
// executions. π is the same in all slots, so the sum has a closed form, and its
// cost does not grow with τ. A holder's urgency and life take precedence over the
// policy's. If a query has several holders, the largest g counts.
//
// π = 1 − e^(−λ), with λ updates per slot: the updates counted so far divided by
// the slots observed. An execution that found a change after τ slots counts λτ/(1 −
// e^(−λτ)) updates, because several are seen as one. Older counts fade, by half in
// wicHalf slots. The state holds the updates counted and the slots observed.
//
// Source: S. Pandey, K. Dhamdhere, C. Olston, "WIC: A general-purpose algorithm for
// monitoring web information sources", sections 2.3 and 3.2. The paper leaves the
// estimation of π open.
type wicPolicy struct {
	urgency wic.Urgency
	life    wic.Life
}

const (
	wicHalf = 24 * 28 // slots
	// The prior: one update in 3000 slots, with the weight of 150 slots.
	wicUpdates, wicSlots = 0.05, 150
)

func wicDefinition() Definition {
	return Definition{
		Name: "wic",
		Params: []Param{
			{Name: "urgency", Default: "uniform", Doc: "what a change is worth by its age in slots: uniform, exp,r or sliding,W"},
			{Name: "life", Default: "overwrite", Doc: "how long a change can be had: append, window,W, changes,Z or overwrite"},
		},
		Doc:    "what an execution now would capture, by importance, urgency, life and estimated probability of change",
		Source: "Pandey, Dhamdhere, Olston 2004, sections 2.3 and 3.2",
		Build: func(a Args) (Policy, error) {
			u, err := wic.ParseUrgency(a["urgency"])
			if err != nil {
				return nil, err
			}
			l, err := wic.ParseLife(a["life"])
			return wicPolicy{u, l}, err
		},
	}
}

func (p wicPolicy) String() string { return fmt.Sprintf("wic:urgency=%s:life=%s", p.urgency, p.life) }

func (wicPolicy) Fold(state []float64, last uint64, x Sample) []float64 {
	updates, slots := 0.0, 0.0
	if len(state) == 2 {
		updates, slots = state[0], state[1]
	}
	tau := float64(x.Slot - min(x.Slot, last))
	if x.Changed {
		updates += update.Several(updateRateOf(updates, slots) * tau)
	}
	fade := math.Exp2(-tau / wicHalf)
	return []float64{updates * fade, (slots + tau) * fade}
}

func updateRateOf(updates, slots float64) float64 { return (updates + wicUpdates) / (slots + wicSlots) }

// chance is π.
func (wicPolicy) chance(state []float64) float64 {
	if len(state) != 2 {
		state = []float64{0, 0}
	}
	return -math.Expm1(-updateRateOf(state[0], state[1]))
}

// gain is g in a slot.
func (p wicPolicy) gain(c *Candidate, slot uint64) float64 {
	pi, tau := p.chance(c.Stats.State), slot-min(slot, c.Stats.Last)
	most, plain := 0.0, len(c.Query.Holders) == 0
	for i := range c.Query.Holders {
		h := &c.Query.Holders[i]
		if h.Urgency == "" && h.Life == "" {
			plain = true
			continue
		}
		u, l := p.settings(h)
		most = max(most, wic.Steady(u, l, pi, tau))
	}
	if plain {
		most = max(most, wic.Steady(p.urgency, p.life, pi, tau))
	}
	return c.Query.Weight() * most
}

// settings returns a holder's urgency and life. A missing or invalid one is
// replaced by the policy's.
func (p wicPolicy) settings(h *registry.Holder) (wic.Urgency, wic.Life) {
	u, err := wic.ParseUrgency(h.Urgency)
	if err != nil || h.Urgency == "" {
		u = p.urgency
	}
	l, err := wic.ParseLife(h.Life)
	if err != nil || h.Life == "" {
		l = p.life
	}
	return u, l
}

// Key is replaced by the keys of each Rank.
func (wicPolicy) Key(c *Candidate) Key { return Key{Value: float64(c.Stats.Last)} }

// Rank puts the largest gain first. It leaves out a query that has nothing to gain
// in this slot, unless it is overdue.
func (p wicPolicy) Rank(m Moment, all []*Candidate) Ranking {
	keys := make([]Key, len(all))
	for i, c := range all {
		g := p.gain(c, m.Slot)
		keys[i] = Key{Value: -g}
		if g == 0 && c.Overdue == 0 {
			keys[i].Due = m.Slot + 1
		}
	}
	return Ranking{Keys: keys}
}

func (p wicPolicy) Inputs(_ Moment, _ Ranking, c *Candidate) map[string]float64 {
	return map[string]float64{"last": float64(c.Stats.Last), "weight": c.Query.Weight(), "chance": p.chance(c.Stats.State)}
}
