package interval_test

import (
	"fmt"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// naive implements the formulas literally, over all EIs of all CEIs in each chronon.
type naive struct {
	kind       interval.Kind
	preemptive bool
	ceis       []cei
	captured   [][]bool
	gone       []bool
}

func newNaive(r interval.Ranking, ceis []cei) *naive {
	n := &naive{kind: r.Kind, preemptive: r.Preemptive, ceis: ceis, gone: make([]bool, len(ceis))}
	for _, c := range ceis {
		n.captured = append(n.captured, make([]bool, len(c.EIs)))
	}
	return n
}

func (n *naive) count(c int) (got int) {
	for _, is := range n.captured[c] {
		if is {
			got++
		}
	}
	return got
}

func (n *naive) value(c, e int, now uint64) float64 {
	weight := max(n.ceis[c].Weight, 0)
	if weight == 0 {
		weight = 1
	}
	sum := 0
	switch n.kind {
	case interval.SEDF:
		sum = int(n.ceis[c].EIs[e].Finish-now) + 1
	case interval.MRSF:
		sum = max(n.ceis[c].Rank, len(n.ceis[c].EIs)) - n.count(c)
	case interval.MEDF:
		for i, x := range n.ceis[c].EIs {
			switch {
			case n.captured[c][i]:
			case x.Start <= now:
				sum += int(x.Finish-now) + 1
			default:
				sum += int(x.Finish-x.Start) + 1
			}
		}
	}
	return float64(sum) / weight
}

// order returns the claims of a chronon as pairs of CEI and EI.
func (n *naive) order(now uint64) [][2]int {
	var all [][2]int
	for c := range n.ceis {
		for e, x := range n.ceis[c].EIs {
			if !n.gone[c] && x.Finish < now && !n.captured[c][e] {
				n.gone[c] = true
			}
		}
		for e, x := range n.ceis[c].EIs {
			if !n.gone[c] && !n.captured[c][e] && x.Start <= now {
				all = append(all, [2]int{c, e})
			}
		}
	}
	sort.SliceStable(all, func(i, j int) bool { // ties: the order of all, by CEI and EI
		a, b := all[i], all[j]
		if x, y := n.count(a[0]) > 0, n.count(b[0]) > 0; !n.preemptive && x != y {
			return x
		}
		if x, y := n.value(a[0], a[1], now), n.value(b[0], b[1], now); x != y {
			return x < y
		}
		return n.ceis[a[0]].EIs[a[1]].Finish < n.ceis[b[0]].EIs[b[1]].Finish
	})
	return all
}

func (n *naive) probe(r int, now uint64) {
	for c := range n.ceis {
		for e, x := range n.ceis[c].EIs {
			if !n.gone[c] && x.Resource == r && x.Start <= now && now <= x.Finish {
				n.captured[c][e] = true
			}
		}
	}
}

func (n *naive) complete() (got int) {
	for c := range n.ceis {
		if !n.gone[c] && n.count(c) == len(n.ceis[c].EIs) {
			got++
		}
	}
	return got
}

func drawCEIs(t *rapid.T, resources, chronons int) []cei {
	n := rapid.IntRange(1, 12).Draw(t, "ceis")
	all := make([]cei, n)
	for i := range all {
		all[i] = cei{ID: uint64(i)}
		for range rapid.IntRange(1, 4).Draw(t, "rank") {
			start := rapid.IntRange(1, chronons).Draw(t, "start")
			all[i].EIs = append(all[i].EIs, ei{
				Resource: rapid.IntRange(0, resources-1).Draw(t, "resource"),
				Start:    uint64(start), Finish: uint64(start + rapid.IntRange(0, 6).Draw(t, "length")),
			})
		}
		all[i].Rank = len(all[i].EIs) + rapid.IntRange(0, 2).Draw(t, "more")
		all[i].Weight = rapid.SampledFrom([]float64{0, 0, 1, 2, 0.5}).Draw(t, "weight")
	}
	return all
}

// The pool orders, captures and drops as the formulas say, ties included, both for
// callers that take the first C claims and for those that skip some.
func TestLawFormulas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ceis := drawCEIs(t, 5, 12)
		r := rapid.SampledFrom(interval.Rankings()).Draw(t, "ranking")
		n, a := newNaive(r, ceis), interval.NewPool[int](r)
		early := rapid.Bool().Draw(t, "early")
		opened, captured := 0, 0
		for now := uint64(1); now < 20; now++ {
			a.Advance(now)
			for i, c := range ceis {
				first := slices.MinFunc(c.EIs, func(x, y ei) int { return int(x.Start) - int(y.Start) }).Start
				if early && now == 1 || !early && now == first {
					if err := a.Open(c); err != nil {
						t.Fatalf("open %d: %v", i, err)
					}
					opened++
				}
			}
			want := n.order(now)
			compare(t, n, a, now, want)
			for _, at := range want {
				res := ceis[at[0]].EIs[at[1]].Resource
				if rapid.Bool().Draw(t, "probe") {
					n.probe(res, now)
					for _, hit := range a.Probe(res) {
						if hit.Left == 0 {
							captured++
						}
					}
					break
				}
			}
		}
		if a.Advance(40); opened != len(ceis) || captured != n.complete() {
			t.Fatalf("%d opened, %d captured of %d", opened, captured, n.complete())
		}
	})
}

