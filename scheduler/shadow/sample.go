package shadow

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A sampledHistory is one possible history: when the queries' results changed and
// how far. It is the world in which a policy is played.
type sampledHistory struct {
	*history
	seed    uint64
	changes [][]change // by query, ascending
}

// A change leaves a part of the result alike, 1 − Jaccard distance. Parts multiply,
// as they do when rows are only added or only removed; those of one interval
// multiply to what was found.
type change struct {
	slot  uint64
	alike float64
}

// sample draws a history in which the recorded executions find what they found.
// Every query has one rate, which is drawn. An interval whose end found a change
// has at least one, an interval whose end found none has none, and the time after
// the last execution is open.
func (h *history) sample(seed uint64) *sampledHistory {
	s := &sampledHistory{history: h, seed: seed, changes: make([][]change, len(h.queries))}
	r := rand.New(rand.NewPCG(seed, 0))
	for q, k := range h.drawRates(r) {
		rate := math.Ldexp(policy.LowestRate, k)
		last, alike := max(h.before[q].Slot, h.from), 0.0
		for since, x := range h.intervals(q) {
			if last = x.Slot; x.Changed {
				new := s.between(q, r, rate, since, x.Slot, true)
				alike = math.Pow(1-x.Jaccard, 1/float64(len(new)))
				for i := range new {
					new[i].alike = alike
				}
			}
		}
		for i, new := 0, s.between(q, r, rate, last, h.to, false); i < len(new); i++ {
			new[i].alike = alike
		}
	}
	return s
}

// between draws the changes of a query in the slots after one and up to another:
// at most one in each slot and, when certain is true, at least one in all.
func (s *sampledHistory) between(q int, r *rand.Rand, rate float64, after, to uint64, certain bool) []change {
	slots, at, n := float64(to-after), 0.0, len(s.changes[q])
	if certain {
		// The first of a geometric distribution that ends with the interval.
		at = min(slots, 1+math.Floor(-math.Log1p(r.Float64()*math.Expm1(-rate*slots))/rate))
	} else {
		at = 1 + math.Floor(r.ExpFloat64()/rate)
	}
	for ; at <= slots; at += 1 + math.Floor(r.ExpFloat64()/rate) {
		s.changes[q] = append(s.changes[q], change{slot: after + uint64(at)})
	}
	return s.changes[q][n:]
}

// within finds the changes of a query after one slot and up to another.
func (s *sampledHistory) within(query int, after, to uint64) []change {
	list := s.changes[query]
	from, _ := slices.BinarySearchFunc(list, after+1, bySlot)
	end, _ := slices.BinarySearchFunc(list[from:], to+1, bySlot)
	return list[from : from+end]
}

func bySlot(e change, slot uint64) int { return cmp.Compare(e.slot, slot) }

// Execute returns what an execution would have brought.
func (s *sampledHistory) Execute(query int, slot, last uint64) plan.Known {
	k := plan.Known{Outcome: registry.Unchanged, Elapsed: s.cost(query, slot)}
	if found := s.within(query, last, slot); len(found) > 0 {
		alike := 1.0
		for _, e := range found {
			alike *= e.alike
		}
		k.Outcome, k.Jaccard = registry.Changed, 1-alike
	}
	return k
}

// cost is what a recorded execution in the slot took, else what one of the two
// nearest took.
func (s *sampledHistory) cost(query int, slot uint64) time.Duration {
	all := s.executions[query]
	n, found := slices.BinarySearchFunc(all, slot, func(x policy.Sample, s uint64) int { return cmp.Compare(x.Slot, s) })
	before := s.before[query]
	if n > 0 {
		before = all[n-1]
	}
	if found || n < len(all) && mixed(s.seed, uint64(query), slot)&1 > 0 {
		return all[n].Elapsed
	}
	return before.Elapsed
}

// mixed is a pseudo-random function of its arguments.
func mixed(a, b, c uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b*0xbf58476d1ce4e5b9 + c*0x94d049bb133111eb
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Total is unknown: slots are played one by one.
func (*sampledHistory) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

// count returns the number of changes.
func (s *sampledHistory) count() (n int) {
	for _, list := range s.changes {
		n += len(list)
	}
	return n
}

// add counts a complete execution of a query in a slot after one in last.
func (s *sampledHistory) add(t *tally, query int, slot, last uint64, took time.Duration) {
	t.total++
	t.used += took
	if found := s.within(query, last, slot); len(found) > 0 {
		t.relevant++
		t.slots += slot - found[0].slot
		t.longest = max(t.longest, slot-found[0].slot)
	}
}

// recorded scores what really ran.
func (s *sampledHistory) recorded() tally {
	t := tally{changes: s.count()}
	for q, samples := range s.executions {
		last := s.from
		for _, x := range samples {
			s.add(&t, q, x.Slot, last, x.Elapsed)
			last = x.Slot
		}
	}
	return t
}
