package papers

import (
	"fmt"
	"math"

	"github.com/freshet/freshet/scheduler/retrieval"
)

// An AllocationWorkload is one of three questions: how to divide N retrievals a day
// among sources with given rates (and weights); when to make m retrievals of a
// source whose rate varies over the day; or, with Sources, how late postings
// are reported under the four strategies of the paper.
//
// Source: K. C. Sia, "Efficient Monitoring Algorithm for Fast News Alert".
type AllocationWorkload struct {
	Rates   []float64 `json:"rates,omitzero"`
	Weights []float64 `json:"weights,omitempty"`
	N       float64   `json:"N,omitempty"`

	Daily []float64 `json:"daily,omitempty"` // rates of equal bins of a day
	M     int       `json:"m,omitempty"`

	Sources []Source `json:"sources,omitempty"`
	Days    int      `json:"days,omitempty"`
	Seed    uint64   `json:"seed,omitempty"` // of the postings
}

// A Source posts Rate times a day on average, in a daily pattern of equal bins.
type Source struct {
	Rate  float64   `json:"rate"`
	Daily []float64 `json:"daily"`
}

// maxRetrievals is the largest m. Placing takes time and memory in proportion to its
// square.
const maxRetrievals = 2000

// The policies of allocation workloads.
const (
	sqrtPolicy      = "sqrt"      // divides by the square root rule
	retrievalPolicy = "retrieval" // places by the optimality criterion
	// The four strategies, over sources.
	evenStrategy       = "even"            // as many for each, evenly spaced
	retrievalStrategy  = "retrieval-only"  // as many for each, placed
	allocationStrategy = "allocation-only" // divided, evenly spaced
	combinedStrategy   = "combined"        // divided and placed
)

var allStrategies = []string{evenStrategy, retrievalStrategy, allocationStrategy, combinedStrategy}

// An AllocationResult answers one of the first two questions.
type AllocationResult struct {
	Policy string    `json:"policy"`
	M      []float64 `json:"m,omitzero"`    // per source, summing to N
	Tau    []float64 `json:"tau,omitempty"` // fractions of the day
	// Delay is the expected delay, in days: the sum over the postings of a day.
	Delay float64 `json:"delay"`
}

// A StrategyResult answers the third question. Delays are in minutes.
type StrategyResult struct {
	Policy   string  `json:"policy"`
	Postings int     `json:"postings"`
	Average  float64 `json:"average_delay"`
	Max      float64 `json:"max_delay"`
	Stddev   float64 `json:"stddev"`
}

// Policies returns the policies of the question.
func (l *AllocationWorkload) Policies() []string {
	switch {
	case l.Sources != nil:
		return allStrategies
	case l.Daily != nil:
		return []string{retrievalPolicy}
	}
	return []string{sqrtPolicy}
}

// Check returns an error if the workload is invalid.
func (l *AllocationWorkload) Check() error {
	questions := 0
	for _, asked := range []bool{l.Rates != nil, l.Daily != nil, l.Sources != nil} {
		if asked {
			questions++
		}
	}
	if questions != 1 {
		return fmt.Errorf("%w: it has one of rates, daily and sources", ErrWorkload)
	}
	if l.Weights != nil && len(l.Weights) != len(l.Rates) {
		return fmt.Errorf("%w: %d weights of %d sources", ErrWorkload, len(l.Weights), len(l.Rates))
	}
	lists := [][]float64{l.Rates, l.Weights, l.Daily, {l.N}}
	for _, s := range l.Sources {
		if len(s.Daily) == 0 {
			return fmt.Errorf("%w: a source without a daily pattern", ErrWorkload)
		}
		lists = append(lists, s.Daily, []float64{s.Rate})
	}
	for _, list := range lists {
		for _, x := range list {
			if !(x >= 0 && x <= 1e12) {
				return fmt.Errorf("%w: a rate, a weight or a number of retrievals is %v", ErrWorkload, x)
			}
		}
	}
	switch {
	case l.Daily != nil && len(l.Daily) == 0:
		return fmt.Errorf("%w: daily is empty", ErrWorkload)
	case l.Daily != nil && (l.M < 1 || l.M > maxRetrievals):
		return fmt.Errorf("%w: m is %d, it is from 1 to %d", ErrWorkload, l.M, maxRetrievals)
	case l.Sources != nil && (l.N < float64(len(l.Sources)) || l.Days < 1):
		return fmt.Errorf("%w: %v retrievals of %d sources on %d days", ErrWorkload, l.N, len(l.Sources), l.Days)
	}
	return nil
}

// Run runs a policy.
func (l *AllocationWorkload) Run(policy string) (Result, error) {
	switch {
	case l.Sources != nil:
		return l.strategy(policy)
	case policy == sqrtPolicy && l.Daily == nil:
		r := &AllocationResult{Policy: policy, M: retrieval.Allocate(l.Rates, l.Weights, l.N)}
		for i, m := range r.M {
			w := 1.0
			if l.Weights != nil {
				w = l.Weights[i]
			}
			if m > 0 {
				r.Delay += w * l.Rates[i] / (2 * m)
			}
		}
		return r, nil
	case policy == retrievalPolicy && l.Daily != nil:
		d := retrieval.NewDaily(l.Daily)
		tau := retrieval.Schedule(d, l.M)
		return &AllocationResult{Policy: policy, Tau: tau, Delay: d.Delay(tau)}, nil
	}
	return nil, unknownPolicy(policy, l)
}

// Cells returns the values of a table row.
func (r *AllocationResult) Cells() []Cell {
	list := r.M
	name := "retrievals a day"
	if r.Tau != nil {
		list, name = r.Tau, "retrieval times"
	}
	text := ""
	for i, x := range list {
		if i == 8 {
			text += fmt.Sprintf(" … (%d)", len(list))
			break
		}
		text += fmt.Sprintf(" %.4g", x)
	}
	return []Cell{{"expected delay", fmt.Sprintf("%.6g", r.Delay)}, {name, text}}
}

// Cells returns the values of a table row.
func (r *StrategyResult) Cells() []Cell {
	return []Cell{
		{"average delay, min", fmt.Sprintf("%.0f", r.Average)}, {"max delay, min", fmt.Sprintf("%.0f", r.Max)},
		{"standard deviation", fmt.Sprintf("%.0f", r.Stddev)}, {"postings", fmt.Sprint(r.Postings)},
	}
}

// moments computes the mean, the standard deviation and the maximum of its values.
type moments struct {
	n            int
	sum, squares float64
	most         float64
}

func (s *moments) add(x float64) {
	s.n++
	s.sum += x
	s.squares += x * x
	s.most = max(s.most, x)
}

func (s *moments) mean() float64 { return s.sum / max(1, float64(s.n)) }

func (s *moments) deviation() float64 {
	return math.Sqrt(max(0, s.squares/max(1, float64(s.n))-s.mean()*s.mean()))
}
