package interval_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/scheduler/rounds/interval"
)

func resources(a *interval.Pool[int]) []int {
	var all []int
	for _, c := range a.Order() {
		all = append(all, c.Resource)
	}
	return all
}

// A probe captures every active EI of its resource, in all CEIs and also several in
// one CEI, but no EI that has not started.
func TestProbe(t *testing.T) {
	a := interval.NewPool[int](ranking(t, "sedf:p"))
	must(t, a.Open(cei{ID: 4, EIs: []ei{{1, 2, 5}, {1, 3, 9}, {2, 4, 8}}}))
	must(t, a.Open(cei{ID: 2, EIs: []ei{{1, 1, 3}}}))
	must(t, a.Open(cei{ID: 3, EIs: []ei{{1, 4, 6}}}))
	a.Advance(3)
	want := []interval.Hit[int]{
		{CEI: cei{ID: 2, EIs: []ei{{1, 1, 3}}}, EIs: []int{0}, Captured: []uint64{3}},
		{CEI: cei{ID: 4, EIs: []ei{{1, 2, 5}, {1, 3, 9}, {2, 4, 8}}}, EIs: []int{0, 1}, Left: 1},
	}
	if diff := cmp.Diff(want, a.Probe(1)); diff != "" {
		t.Error(diff)
	}
	if again := a.Probe(1); again != nil || a.Claims() != nil {
		t.Errorf("a second probe hit %v; active are %v", again, a.Claims())
	}
	a.Advance(4)
	if got := resources(a); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("order %v", got)
	}
	hits := a.Probe(2)
	if len(hits) != 1 || !slices.Equal(hits[0].Captured, []uint64{3, 3, 4}) {
		t.Errorf("%+v", hits)
	}
}

// An EI can be captured in its last chronon. In the next one its CEI is dropped
// together with the claims of its other EIs.
func TestExpiry(t *testing.T) {
	a := interval.NewPool[int](ranking(t, "mrsf:np"))
	must(t, a.Open(cei{ID: 1, Profile: "p", EIs: []ei{{1, 1, 2}, {2, 1, 9}, {3, 5, 9}}}))
	if lost := a.Advance(2); lost != nil || !slices.Equal(resources(a), []int{1, 2}) {
		t.Fatalf("lost %v, order %v", lost, resources(a))
	}
	a.Probe(2)
	lost := a.Advance(3)
	if len(lost) != 1 || lost[0].Profile != "p" || !slices.Equal(lost[0].Captured, []uint64{0, 2, 0}) || lost[0].Left() != 2 {
		t.Fatalf("lost %+v", lost)
	}
	if a.Claims() != nil {
		t.Errorf("active are %v", a.Claims())
	}
	if lost := a.Advance(6); lost != nil {
		t.Errorf("an expired CEI's other interval started: %v", lost)
	}
}

// Chronons may be skipped: EIs that started and ended in them have expired.
func TestPassedOver(t *testing.T) {
	a := interval.NewPool[int](ranking(t, "medf:p"))
	must(t, a.Open(cei{ID: 1, EIs: []ei{{1, 2, 4}, {2, 9, 9}}}))
	must(t, a.Open(cei{ID: 2, EIs: []ei{{3, 2, 7}}}))
	if lost := a.Advance(7); len(lost) != 1 || lost[0].ID != 1 {
		t.Errorf("lost %+v", lost)
	}
	if got := resources(a); !slices.Equal(got, []int{3}) {
		t.Errorf("order %v", got)
	}
	if a.Advance(5); a.Claims()[0].Value != 1 {
		t.Error("time went back")
	}
}

