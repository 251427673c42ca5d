package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// TestOrder applies the operations of slots to an order and compares all answers with a
// sorted list. Items leave and enter with the same key and with other ones.
func TestOrder(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var tr order
		var list []*item                        // in order
		serial, slot, ranks := 0, 0, seed%2 > 0 // a Ranker gives new keys in each slot
		key := func() policy.Key {
			switch r.IntN(3) {
			case 0: // as round robin does
				return policy.Key{Class: 2, Value: float64(50 + slot)}
			case 1:
				return policy.Key{Class: 1}
			}
			return policy.Key{Class: r.IntN(3), Value: float64(r.IntN(50)), Low: float64(r.IntN(2))}
		}
		place := func(c *item) {
			i, _ := slices.BinarySearchFunc(list, c, compareItems)
			list = slices.Insert(list, i, c)
			if c.in = &tr; !ranks {
				tr.insert(c)
			}
		}
		for range 1 + r.IntN(2000) {
			c := &item{key: key()}
			serial++
			c.Query.ID = fmt.Sprintf("%02d q%d", r.IntN(3), serial) // many share their first bytes
			c.Prefix = prefix(c.Query.ID)
			c.Stats.Last, c.Estimate = uint64(r.IntN(5)), time.Duration(1+r.IntN(1000))
			place(c)
		}
		for ; slot < 60; slot++ {
			if ranks {
				var entries []entry
				for _, c := range list {
					if r.IntN(3) == 0 {
						c.key = key()
					}
					entries = append(entries, entryOf(c))
				}
				r.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
				tr.load(entries)
				slices.SortFunc(list, compareItems)
			}
			var ran []*item
			for range r.IntN(len(list)) {
				left := time.Duration(r.IntN(1000) / (1 + r.IntN(100)))
				if r.IntN(2) == 0 {
					left = never - 1
				}
				i := slices.IndexFunc(list, func(c *item) bool { return c.Estimate <= left })
				c := tr.fits(left)
				if i < 0 && c != nil || i >= 0 && c != list[i] {
					t.Fatalf("seed %d, slot %d: the first that fits %d is another one", seed, slot, left)
				}
				if r.IntN(20) == 0 && len(list) > 0 { // a hint or a claim
					i = r.IntN(len(list))
				}
				if i >= 0 {
					tr.remove(list[i])
					ran = append(ran, list[i])
					list = slices.Delete(list, i, i+1)
				}
				if slot%5 == 4 && r.IntN(50) == 0 {
					comparePlaces(t, &tr, list, r)
				}
			}
			for _, c := range ran {
				switch r.IntN(4) {
				case 0: // cut: its estimate rises
					c.Estimate += time.Duration(r.IntN(100))
				case 1: // removed
					if len(list) > 10 {
						continue
					}
				default:
					c.key, c.Stats.Last = key(), uint64(slot)
				}
				place(c)
				if !ranks && r.IntN(10) == 0 { // edited
					tr.remove(c)
					tr.insert(c)
				}
			}
			if !ranks && slot%3 == 0 {
				comparePlaces(t, &tr, list, r)
			}
		}
	}
}

func comparePlaces(t *testing.T, tr *order, list []*item, r *rand.Rand) {
	t.Helper()
	if got := slices.Collect(tr.all); !slices.Equal(got, list) || tr.n != len(list) {
		for i := range list {
			if i < len(got) && got[i] != list[i] {
				t.Logf("%d: got %+v %s, want %+v %s", i, entryOf(got[i]), got[i].Query.ID, entryOf(list[i]), list[i].Query.ID)
				break
			}
		}
		t.Fatalf("the order is another one: %d of %d items", len(got), len(list))
	}
	var sums []time.Duration
	sum := time.Duration(0)
	for _, c := range list {
		sums = append(sums, sum)
		sum += c.Estimate
	}
	for range min(50, len(list)) {
		i := r.IntN(len(list))
		if rank, cost := tr.place(entryOf(list[i])); rank != i+1 || cost != sums[i] {
			t.Fatalf("number %d after %d counts as %d after %d", i+1, sums[i], rank, cost)
		}
	}
}

// A query that is asked to refresh runs once, whatever has been sorted of the order in which it was before.
func TestEntersAgain(t *testing.T) {
	for _, spelling := range []string{"hybrid", "rr"} {
		p := New(named(spelling), 10*time.Second)
		q, s := estimated("a", 7*time.Second)
		p.slot = 2
		p.put(q, s)
		p.Refresh(noon)
		q.Refreshes = 1
		p.put(q, s)
		p.begin(2, noon, 0)
		b := newSlotBudget(p, 1, time.Hour, 0)
		n, runs := p.ranked.n, 0
		for r := b.Next(noon); r != nil && runs < 5; r = b.Next(noon) {
			runs++
			b.Finish(r, registry.Answer{Outcome: registry.Unchanged, Elapsed: time.Millisecond}, false)
		}
		if n != 1 || runs != 1 {
			t.Errorf("%s: one query counts as %d and runs %d times", spelling, n, runs)
		}
	}
}
