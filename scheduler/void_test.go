package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// many registers n queries with one row each.
func (d *dataset) many(w *world, n int) (all []string) {
	all = names("n", n)
	for _, name := range all {
		d.set(name, "value of "+name)
		d.register(w, name)
	}
	return all
}

// unasked counts the queries that a slot left out.
func unasked(w *world, slot uint64) (n int) {
	w.t.Helper()
	news, err := w.ledger.Since(city, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range news.Entries {
		if e.Stats.LastRun.Slot != slot {
			n++
		}
	}
	return n
}

// A merged request that says nothing, once in every slot, leaves no query out while budget is left,
// whatever its answer was. The slot's record says how many were void, and why.
func TestLongVoidRequestLeavesNoQueryOut(t *testing.T) {
	for _, bad := range []registry.Outcome{registry.Partial, registry.Failed, registry.Timeout, registry.Rejected} {
		for _, mode := range []string{registry.MergeValues, registry.MergeProbe} {
			t.Run(fmt.Sprintf("%s/%s", bad, mode), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					d := newDataset(t)
					w := newWorld(t, merging(endpoint("never", time.Minute, "rr"), mode), d.reply)
					all := d.many(w, 669)
					w.run()
					first, voids, left := false, 0, 0
					d.fault = func(int) registry.Outcome {
						if first {
							first = false
							voids++
							return bad
						}
						return registry.Changed
					}
					for range 12 {
						first = true
						d.set(all[7], fmt.Sprint("value ", time.Now()))
						s := w.tick()
						left += unasked(w, s.Number)
						if void := !first && voids > 0; s.Number > 3 && (s.Void == 0) == void || s.Void > 0 && s.VoidReason == "" {
							t.Errorf("slot %d: void requests %d (%q)", s.Number, s.Void, s.VoidReason)
						}
						time.Sleep(time.Minute)
					}
					w.stop()
					d.checkTruth(w, true)
					if voids < 8 || left > 0 {
						t.Errorf("%d requests were void; the slots left %d queries out", voids, left)
					}
				})
			})
		}
	}
}

// A member that spoils every request is found by halving, and asked alone from then on. The others are
// asked together as before, and no slot leaves any query out.
func TestSpoilerIsFound(t *testing.T) {
	for queries, spoilers := range map[int][]int{1000: {7}, 999: {0}, 998: {123, 124, 900}} {
		t.Run(fmt.Sprint(queries, spoilers), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d := newDataset(t)
				spoilt := false
				w := newWorld(t, merging(endpoint("never", time.Minute, "rr"), registry.MergeValues), func(q *registry.Query, n int) reply {
					if q.Merged {
						spoilt = slices.ContainsFunc(spoilers, func(i int) bool { return strings.Contains(q.Text, fmt.Sprintf("\"n%05d\"", i)) })
						d.fault = func(int) registry.Outcome {
							if spoilt {
								return registry.Partial
							}
							return registry.Changed
						}
					}
					return d.reply(q, n)
				})
				d.many(w, queries)
				w.run()
				left, requests := 0, []int{}
				for range 8 {
					s := w.tick()
					left += unasked(w, s.Number)
					requests = append(requests, s.Asks)
					time.Sleep(time.Minute)
				}
				t.Logf("requests in each slot: %v; %v", requests, d.asks)
				if last := requests[len(requests)-1]; left > 0 || last > 14+len(spoilers) { // audits among them
					t.Errorf("the slots left %d queries out; the last one needed %d requests", left, last)
				}
				templates := w.loop.Templates()
				if c := templates[0]; c.Alone != len(spoilers) || c.Void[cohort.Values] == 0 {
					t.Errorf("the template says %+v", c)
				}
				if x, err := w.loop.Explain(fmt.Sprintf("q_n%05d", spoilers[0])); err != nil || !strings.Contains(x.Why, "asked alone") {
					t.Errorf("%v %q", err, x.Why)
				}
				w.stop()
				d.checkTruth(w, true)
			})
		})
	}
}

