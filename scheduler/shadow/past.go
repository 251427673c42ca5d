package shadow

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A past is a possible history: when the queries' results changed and how far. It is the
// world in which a policy is played.
type past struct {
	*history
	changes [][]change // by query, ascending
}

// A change leaves a part of the result alike, 1 − Jaccard distance. Parts multiply,
// as they do when rows are only added or only removed.
type change struct {
	slot  uint64
	alike float64
}

// pasts is how many histories are played.
const pasts = 8

// past returns a history in which the recorded executions find what they found. In the
// first one each change comes as early as the record allows, in the second one as late, and
// in the others at any time between.
func (h *history) past(number uint64) *past {
	s, r := &past{history: h, changes: make([][]change, len(h.queries))}, rand.New(rand.NewPCG(number, 0))
	for q := range s.changes {
		for since, x := range h.intervals(q) {
			if !x.Changed {
				continue
			}
			at := since + 1 + r.Uint64N(x.Slot-since)
			switch number {
			case 0:
				at = since + 1
			case 1:
				at = x.Slot
			}
			s.changes[q] = append(s.changes[q], change{at, 1 - x.Jaccard})
		}
	}
	return s
}

// within finds the changes of a query after one slot and up to another.
func (s *past) within(query int, after, to uint64) []change {
	list := s.changes[query]
	from, _ := slices.BinarySearchFunc(list, after+1, bySlot)
	end, _ := slices.BinarySearchFunc(list[from:], to+1, bySlot)
	return list[from : from+end]
}

func bySlot(e change, slot uint64) int { return cmp.Compare(e.slot, slot) }

// Execute returns what an execution would have brought. It takes what the recorded one of
// the slot took, else the one before it.
func (s *past) Execute(query int, slot, last uint64) plan.Known {
	before, all := s.before[query], s.executions[query]
	if n, _ := slices.BinarySearchFunc(all, slot+1, func(x policy.Sample, s uint64) int { return cmp.Compare(x.Slot, s) }); n > 0 {
		before = all[n-1]
	}
	k := plan.Known{Outcome: registry.Unchanged, Elapsed: before.Elapsed}
	if found := s.within(query, last, slot); len(found) > 0 {
		alike := 1.0
		for _, e := range found {
			alike *= e.alike
		}
		k.Outcome, k.Jaccard = registry.Changed, 1-alike
	}
	return k
}

// Total is unknown: slots are played one by one.
func (*past) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

// count returns the number of changes.
func (s *past) count() (n int) {
	for _, list := range s.changes {
		n += len(list)
	}
	return n
}

// add counts a complete execution of a query in a slot after one in last.
func (s *past) add(t *tally, query int, slot, last uint64, took time.Duration) {
	t.total++
	t.used += took
	if found := s.within(query, last, slot); len(found) > 0 {
		t.relevant++
		t.slots += slot - found[0].slot
		t.longest = max(t.longest, slot-found[0].slot)
	}
}

// recorded scores what really ran.
func (s *past) recorded() tally {
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