func compare(t *rapid.T, n *naive, a *interval.Pool[int], now uint64, want [][2]int) {
	t.Helper()
	claims := a.Claims()
	if len(claims) != len(want) {
		t.Fatalf("chronon %d: claims %v, want %v", now, claims, want)
	}
	var distinct []int
	for i, c := range claims {
		at := [2]int{int(c.CEI), c.EI}
		if at != want[i] || c.Value != n.value(at[0], at[1], now) || c.Begun != (n.count(at[0]) > 0) {
			t.Fatalf("chronon %d: claim %d is %+v, want %v of value %v", now, i, c, want[i], n.value(want[i][0], want[i][1], now))
		}
		if r := n.ceis[at[0]].EIs[at[1]].Resource; !slices.Contains(distinct, r) {
			distinct = append(distinct, r)
		}
	}
	if got := resources(a); !slices.Equal(got, distinct) {
		t.Fatalf("chronon %d: resources %v, want %v", now, got, distinct)
	}
}

// run probes the first budget resources in each chronon and counts captures.
func run(t interface {
	Helper()
	Fatalf(string, ...any)
}, r interval.Ranking, ceis []cei, chronons, budget int) (captured int, probes string) {
	t.Helper()
	a := interval.NewPool[int](r)
	for _, c := range ceis {
		if err := a.Open(c); err != nil {
			t.Fatalf("open: %v", err)
		}
	}
	for now := 1; now <= chronons; now++ {
		a.Advance(uint64(now))
		var chosen []int
		for _, c := range a.Order() {
			if chosen = append(chosen, c.Resource); len(chosen) == budget {
				break
			}
		}
		for _, res := range chosen {
			for _, hit := range a.Probe(res) {
				if hit.Left == 0 {
					captured++
				}
			}
		}
		probes += fmt.Sprint(chosen)
	}
	return captured, probes
}

// matching returns the largest number of EIs that can have a probe each. That is the
// optimum if no two EIs of a resource overlap and each CEI has one EI.
func matching(ceis []cei, chronons, budget int) (size int) {
	taken := make([]int, (chronons+1)*budget)
	for i := range taken {
		taken[i] = -1
	}
	var augment func(c int, seen []bool) bool
	augment = func(c int, seen []bool) bool {
		for at := int(ceis[c].EIs[0].Start) * budget; at < (int(ceis[c].EIs[0].Finish)+1)*budget && at < len(taken); at++ {
			if seen[at] {
				continue
			}
			seen[at] = true
			if taken[at] < 0 || augment(taken[at], seen) {
				taken[at] = c
				return true
			}
		}
		return false
	}
	for c := range ceis {
		if augment(c, make([]bool, len(taken))) {
			size++
		}
	}
	return size
}

// Proposition 1: without intra-resource overlap and with rank 1, S-EDF is optimal.
func TestLawProposition1(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ceis []cei
		for r := range rapid.IntRange(1, 6).Draw(t, "resources") {
			for at := rapid.IntRange(1, 5).Draw(t, "first"); at <= 14 && len(ceis) < 25; {
				end := min(14, at+rapid.IntRange(0, 4).Draw(t, "length"))
				ceis = append(ceis, cei{ID: uint64(len(ceis)), EIs: []ei{{r, uint64(at), uint64(end)}}})
				at = end + 1 + rapid.IntRange(0, 2).Draw(t, "gap")
			}
		}
		budget := rapid.IntRange(1, 2).Draw(t, "budget")
		best := matching(ceis, 14, budget)
		for _, spelling := range []string{"sedf:p", "sedf:np"} {
			r, _ := interval.ParseRanking(spelling)
			if got, _ := run(t, r, ceis, 14, budget); got != best {
				t.Fatalf("%s captures %d, the best is %d", spelling, got, best)
			}
		}
	})
}

// Proposition 3: if every EI is one chronon long and every CEI has rank(p) of them,
// M-EDF makes the same probes as MRSF.
func TestLawProposition3(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rank := rapid.IntRange(1, 4).Draw(t, "rank")
		ceis := make([]cei, rapid.IntRange(1, 15).Draw(t, "ceis"))
		for i := range ceis {
			ceis[i] = cei{ID: uint64(i), Rank: rank}
			for range rank {
				at := uint64(rapid.IntRange(1, 10).Draw(t, "at"))
				ceis[i].EIs = append(ceis[i].EIs, ei{rapid.IntRange(0, 5).Draw(t, "resource"), at, at})
			}
		}
		budget := rapid.IntRange(1, 3).Draw(t, "budget")
		for _, preemptive := range []bool{true, false} {
			m, x := run(t, interval.Ranking{Kind: interval.MRSF, Preemptive: preemptive}, ceis, 10, budget)
			e, y := run(t, interval.Ranking{Kind: interval.MEDF, Preemptive: preemptive}, ceis, 10, budget)
			if m != e || x != y {
				t.Fatalf("preemptive %v: MRSF %d by %s, M-EDF %d by %s", preemptive, m, x, e, y)
			}
		}
	})
}
