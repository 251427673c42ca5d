package wic_test

import (
	"errors"
	"math"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/scheduler/wic"
)

// gain implements the definition and computes life again for each change.
func gain(u wic.Urgency, l wic.Life, pi []float64, prev, j int) (g float64) {
	for k := prev + 1; k <= j; k++ {
		g += urgency(u, j-k) * pi[k-1] * life(l, pi, k, j)
	}
	return g
}

func urgency(u wic.Urgency, t int) float64 {
	switch u.Kind {
	case wic.Exp:
		return math.Pow(u.Param, float64(t))
	case wic.Sliding:
		if t > int(u.Param) {
			return 0
		}
	}
	return 1
}

func life(l wic.Life, pi []float64, k, j int) float64 {
	switch l.Kind {
	case wic.Window:
		if j-k > l.W {
			return 0
		}
	case wic.Overwrite:
		return fewer(pi[k:j], 1)
	case wic.Changes:
		return fewer(pi[k:j], l.W)
	}
	return 1
}

// fewer returns the probability of fewer than z changes, from all combinations.
func fewer(pi []float64, z int) float64 {
	if z == 0 {
		return 0
	}
	if len(pi) == 0 {
		return 1
	}
	return (1-pi[0])*fewer(pi[1:], z) + pi[0]*fewer(pi[1:], z-1)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// The gains for π = 0.5, 0.2, 0.4 since the last monitoring are computed by hand.
func TestGain(t *testing.T) {
	for _, c := range []struct {
		urgency, life string
		want          float64
	}{
		{"uniform", "append", 1.1},
		{"uniform", "window,1", 0.6},                       // 0.2 + 0.4
		{"uniform", "overwrite", 0.5*0.8*0.6 + 0.12 + 0.4}, // 0.76
		{"uniform", "changes,2", 0.5*(1-0.2*0.4) + 0.6},    // two later changes end the life of the first
		{"exp,0.5", "append", 0.125 + 0.1 + 0.4},           // 0.5/4 + 0.2/2 + 0.4
		{"exp,0", "append", 0.4},
		{"sliding,0", "overwrite", 0.4},
		{"sliding,1", "append", 0.6},
		{"exp,0.5", "overwrite", 0.5*0.8*0.6/4 + 0.12/2 + 0.4},
		{"sliding,1", "window,2", 0.6},
	} {
		u, err := wic.ParseUrgency(c.urgency)
		if err != nil {
			t.Fatal(err)
		}
		l, err := wic.ParseLife(c.life)
		if err != nil {
			t.Fatal(err)
		}
		p := wic.NewPending(u, l)
		for _, pi := range []float64{0.5, 0.2, 0.4} {
			p.Step(pi)
		}
		if got := p.Gain(); !near(got, c.want) {
			t.Errorf("%s, %s: %v, want %v", c.urgency, c.life, got, c.want)
		}
	}
}

func drawSettings(t *rapid.T) (wic.Urgency, wic.Life) {
	return rapid.SampledFrom([]wic.Urgency{
			{}, {Kind: wic.Uniform}, {Kind: wic.Exp, Param: 0}, {Kind: wic.Exp, Param: 0.6}, {Kind: wic.Exp, Param: 1},
			{Kind: wic.Sliding, Param: 0}, {Kind: wic.Sliding, Param: 3},
		}).Draw(t, "urgency"), rapid.SampledFrom([]wic.Life{
			{}, {Kind: wic.Append}, {Kind: wic.Window, W: 0}, {Kind: wic.Window, W: 4}, {Kind: wic.Overwrite},
			{Kind: wic.Changes, W: 1}, {Kind: wic.Changes, W: 3},
		}).Draw(t, "life")
}

func probability(t *rapid.T) float64 {
	return rapid.SampledFrom([]float64{0, 0, 0.1, 0.5, 0.9, 1}).Draw(t, "pi")
}

// The running sum equals that of the definition for all settings, also across
// monitorings. It is exactly 0 once nothing is left.
func TestLawPending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, l := drawSettings(t)
		p := wic.NewPending(u, l)
		var pi []float64
		prev := 0
		for j := 1; j <= 14; j++ {
			pi = append(pi, probability(t))
			p.Step(pi[j-1])
			want := gain(u, l, pi, prev, j)
			if got := p.Gain(); !near(got, want) || (want == 0) != (got == 0) {
				t.Fatalf("%s, %s, %v since %d: %v, want %v", u, l, pi, prev, got, want)
			}
			if rapid.IntRange(0, 5).Draw(t, "monitor") == 0 {
				p.Monitored()
				prev = j
			}
		}
	})
}

// The closed form equals the running sum.
func TestLawSteady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, l := drawSettings(t)
		pi := probability(t)
		p := wic.NewPending(u, l)
		for tau := range uint64(40) {
			if got, want := wic.Steady(u, l, pi, tau), p.Gain(); !near(got, want) {
				t.Fatalf("%s, %s, π = %v, %d instants: %v, want %v", u, l, pi, tau, got, want)
			}
			p.Step(pi)
		}
	})
}

// Top returns the same as sorting.
func TestLawTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gains := rapid.SliceOf(rapid.SampledFrom([]float64{0, 0.1, 0.2, 0.2, 3, 4})).Draw(t, "gains")
		c := rapid.IntRange(0, 6).Draw(t, "c")
		var want []int
		for i, g := range gains {
			if g > 0 {
				want = append(want, i)
			}
		}
		sort.SliceStable(want, func(i, j int) bool { return gains[want[i]] > gains[want[j]] })
		want = want[:min(c, len(want))]
		if got := wic.Top(gains, c); !slices.Equal(got, want) {
			t.Fatalf("%v of %v, want %v", got, gains, want)
		}
	})
}

