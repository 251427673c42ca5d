package papers

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/freshet/freshet/scheduler/update"
)

// A SUPWorkload is one page whose every X-th update is to be reported: the true
// updates, and those that a model expects.
//
// Source: H. Roitman, A. Gal, L. Bright, L. Raschid, "A dual framework and
// algorithms for targeted data delivery".
type SUPWorkload struct {
	N       int    `json:"N"` // chronons
	X       int    `json:"X"`
	Life    string `json:"life"` // "overwrite" or "window"
	Y       int    `json:"Y"`
	Updates []int  `json:"updates"`
	Model   []int  `json:"model"`
}

// A SUPResult is the result of a policy.
type SUPResult struct {
	Policy  string `json:"policy"`
	Probes  []int  `json:"probes"`  // chronons
	Utility int    `json:"utility"` // true execution intervals with a probe in them
}

// The policies of SUP workloads.
const (
	optimalPolicy = "optimal" // sup with the true updates as its model
	supPolicy     = "sup"
	fbsupPolicy   = "fbsup"
)

// Policies returns optimal, sup and fbsup.
func (l *SUPWorkload) Policies() []string { return []string{optimalPolicy, supPolicy, fbsupPolicy} }

// Check returns an error if the workload is invalid.
func (l *SUPWorkload) Check() error {
	if l.N < 0 {
		return fmt.Errorf("%w: %d chronons", ErrWorkload, l.N)
	}
	if l.Life != "overwrite" && l.Life != "window" {
		return fmt.Errorf("%w: life is %q; there are overwrite and window", ErrWorkload, l.Life)
	}
	if err := l.rule().Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrWorkload, err)
	}
	if err := within("updates", l.Updates, l.N); err != nil {
		return err
	}
	return within("updates of the model", l.Model, l.N)
}

func within(what string, list []int, n int) error {
	if len(list) > 0 && (slices.Min(list) < 1 || slices.Max(list) > n) {
		return fmt.Errorf("%w: %s from %d to %d, outside 1 to %d", ErrWorkload, what, slices.Min(list), slices.Max(list), n)
	}
	return nil
}

func (l *SUPWorkload) rule() update.Rule {
	r := update.Rule{X: l.X}
	if l.Life == "window" {
		r.Life = update.Within(l.Y)
	}
	return r
}

// Run runs a policy.
func (l *SUPWorkload) Run(policy string) (Result, error) {
	rule, truth, model := l.rule(), slices.Sorted(slices.Values(l.Updates)), slices.Sorted(slices.Values(l.Model))
	spans := rule.Spans(truth, l.N)
	out := &SUPResult{Policy: policy}
	switch policy {
	case optimalPolicy:
		out.Probes = update.SUP(spans)
	case supPolicy:
		out.Probes = update.SUP(rule.Spans(model, l.N))
	case fbsupPolicy:
		out.Probes = update.Feedback(rule, model, truth, l.N)
	default:
		return nil, unknownPolicy(policy, l)
	}
	if out.Probes == nil {
		out.Probes = []int{}
	}
	out.Utility = update.Utility(spans, out.Probes)
	return out, nil
}

// Cells returns the values of a table row.
func (r *SUPResult) Cells() []Cell {
	return []Cell{{"probes", strconv.Itoa(len(r.Probes))}, {"utility", strconv.Itoa(r.Utility)}}
}