// What a slot leaves out after a void request, because its budget is used up, is asked in the next one,
// and explained.
func TestVoidRequestIsExplained(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		w := newWorld(t, merging(endpoint("never", time.Second, "rr"), registry.MergeValues), func(q *registry.Query, n int) reply {
			r := d.reply(q, n)
			if r.outcome == registry.Partial {
				r.takes = 995 * time.Millisecond
			}
			return r
		})
		all := d.many(w, 20)
		w.run()
		for range 3 {
			w.tick()
			time.Sleep(time.Minute)
		}
		d.fault = func(int) registry.Outcome { return registry.Partial }
		s := w.tick()
		said := 0
		for _, n := range all {
			if x, err := w.loop.Explain("q_" + n); err == nil && x.PassedOver != nil && x.PassedOver.Slot == s.Number &&
				strings.Contains(x.PassedOver.Reason, "said nothing") {
				said++
			}
		}
		if left := unasked(w, s.Number); s.Void == 0 || left == 0 || said == 0 {
			t.Errorf("%d queries were left out, %d are explained: %+v", left, said, s)
		}
		w.stop()
	})
}

// A row count that is round makes a merged answer doubtful, unless max_rows says where the endpoint stops.
func TestMaxRowsEndsDoubtAboutRoundNumbers(t *testing.T) {
	for _, maxRows := range []int{0, 100_000} {
		bubble.Test(t, func(t *testing.T) {
			d := newDataset(t)
			e := merging(endpoint("never", time.Minute, "rr"), registry.MergeValues)
			e.MaxRows = maxRows
			w := newWorld(t, e, d.reply)
			all := d.many(w, 16)
			for i, n := range all { // 16 members with 8 rows each: 128 rows after n00000 has lost one of 9
				rows := 8
				if i == 0 {
					rows = 9
				}
				var list []string
				for k := range rows {
					list = append(list, fmt.Sprint(n, " ", k))
				}
				d.set(n, list...)
			}
			w.run()
			w.tick()
			time.Sleep(time.Minute)
			d.set(all[0], d.now(all[0])[1:]...)
			s := w.tick()
			if doubted := s.Void > 0; doubted != (maxRows == 0) || doubted && !strings.Contains(s.VoidReason, "max_rows") {
				t.Errorf("max_rows %d: %d void requests (%q)", maxRows, s.Void, s.VoidReason)
			}
			if n := unasked(w, s.Number); n > 60 {
				t.Errorf("max_rows %d: %d queries were left out", maxRows, n)
			}
			w.stop()
			d.checkTruth(w, true)
		})
	}
}

// A probe whose answer ends at a round number of rows says nothing either: a query that had no rows, and has some that were cut
// off, would look unchanged.
func TestProbesMayBeCapped(t *testing.T) {
	for _, maxRows := range []int{0, 100_000} {
		bubble.Test(t, func(t *testing.T) {
			d := newDataset(t)
			e := merging(endpoint("never", time.Minute, "rr"), registry.MergeProbe)
			e.MaxRows = maxRows
			w := newWorld(t, e, d.reply)
			all := d.many(w, 120)
			empty := all[119]
			d.set(empty)
			w.run()
			for d.most < 120 {
				w.tick()
				time.Sleep(time.Minute)
			}
			d.cap = 100
			d.set(empty, "a value")
			s := w.tick()
			if doubted := s.Void > 0; doubted != (maxRows == 0) || doubted && !strings.Contains(s.VoidReason, "max_rows") {
				t.Errorf("max_rows %d: %d void requests (%q)", maxRows, s.Void, s.VoidReason)
			}
			w.stop()
			d.checkTruth(w, maxRows == 0)
		})
	}
}

// A probe that ends where all queries that had rows are told says nothing about the others: one that has its first rows may be the one
// that was cut off. Where that is the shape of each honest answer, the others are not asked alone after each of them.
func TestProbesMayBeCappedAtWhatHadRows(t *testing.T) {
	for _, honest := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			d := newDataset(t)
			w := newWorld(t, merging(endpoint("never", time.Minute, "rr"), registry.MergeProbe), d.reply)
			all := d.many(w, 120)
			for _, n := range all[100:] {
				d.set(n)
			}
			w.run()
			for d.most < 120 {
				w.tick()
				time.Sleep(time.Minute)
			}
			if !honest {
				d.cap = 100
				d.set(all[119], "a value")
			}
			before := d.asks[cohort.Single]
			s := w.tick()
			for range 20 {
				time.Sleep(time.Minute)
				w.tick()
			}
			if n := d.asks[cohort.Single] - before; s.Void > 0 || n > 60 {
				t.Errorf("honest: %v: %d void requests, %d queries were asked alone in 21 slots", honest, s.Void, n)
			}
			w.stop()
			d.checkTruth(w, true)
		})
	}
}
