package papers

import (
	"fmt"
	"slices"

	"github.com/freshet/freshet/scheduler/wic"
)

// A WICWorkload are pages that change with given probabilities, C of which can be
// monitored in each of N instants.
//
// Source: S. Pandey, K. Dhamdhere, C. Olston, "WIC: A general-purpose algorithm
// for monitoring web information sources".
type WICWorkload struct {
	Pages   int         `json:"n"`
	N       int         `json:"N"`
	C       Capacity    `json:"C"`
	Life    wic.Life    `json:"life"`
	Urgency wic.Urgency `json:"urgency"`
	Weights []float64   `json:"weights,omitempty"`
	Pi      [][]float64 `json:"pi"` // by page, N numbers each
	// Updates are the true changes by page, where they are known: instants,
	// ascending. They are what captured fractions are measured against.
	Updates [][]int `json:"updates,omitempty"`
}

// A WICResult is the result of a policy.
type WICResult struct {
	Policy   string  `json:"policy"`
	Schedule [][]int `json:"schedule"` // pages, per instant
	Utility  float64 `json:"utility"`  // Σ g of what was monitored
	// Where the true changes are known: the fractions of them that were captured,
	// and that were captured in the instant in which they occurred.
	Captured  *float64 `json:"captured,omitempty"`
	ZeroDelay *float64 `json:"zero_delay,omitempty"`
}

// Policies returns wic.
func (l *WICWorkload) Policies() []string { return []string{wicPolicy} }

// Check returns an error if the workload is invalid.
func (l *WICWorkload) Check() error {
	if err := l.C.check(); err != nil {
		return err
	}
	for _, err := range []error{l.Life.Check(), l.Urgency.Check()} {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrWorkload, err)
		}
	}
	if len(l.Pi) != l.Pages || l.Weights != nil && len(l.Weights) != l.Pages || l.Updates != nil && len(l.Updates) != l.Pages {
		return fmt.Errorf("%w: %d pages, probabilities of %d, weights of %d, updates of %d", ErrWorkload, l.Pages, len(l.Pi),
			len(l.Weights), len(l.Updates))
	}
	for i, row := range l.Pi {
		if len(row) != l.N {
			return fmt.Errorf("%w: %d probabilities of page %d, there are %d instants", ErrWorkload, len(row), i, l.N)
		}
		for _, p := range row {
			if !(p >= 0 && p <= 1) {
				return fmt.Errorf("%w: page %d changes with probability %v", ErrWorkload, i, p)
			}
		}
	}
	for i, w := range l.Weights {
		if !(w >= 0 && w <= 1e9) {
			return fmt.Errorf("%w: page %d has weight %v", ErrWorkload, i, w)
		}
	}
	for _, u := range l.Updates {
		if err := ascending("updates", u, l.N); err != nil {
			return err
		}
	}
	return nil
}

// Run runs a policy.
func (l *WICWorkload) Run(policy string) (Result, error) {
	if policy != wicPolicy {
		return nil, unknownPolicy(policy, l)
	}
	out := &WICResult{Policy: policy, Schedule: make([][]int, l.N)}
	pages, gains := make([]*wic.Pending, l.Pages), make([]float64, l.Pages)
	for i := range pages {
		pages[i] = wic.NewPending(l.Urgency, l.Life)
	}
	for j := range l.N {
		for i, p := range pages {
			p.Step(l.Pi[i][j])
			gains[i] = p.Gain()
			if l.Weights != nil {
				gains[i] *= l.Weights[i]
			}
		}
		out.Schedule[j] = wic.Top(gains, l.C.At(j+1))
		for _, i := range out.Schedule[j] {
			out.Utility += gains[i]
			pages[i].Monitored()
		}
	}
	if l.Updates != nil {
		captured, zero := fractions(l.delays(out.Schedule), l.changes())
		out.Captured, out.ZeroDelay = &captured, &zero
	}
	return out, nil
}

// changes returns the number of true changes.
func (l *WICWorkload) changes() (n int) {
	for _, u := range l.Updates {
		n += len(u)
	}
	return n
}

// delays returns, for each true change that a schedule captures, the number of
// instants between the change and its capture.
func (l *WICWorkload) delays(schedule [][]int) (delays []int) {
	prev := make([]int, l.Pages)
	for j, pages := range schedule {
		for _, i := range pages {
			for _, at := range l.alive(l.Updates[i], prev[i], j+1) {
				delays = append(delays, j+1-at)
			}
			prev[i] = j + 1
		}
	}
	return delays
}

// fractions returns the shares of all changes that were captured, and that were
// captured without delay.
func fractions(delays []int, all int) (captured, zero float64) {
	now := 0
	for _, d := range delays {
		if d == 0 {
			now++
		}
	}
	return float64(len(delays)) / max(1, float64(all)), float64(now) / max(1, float64(all))
}

// alive returns the changes after prev that can still be captured at instant j.
func (l *WICWorkload) alive(updates []int, prev, j int) []int {
	to, _ := slices.BinarySearch(updates, j+1)
	from, _ := slices.BinarySearch(updates, prev+1)
	switch l.Life.Kind {
	case wic.Window:
		oldest, _ := slices.BinarySearch(updates, j-l.Life.W)
		from = max(from, oldest)
	case wic.Overwrite:
		from = max(from, to-1)
	case wic.Changes:
		from = max(from, to-l.Life.W)
	}
	return updates[from:to]
}

// Cells returns the values of a table row.
func (r *WICResult) Cells() []Cell {
	n := 0
	for _, pages := range r.Schedule {
		n += len(pages)
	}
	cells := []Cell{{"utility", fmt.Sprintf("%.2f", r.Utility)}, {"monitorings", fmt.Sprint(n)}}
	if r.Captured != nil {
		cells = append(cells, Cell{"captured", fmt.Sprintf("%.3f", *r.Captured)}, Cell{"without delay", fmt.Sprintf("%.3f", *r.ZeroDelay)})
	}
	return cells
}
