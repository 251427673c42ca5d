package bench

import (
	"fmt"
	"math"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// boundRounds is the number of steps that Bound takes. More improve it by less than a
// hundredth.
const boundRounds = 200

// Bound returns a number of changes that no schedule of requests for one query each exceeds,
// whatever it knows beforehand. It is 0 under plan.RuleDebt, for which it has no bound.
//
// A version can be found by one complete execution in the slots in which it is the current
// one. Let execution j in slot s take c(j,s), at most the budget K. For any prices μ(s) ≥ 0 of
// a second in slot s, Σ K·μ(s) + Σ max(0, 1 − min μ(s)·c(j,s)) is a bound, where the second
// sum is over all versions and the minimum over the slots of one. Under plan.RuleOverrun the
// longest execution that can find something in slot s is added to K. Steps along subgradients
// look for good prices; each of them gives a bound, and the smallest is returned.
//
// Source: the Lagrangian dual of the assignment, see M. L. Fisher, "The Lagrangian relaxation
// method for solving integer programming problems", 1981. The lengths of steps are those of
// B. T. Polyak, "Minimization of unsmooth functionals", 1969.
func (w *Simulator) Bound(rule string, budget time.Duration) int {
	if rule == plan.RuleDebt {
		return 0
	}
	jobs, capacity := w.jobs(rule, budget)
	best := lowest(capacity, make([]float64, len(capacity)), func(price []float64) (float64, []float64) {
		return priced(jobs, capacity, price)
	})
	return int(best + 1e-6)
}

// lowest looks for the smallest value over the prices of slots, beginning with some. eval also returns what is used
// of the capacity of each slot at these prices.
func lowest(capacity, price []float64, eval func([]float64) (value float64, used []float64)) float64 {
	best, aim, since := math.Inf(1), 0.1, 0
	at := price
	for range boundRounds {
		value, used := eval(at)
		if value < best-0.01 {
			best, price, since = value, append(price[:0:0], at...), 0
		} else if since++; since == 10 { // The aim was too high.
			aim, since = aim/2, 0
			at = append(at[:0:0], price...)
			continue
		}
		square := 0.0
		for s := 1; s < len(at); s++ {
			if d := capacity[s] - used[s]; at[s] > 0 || d < 0 {
				square += d * d
			}
		}
		if square == 0 {
			break
		}
		step := (value - best*(1-aim)) / square
		next := make([]float64, len(at))
		for s := 1; s < len(at); s++ {
			next[s] = max(0, at[s]-step*(capacity[s]-used[s]))
		}
		at = next
	}
	return best
}

// setBounds sets the bound of rows without merged requests.
func (w *Simulator) setBounds(rows []Row) {
	known := map[string]int{}
	for i := range rows {
		r := &rows[i]
		if r.Merge != "" && r.Merge != registry.MergeOff {
			continue
		}
		key := fmt.Sprint(r.Rule, r.BudgetMS)
		if _, has := known[key]; !has {
			known[key] = w.Bound(r.Rule, time.Duration(r.BudgetMS)*time.Millisecond)
		}
		r.Bound = known[key]
	}
}

// A job is a version that can be found.
type job struct {
	first int       // slot from which it is the current one
	cost  []float64 // seconds of an execution in each slot in which it is, +Inf if it does not fit
}

// jobs lists all jobs, and the seconds of each slot.
func (w *Simulator) jobs(rule string, budget time.Duration) (out []job, capacity []float64) {
	capacity = make([]float64, w.t.Revisions+1)
	for s := range capacity {
		capacity[s] = budget.Seconds()
	}
	for i := range w.t.Series {
		s := &w.t.Series[i]
		all := make([]float64, w.t.Revisions+1)
		for r := range all {
			all[r] = float64(w.t.Times[r][s.Query]) / 1000
			if rule == plan.RuleStrict && all[r] > budget.Seconds() {
				all[r] = math.Inf(1)
			}
		}
		for v := 1; v < len(s.Versions); v++ {
			first, end := s.Versions[v].Rev, len(all)
			if v+1 < len(s.Versions) {
				end = s.Versions[v+1].Rev
			}
			out = append(out, job{first, all[first:end]})
		}
		if rule == plan.RuleOverrun {
			for r := s.Versions[0].Rev + 1; r < len(all) && len(s.Versions) > 1; r++ {
				capacity[r] = max(capacity[r], budget.Seconds()+all[r])
			}
		}
	}
	return out, capacity
}

// priced returns the bound that prices give, and the seconds of each slot that versions buy
// at these prices.
func priced(jobs []job, capacity, price []float64) (bound float64, used []float64) {
	used = make([]float64, len(price))
	for s, p := range price {
		bound += capacity[s] * p
	}
	for _, j := range jobs {
		least, at := 1.0, -1
		for i, p := range price[j.first:][:len(j.cost)] {
			if x := p * j.cost[i]; x < least {
				least, at = x, i
			}
		}
		if at >= 0 {
			bound += 1 - least
			used[j.first+at] += j.cost[at]
		}
	}
	return bound, used
}
