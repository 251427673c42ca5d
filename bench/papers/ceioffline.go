package papers

import (
	"cmp"
	"slices"
)

// offline is an approximation that knows all CEIs in advance. It considers the CEIs
// with fewer EIs first, then those that end earlier, and admits each CEI whose EIs
// can be scheduled together with those of all CEIs admitted before. It uses
// augmenting paths in the bipartite graph of EIs and probes (C_j in chronon j). EIs of
// the same resource share a probe when they are captured, but not for admission.
//
// Without intra-resource overlap it captures at least 1/k of the optimum, k the
// largest rank, which is better than the 2k that the paper quotes for its own
// baseline: sets of EIs that can be scheduled together are the independent sets of
// a transversal matroid. Let G be the admitted CEIs, I their EIs, O an optimum. Each
// CEI of O outside G has an EI in the span of I, or it would have been admitted
// when it was looked at, and the CEIs in both O and G lie in it whole. Those EIs
// together are independent, as part of O's, hence no more than |I| ≤ k·|G|.
type offline struct {
	l      *CEIWorkload
	places []assignment // by EI, with the chronon assigned
	at     [][]int      // EIs by chronon
	seen   []int        // chronon: round in which the search passed it
	round  int
}

type assignment struct {
	resource, from, to int
	chronon            int // 0 = none
}

func newOffline(l *CEIWorkload) *offline {
	o := &offline{l: l, at: make([][]int, l.K+1), seen: make([]int, l.K+1)}
	order := make([]int, len(l.CEIs))
	end := make([]uint64, len(l.CEIs))
	for i, c := range l.CEIs {
		order[i] = i
		for _, e := range c.EIs {
			end[i] = max(end[i], e.Finish)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(l.CEIs[a].EIs), len(l.CEIs[b].EIs)), cmp.Compare(end[a], end[b]), cmp.Compare(a, b))
	})
	for _, i := range order {
		o.admit(l.CEIs[i])
	}
	return o
}

// admit admits a CEI if all of its EIs fit.
func (o *offline) admit(c CEI) {
	first := len(o.places)
	for _, e := range c.EIs {
		o.places = append(o.places, assignment{resource: e.Resource, from: int(e.Start), to: int(min(e.Finish, uint64(o.l.K)))})
		if o.round++; !o.assign(len(o.places) - 1) {
			for i := first; i < len(o.places); i++ {
				o.free(i)
			}
			o.places = o.places[:first]
			return
		}
	}
}

// assign finds a chronon for an EI. It moves other EIs if necessary.
func (o *offline) assign(i int) bool {
	p := &o.places[i]
	for t := p.from; t <= p.to; t++ {
		if len(o.at[t]) < o.l.C.At(t) {
			o.put(i, t)
			return true
		}
	}
	for t := p.from; t <= p.to; t++ {
		if o.seen[t] == o.round {
			continue
		}
		o.seen[t] = o.round
		for _, other := range slices.Clone(o.at[t]) {
			if o.assign(other) {
				o.put(i, t)
				return true
			}
		}
	}
	return false
}

func (o *offline) put(i, t int) {
	o.free(i)
	o.places[i].chronon = t
	o.at[t] = append(o.at[t], i)
}

func (o *offline) free(i int) {
	if t := o.places[i].chronon; t > 0 {
		o.at[t] = slices.DeleteFunc(o.at[t], func(x int) bool { return x == i })
		o.places[i].chronon = 0
	}
}

// choose returns the resources of a chronon, each once.
func (o *offline) choose(t, _ int) []int {
	chosen := make([]int, 0, len(o.at[t]))
	for _, i := range o.at[t] {
		chosen = append(chosen, o.places[i].resource)
	}
	slices.Sort(chosen)
	return slices.Compact(chosen)
}
