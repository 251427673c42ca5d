package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// estimated makes a ranked query of a known cost.
func estimated(id string, cost time.Duration) (registry.Query, Stats) {
	return query(id), Stats{Last: 1, Executions: 1, Samples: []Sample{{Slot: 1, Elapsed: cost}}, Policy: "rr"}
}

// begun is a sheet of slot 2 with a budget of 10 s over queries "a", "b", …
// that cost so many seconds; 0 is a new one.
func begun(width int, seconds ...float64) (*planner, *sheet) {
	p := newPlanner(rr{}, 10*time.Second)
	for i, c := range seconds {
		id := string(rune('a' + i))
		if c == 0 {
			p.put(query(id), Stats{})
			continue
		}
		p.put(estimated(id, time.Duration(c*float64(time.Second))))
	}
	p.begin(2, noon, 0)
	return p, newSheet(p, width, time.Hour, 0)
}

func started(s *sheet, now time.Time) string {
	list := ""
	for r := s.next(now); r != nil; r = s.next(now) {
		list += fmt.Sprintf("%s:%v ", r.c.Query.ID, r.limit)
	}
	return list
}

// The first starts although it exceeds the budget, with all of it as limit, and
// alone: nothing else starts even when it needs next to nothing.
func TestFirstAboveBudgetRunsAlone(t *testing.T) {
	_, s := begun(1, 15, 1, 1)
	r := s.next(noon)
	if r == nil || r.c.Query.ID != "a" || r.limit != 10*time.Second || !r.whole {
		t.Fatalf("first is %+v", r)
	}
	if n, cost := (&sheet{p: s.p}).preview(); n == 0 || cost == 0 {
		t.Error("what is left would run in another slot")
	}
	s.finish(r, Answer{Outcome: registry.Unchanged, Elapsed: time.Millisecond}, false)
	if got := started(s, noon); got != "" {
		t.Errorf("beside it started %s", got)
	}
	// The same with room for several at a time.
	_, s = begun(4, 15, 1, 1)
	if got := started(s, noon); got != "a:10s " {
		t.Errorf("started %s", got)
	}
	// Elsewhere in the order it is passed over.
	_, s = begun(4, 1, 15, 1)
	if got := started(s, noon); got != "a:10s c:10s " {
		t.Errorf("started %s", got)
	}
}

// An execution that took no time was the first all the same: what follows has
// to fit, whatever tier it came from.
func TestFirstIsOne(t *testing.T) {
	for name, seconds := range map[string][]float64{"ranked": {1, 15, 12, 2}, "new": {0, 15, 12, 2}} {
		_, s := begun(1, seconds...)
		r := s.next(noon)
		if r == nil || r.c.Query.ID != "a" {
			t.Fatalf("%s: first is %+v", name, r)
		}
		if _, whole := s.finish(r, Answer{Outcome: registry.Unchanged}, false); whole || s.used != 0 {
			t.Fatalf("%s: it used %s", name, s.used)
		}
		// 15 and 12 s do not fit the 10 that are left.
		if got := started(s, noon); got != "d:10s " {
			t.Errorf("%s: then started %s", name, got)
		}
	}
}

// What running executions are expected to take is not given away.
func TestReserve(t *testing.T) {
	// 4 + 4 s are promised; 3 s do not fit the other 2, 2 s do.
	_, s := begun(4, 4, 4, 3, 2)
	if got := started(s, noon); got != "a:10s b:10s d:10s " {
		t.Errorf("started %s", got)
	}
	// After 5 s the first two overrun their estimates: 3 × 5 s are more than
	// there is, all are to be cut.
	if cut, _ := s.over(noon.Add(5 * time.Second)); len(cut) != 3 {
		t.Errorf("%d are cut", len(cut))
	}
	if _, wait := s.over(noon); wait > 10*time.Second/3 {
		t.Errorf("it would look again after %s only", wait)
	}
	// A new query may take all of its tier's 5 s, so 6 s do not fit beside it.
	_, s = begun(4, 0, 6, 5)
	if got := started(s, noon); got != "a:5s c:10s " {
		t.Errorf("started %s", got)
	}
}

// Crumbs start nothing where several run at a time: each would be cut at once,
// and the next one started, thousands of times.
func TestCrumbs(t *testing.T) {
	p, s := begun(2, 0, 0, 0)
	s.used, s.front = p.share-time.Microsecond, p.share-time.Microsecond
	if got := started(s, noon); got != "" {
		t.Errorf("a microsecond started %s", got)
	}
	p, s = begun(1, 0, 0)
	s.used, s.front = p.share-time.Microsecond, p.share-time.Microsecond
	if got := s.next(noon); got == nil || got.limit != time.Microsecond {
		t.Error("one at a time, a new query starts while its tier has anything left")
	}
}

// A trial run is paid before anything else; the rest is the whole there is.
func TestCharged(t *testing.T) {
	p, _ := begun(1, 8, 2)
	p.end(noon)
	p.begin(3, noon, 0)
	s := newSheet(p, 1, time.Hour, 3*time.Second)
	r := s.next(noon)
	if r == nil || r.c.Query.ID != "a" || r.limit != 7*time.Second || r.whole {
		t.Errorf("first is %+v", r)
	}
	if a, whole := s.finish(r, Answer{Outcome: registry.Cut, Elapsed: 7 * time.Second}, false); whole || a.Elapsed != 7*time.Second || s.used != p.budget {
		t.Errorf("cut by the rest of a budget counts as whole: %v, used %s", whole, s.used)
	}
}