func TestOpenRefuses(t *testing.T) {
	a := interval.NewPool[int](ranking(t, "medf:p"))
	a.Advance(10)
	must(t, a.Open(cei{ID: 1, EIs: []ei{{1, 2, 10}}}))
	for name, c := range map[string]struct {
		p    interval.Progress[int]
		want error
	}{
		"empty":    {interval.Progress[int]{CEI: cei{ID: 2}}, interval.ErrMalformed},
		"backward": {interval.Progress[int]{CEI: cei{ID: 2, EIs: []ei{{1, 12, 11}}}}, interval.ErrMalformed},
		"zero":     {interval.Progress[int]{CEI: cei{ID: 2, EIs: []ei{{1, 0, 11}}}}, interval.ErrMalformed},
		"twice":    {interval.Progress[int]{CEI: cei{ID: 1, EIs: []ei{{1, 11, 11}}}}, interval.ErrMalformed},
		"rank":     {interval.Progress[int]{CEI: cei{ID: 2, Rank: 1, EIs: []ei{{1, 11, 11}, {2, 11, 11}}}}, interval.ErrMalformed},
		"weight":   {interval.Progress[int]{CEI: cei{ID: 2, Weight: -1, EIs: []ei{{1, 11, 11}}}}, interval.ErrMalformed},
		"marks":    {interval.Progress[int]{CEI: cei{ID: 2, EIs: []ei{{1, 11, 11}}}, Captured: []uint64{1, 2}}, interval.ErrMalformed},
		"captured": {interval.Progress[int]{CEI: cei{ID: 2, EIs: []ei{{1, 2, 3}}}, Captured: []uint64{2}}, interval.ErrMalformed},
		"over":     {interval.Progress[int]{CEI: cei{ID: 2, EIs: []ei{{1, 9, 9}, {2, 11, 11}}}}, interval.ErrOver},
	} {
		if err := a.Resume(c.p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(a.Claims()) != 1 {
		t.Errorf("a refused CEI left %v", a.Claims())
	}
	p := interval.Progress[int]{CEI: cei{ID: 2, EIs: []ei{{1, 2, 3}, {2, 11, 11}}}, Captured: []uint64{2, 0}}
	must(t, a.Resume(p))
	if lost := a.Advance(12); !slices.ContainsFunc(lost, func(got interval.Progress[int]) bool { return cmp.Equal(got, p) }) ||
		a.Claims() != nil {
		t.Errorf("lost %+v, want %+v among them", lost, p)
	}
}

// Weight divides the value: of two equal CEIs the one of weight 2 goes first, unless
// the other is more than twice as urgent.
func TestWeight(t *testing.T) {
	for _, c := range []struct {
		finish uint64 // of the weighted one, in chronon 1
		first  int
	}{{8, 2}, {10, 1}} { // 8/2.1 and 10/2.1 against 4
		a := interval.NewPool[int](ranking(t, "sedf:p"))
		must(t, a.Open(cei{ID: 1, EIs: []ei{{1, 1, 4}}}))
		must(t, a.Open(cei{ID: 2, Weight: 2.1, EIs: []ei{{2, 1, c.finish}}}))
		a.Advance(1)
		if got := resources(a); got[0] != c.first {
			t.Errorf("finish %d: order %v", c.finish, got)
		}
	}
}

// A pool restored from the progress of its CEIs, under any ranking, behaves like
// one that always had that ranking.
func TestResume(t *testing.T) {
	for _, r := range interval.Rankings() {
		whole := interval.NewPool[int](r)
		first := cei{ID: 1, Profile: "p", Rank: 4, EIs: []ei{{1, 1, 3}, {2, 2, 9}, {3, 2, 20}}}
		second := cei{ID: 2, Weight: 1.5, EIs: []ei{{2, 1, 5}, {4, 3, 7}}}
		must(t, whole.Open(first))
		must(t, whole.Open(second))
		whole.Advance(2)
		whole.Probe(1)
		whole.Advance(3)
		resumed := interval.NewPool[int](r)
		resumed.Advance(3)
		must(t, resumed.Resume(interval.Progress[int]{CEI: first, Captured: []uint64{2, 0, 0}}))
		must(t, resumed.Resume(interval.Progress[int]{CEI: second}))
		if diff := cmp.Diff(whole.Claims(), resumed.Claims()); diff != "" {
			t.Errorf("%s: %s", r, diff)
		}
	}
}

func TestParseRanking(t *testing.T) {
	for _, r := range interval.Rankings() {
		if got, err := interval.ParseRanking(r.String()); err != nil || got != r {
			t.Errorf("%s reads as %v, %v", r, got, err)
		}
	}
	if r, err := interval.ParseRanking("mrsf"); err != nil || r.String() != "mrsf:p" {
		t.Errorf("%v, %v", r, err)
	}
	for _, bad := range []string{"", "edf", "sedf:", "sedf:x", "sedf:p:p"} {
		if _, err := interval.ParseRanking(bad); !errors.Is(err, interval.ErrRanking) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
