package interval_test

import (
	"fmt"
	"testing"

	"github.com/freshet/freshet/scheduler/rounds/interval"
)

type (
	ei  = interval.EI[int]
	cei = interval.CEI[int]
)

func ranking(t testing.TB, s string) interval.Ranking {
	t.Helper()
	r, err := interval.ParseRanking(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The totals of example 1. The first of the CEI's four EIs has five chronons left;
// the others have not started and are 4, 6 and 7 long: 5; 4; 5+4+6+7 = 22.
func TestExample1(t *testing.T) {
	one := cei{ID: 1, EIs: []ei{{1, 8, 14}, {2, 20, 23}, {3, 20, 25}, {4, 30, 36}}}
	for _, c := range []struct {
		ranking string
		value   float64
	}{{"sedf:p", 5}, {"mrsf:p", 4}, {"medf:p", 22}, {"sedf:np", 5}, {"mrsf:np", 4}, {"medf:np", 22}} {
		a := interval.NewPool[int](ranking(t, c.ranking))
		must(t, a.Open(one))
		a.Advance(10)
		claims := a.Order()
		want := interval.Claim[int]{Resource: 1, CEI: 1, EI: 0, Finish: 14, Value: c.value}
		if len(claims) != 1 || claims[0] != want {
			t.Errorf("%s claims %+v, want %+v", c.ranking, claims, want)
		}
	}
}

// The totals of example 2. Of CEI 1's four EIs two are captured, the third has 5
// chronons left and the fourth is 14 long. Of CEI 2's three EIs the first has 6
// chronons left and the others are 4 and 6 long. S-EDF gives 5 against 6, MRSF 2
// against 3, M-EDF 19 against 16. Without preemption CEI 1, which has begun, always
// goes first.
func TestExample2(t *testing.T) {
	one := cei{ID: 1, EIs: []ei{{1, 1, 3}, {2, 2, 6}, {3, 10, 14}, {4, 20, 33}}}
	two := cei{ID: 2, EIs: []ei{{5, 9, 15}, {6, 11, 14}, {7, 12, 17}}}
	for _, c := range []struct {
		ranking string
		first   int
		values  map[uint64]float64
	}{
		{"sedf:p", 3, map[uint64]float64{1: 5, 2: 6}},
		{"mrsf:p", 3, map[uint64]float64{1: 2, 2: 3}},
		{"medf:p", 5, map[uint64]float64{1: 19, 2: 16}},
		{"medf:np", 3, map[uint64]float64{1: 19, 2: 16}},
	} {
		a := interval.NewPool[int](ranking(t, c.ranking))
		must(t, a.Open(one))
		must(t, a.Open(two))
		a.Advance(2)
		for _, r := range []int{1, 2} {
			if hits := a.Probe(r); len(hits) != 1 || hits[0].CEI.ID != 1 || hits[0].Left == 0 {
				t.Fatalf("probe of %d hit %+v", r, hits)
			}
		}
		a.Advance(10)
		claims := a.Order()
		if len(claims) != 2 || claims[0].Resource != c.first {
			t.Fatalf("%s claims %+v, want resource %d first", c.ranking, claims, c.first)
		}
		for _, got := range claims {
			if got.Value != c.values[got.CEI] || got.Begun != (got.CEI == 1) {
				t.Errorf("%s: %+v, want value %v", c.ranking, got, c.values[got.CEI])
			}
		}
	}
}

func ExamplePool() {
	a := interval.NewPool[string](interval.Ranking{Kind: interval.MRSF, Preemptive: true})
	_ = a.Open(interval.CEI[string]{ID: 1, Profile: "rates", EIs: []interval.EI[string]{
		{Resource: "rate", Start: 1, Finish: 3}, {Resource: "news", Start: 2, Finish: 4},
	}})
	_ = a.Open(interval.CEI[string]{ID: 2, Profile: "sport", EIs: []interval.EI[string]{
		{Resource: "match", Start: 1, Finish: 1},
	}})
	const budget = 1
	for t := uint64(1); t <= 4; t++ {
		for _, lost := range a.Advance(t) {
			fmt.Printf("%d: %s has expired\n", t, lost.Profile)
		}
		var run []string
		for _, claim := range a.Order() {
			if run = append(run, claim.Resource); len(run) == budget {
				break
			}
		}
		for _, r := range run {
			for _, hit := range a.Probe(r) {
				fmt.Printf("%d: %s captures for %s, %d left\n", t, r, hit.CEI.Profile, hit.Left)
			}
		}
	}
	// Output:
	// 1: match captures for sport, 0 left
	// 2: rate captures for rates, 1 left
	// 3: news captures for rates, 0 left
}
