package retrieval

import (
	"math"
	"slices"
)

// Schedule places m retrievals in the day to minimize the expected delay. The times
// are fractions of the day in ascending order.
//
// The paper's criterion, λ(τ_j)(τ_{j+1} − τ_j) = ∫_{τ_{j−1}}^{τ_j} λ(t)dt, holds at
// every stationary point. Schedule therefore finds the best schedule on a grid and
// improves it from there. It searches the whole grid. The delay of a stretch from a
// to b satisfies the quadrangle inequality, because its ∂²/∂a∂b is −λ(a) ≤ 0. Best
// positions are therefore monotonic, which allows divide and conquer: over the
// position of the last retrieval of each row, and over that of the first.
func Schedule(d *Daily, m int) []float64 {
	if m <= 0 {
		return nil
	}
	grid := cells(len(d.rate), m)
	s := search{d: d, grid: grid, m: m, best: math.Inf(1)}
	// One schedule with its first retrieval at 0 bounds all others: some best schedule
	// has its j-th retrieval between the j-th and the (j+1)-th of this one.
	low := s.solve(0, nil, nil)
	high := append(slices.Clone(low[1:]), grid)
	s.between(low, s.solve(high[0], low, high))
	tau := make([]float64, m)
	for j, at := range s.found {
		tau[j] = float64(at) / float64(grid)
	}
	return polish(d, tau)
}

// cells returns the size of the grid: a multiple of the bins, large enough to leave
// cells between the retrievals.
func cells(bins, m int) int {
	n := bins
	for n < 288 || n < 6*m {
		n += bins
	}
	return n
}

type search struct {
	d     *Daily
	grid  int
	m     int
	best  float64
	found []int
}

func (s *search) wait(a, b int) float64 {
	return s.d.wait(float64(a)/float64(s.grid), float64(b)/float64(s.grid))
}

// between finds the best schedule whose j-th retrieval lies from low[j] to high[j],
// given the best ones with the first retrieval at low[0] and at high[0].
func (s *search) between(low, high []int) {
	if high[0]-low[0] < 2 {
		return
	}
	first := (low[0] + high[0]) / 2
	mid := s.solve(first, low, high)
	s.between(low, mid)
	s.between(mid, high)
}

// solve finds the best schedule whose first retrieval is at cell first. cost[x] is
// the least delay up to cell x if the retrieval of the row is at x.
func (s *search) solve(first int, low, high []int) []int {
	end := first + s.grid
	bounds := func(j int) (int, int) {
		a, b := first+j, end-(s.m-j)
		if low != nil {
			a, b = max(a, low[j]), min(b, high[j])
		}
		return a, b
	}
	type row struct {
		from int
		cost []float64
		prev []int
	}
	rows := []row{{from: first, cost: []float64{0}}}
	for j := 1; j <= s.m; j++ {
		a, b := end, end
		if j < s.m {
			a, b = bounds(j)
		}
		last := rows[j-1]
		r := row{from: a, cost: make([]float64, b-a+1), prev: make([]int, b-a+1)}
		var fill func(a, b, low, high int)
		fill = func(a, b, low, high int) {
			if a > b {
				return
			}
			x := (a + b) / 2
			least, at := math.Inf(1), low
			for p := low; p <= min(high, x-1); p++ {
				if c := last.cost[p-last.from] + s.wait(p, x); c < least {
					least, at = c, p
				}
			}
			r.cost[x-r.from], r.prev[x-r.from] = least, at
			fill(a, x-1, low, at)
			fill(x+1, b, at, high)
		}
		fill(a, b, last.from, last.from+len(last.cost)-1)
		rows = append(rows, r)
	}
	out := make([]int, s.m)
	at := end
	for j := s.m; j > 0; j-- {
		at = rows[j].prev[at-rows[j].from]
		out[j-1] = at
	}
	if c := rows[s.m].cost[0]; c < s.best {
		s.best, s.found = c, out
	}
	return out
}

// polish moves each retrieval to the best place between its neighbours until that
// saves nothing significant.
func polish(d *Daily, tau []float64) []float64 {
	m := len(tau)
	if m == 1 {
		return sorted([]float64{single(d, tau[0])})
	}
	delay := d.Delay(sorted(tau))
	for range 2000 {
		for j := range tau {
			before, after := tau[(j+m-1)%m], tau[(j+1)%m]
			if j == 0 {
				before--
			}
			if j == m-1 {
				after++
			}
			tau[j] = d.place(before, after, tau[j])
		}
		next := d.Delay(sorted(tau))
		if next > delay*(1-1e-13) {
			break
		}
		delay = next
	}
	return sorted(tau)
}

// sorted returns the times, moved into one day, in ascending order.
func sorted(tau []float64) []float64 {
	out := make([]float64, len(tau))
	for j, t := range tau {
		if out[j] = t - math.Floor(t); out[j] >= 1 {
			out[j] = 0
		}
	}
	slices.Sort(out)
	return out
}

// place returns the best time for one more retrieval between two others. Within a bin
// the delay is a parabola, so the best time of a bin is the vertex or an end.
func (d *Daily) place(before, after, now float64) float64 {
	n := float64(len(d.rate))
	cost := func(t float64) float64 { return d.wait(before, t) + d.wait(t, after) }
	best, least := now, cost(now)
	try := func(t float64) {
		if c := cost(t); c < least {
			best, least = t, c
		}
	}
	for b := math.Floor(before * n); b/n < after; b++ {
		from, to := max(before, b/n), min(after, (b+1)/n)
		if from >= to {
			continue
		}
		try(from)
		rate := d.Rate((from + to) / 2)
		// λ(after − t) = ∫_before^from λ + λ(t − from)
		if rate > 0 {
			try(min(to, max(from, (after+from-d.Count(before, from)/rate)/2)))
		}
	}
	return best
}

// single returns the best time of the only retrieval. The derivative of its delay is
// λ̄ − λ(t), so the delay is least where the rate falls below its mean, at the end of
// a bin.
func single(d *Daily, start float64) float64 {
	best, least := start, d.Delay([]float64{start})
	for b := range d.rate {
		t := float64(b) / float64(len(d.rate))
		if c := d.Delay([]float64{t}); c < least {
			best, least = t, c
		}
	}
	return best
}