// Pages of equal value tie, however their sums were rounded. Here all gains are
// whole multiples of 1/10, and the schedule is the one of exact arithmetic.
func TestLawTiesInSpiteOfRounding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.IntRange(0, 9).Draw(t, "W")
		u, l := wic.Urgency{}, wic.Life{Kind: wic.Window, W: w}
		if rapid.Bool().Draw(t, "sliding") {
			u, l = wic.Urgency{Kind: wic.Sliding, Param: float64(w)}, wic.Life{}
		}
		pages, c := rapid.IntRange(2, 8).Draw(t, "pages"), rapid.IntRange(1, 3).Draw(t, "C")
		pending, tenths, prev := make([]*wic.Pending, pages), make([][]int, pages), make([]int, pages)
		for i := range pending {
			pending[i] = wic.NewPending(u, l)
		}
		same := rapid.Bool().Draw(t, "same probabilities")
		for j := range 40 {
			gains, exact := make([]float64, pages), make([]float64, pages)
			for i, p := range pending {
				if i > 0 && same {
					tenths[i] = append(tenths[i], tenths[0][j])
				} else {
					tenths[i] = append(tenths[i], rapid.IntRange(0, 3).Draw(t, "tenths"))
				}
				p.Step(float64(tenths[i][j]) / 10)
				gains[i] = p.Gain()
				for _, n := range tenths[i][max(prev[i], j-w):] {
					exact[i] += float64(n)
				}
			}
			got, want := wic.Top(gains, c), wic.Top(exact, c)
			if !slices.Equal(got, want) {
				t.Fatalf("instant %d: %v of %v, want %v of %v tenths", j+1, got, gains, want, exact)
			}
			for _, i := range got {
				pending[i].Monitored()
				prev[i] = j + 1
			}
		}
	})
}

// best returns the utility of the best of all schedules with at most c pages in each
// instant.
func best(u wic.Urgency, l wic.Life, weights []float64, pi [][]float64, c int) float64 {
	n, pages := len(pi[0]), len(pi)
	var try func(j int, prev []int) float64
	try = func(j int, prev []int) float64 {
		if j > n {
			return 0
		}
		most := 0.0
		for set := range 1 << pages {
			sum, next, size := 0.0, slices.Clone(prev), 0
			for i := range pages {
				if set>>i&1 == 1 {
					sum += weights[i] * gain(u, l, pi[i], prev[i], j)
					next[i] = j
					size++
				}
			}
			if size <= c {
				most = max(most, sum+try(j+1, next))
			}
		}
		return most
	}
	return try(1, make([]int, pages))
}

// Section 3.3: the schedule reaches at least half of the optimum, and the optimum
// itself for sliding window(0).
func TestLawHalfOfTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, l := drawSettings(t)
		pages, n, c := rapid.IntRange(1, 3).Draw(t, "pages"), rapid.IntRange(1, 5).Draw(t, "instants"), rapid.IntRange(1, 2).Draw(t, "C")
		pi, weights, pending := make([][]float64, pages), make([]float64, pages), make([]*wic.Pending, pages)
		for i := range pi {
			weights[i] = rapid.SampledFrom([]float64{1, 0.5, 0.2}).Draw(t, "weight")
			pending[i] = wic.NewPending(u, l)
			for range n {
				pi[i] = append(pi[i], probability(t))
			}
		}
		got := 0.0
		for j := range n {
			gains := make([]float64, pages)
			for i, p := range pending {
				p.Step(pi[i][j])
				gains[i] = weights[i] * p.Gain()
			}
			for _, i := range wic.Top(gains, c) {
				got += gains[i]
				pending[i].Monitored()
			}
		}
		most := best(u, l, weights, pi, c)
		if got > most+1e-9 || got < most/2-1e-9 {
			t.Fatalf("%s, %s: %v of %v", u, l, got, most)
		}
		if u.Kind == wic.Sliding && u.Param == 0 && !near(got, most) {
			t.Fatalf("sliding window(0): %v, the optimum is %v", got, most)
		}
	})
}

func TestParse(t *testing.T) {
	for _, s := range []string{"uniform", "exp,0.5", "exp,0", "sliding,3"} {
		if u, err := wic.ParseUrgency(s); err != nil || u.String() != s {
			t.Errorf("%s: %v, %v", s, u, err)
		}
	}
	for _, s := range []string{"append", "window,0", "changes,2", "overwrite"} {
		if l, err := wic.ParseLife(s); err != nil || l.String() != s {
			t.Errorf("%s: %v, %v", s, l, err)
		}
	}
	for _, s := range []string{"exp", "exp,2", "exp,-0.1", "exp,x", "exp,NaN", "sliding", "sliding,1.5", "sliding,-1", "uniform,1", "other"} {
		if _, err := wic.ParseUrgency(s); !errors.Is(err, wic.ErrSetting) {
			t.Errorf("urgency %q: %v", s, err)
		}
	}
	for _, s := range []string{"window", "window,-1", "window,x", "changes,0", "append,1", "overwrite,1", "other"} {
		if _, err := wic.ParseLife(s); !errors.Is(err, wic.ErrSetting) {
			t.Errorf("life %q: %v", s, err)
		}
	}
	if (wic.Urgency{}).String() != "uniform" || (wic.Life{}).String() != "append" {
		t.Error("the zero values are not uniform and append")
	}
}
