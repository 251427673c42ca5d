package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A Setup is one policy under one budget.
type Setup struct {
	Policy   string // spelling; "cv" is the clairvoyant policy
	Budget   time.Duration
	Rule     string        // one of plan.Rules
	Timeout  time.Duration // of one execution, 0 = none
	Schedule bool          // keep the executions of each slot
	Ring     bool          // estimate from the last 63 executions, as the live loop does
	Merge    string        // registry.Endpoint.Merge; empty is off
	Signals  *Signals      // a noisy feed, nil = none
	Warm     string        // what the policy begins with: one of Warmths; empty: nothing
}

// What a policy begins with that has run over the whole trace before.
const (
	WarmImport   = "import"   // how often each query was executed and had changed, as after export and import
	WarmTemplate = "template" // the same of all other queries of its template together, as from a pack
	WarmState    = "state"    // all that it has learnt, as on a server that was moved or restored from a backup
)

// Warmths lists the values of Setup.Warm.
func Warmths() []string { return []string{WarmImport, WarmTemplate, WarmState} }

// A Row is the result of a simulation.
type Row struct {
	Policy   string         `json:"policy"`
	Params   map[string]any `json:"params"`
	BudgetMS int64          `json:"budget_ms"`
	Rule     string         `json:"rule"`
	Merge    string         `json:"merge,omitempty"`
	Signals  *Signals       `json:"signals,omitempty"`
	Warm     string         `json:"warm,omitempty"`
	Bound    int            `json:"bound,omitempty"` // Simulator.Bound, set by RunAll
	Metrics
	// Slots lists the complete executions of each slot in order. Cuts lists slot and
	// query of each execution that was cut. Both need Setup.Schedule.
	Slots [][]int  `json:"slots,omitzero"`
	Cuts  [][2]int `json:"cuts,omitzero"`

	Delays []int `json:"-"` // of each relevant execution and each result that is stale at the end
}

// Check returns an error if the setup is invalid.
func (s Setup) Check() error {
	if _, err := scheduler.ParsePolicy(s.Policy); err != nil {
		return err
	}
	switch {
	case s.Budget <= 0:
		return fmt.Errorf("budget %s leaves nothing to do", s.Budget)
	case s.Timeout < 0:
		return fmt.Errorf("timeout %s leaves nothing to do", s.Timeout)
	case !slices.Contains(plan.Rules(), s.Rule):
		return fmt.Errorf("rule %q is not known, use %s", s.Rule, strings.Join(plan.Rules(), " or "))
	case s.Signals != nil && !(s.Signals.Miss >= 0 && s.Signals.Miss <= 1 && s.Signals.Lie >= 0 && s.Signals.Lie < 1):
		return fmt.Errorf("signals that miss %g and lie %g: each is a part of 1, and not all can be lies", s.Signals.Miss, s.Signals.Lie)
	case s.Warm != "" && !slices.Contains(Warmths(), s.Warm):
		return fmt.Errorf("warm %q is not known, use %s", s.Warm, strings.Join(Warmths(), " or "))
	case s.Warm == WarmState && (s.Signals != nil || s.merges()):
		return errors.New("warm state is not simulated with signals or merged requests")
	case s.Merge != "" && !slices.Contains(registry.MergeModes(), s.Merge):
		return fmt.Errorf("merge %q is not known, use %s", s.Merge, strings.Join(registry.MergeModes(), " or "))
	case s.merges() && s.Rule == plan.RuleOverrun:
		return fmt.Errorf("the rule %s has no merged requests, use %s or %s", s.Rule, plan.RuleStrict, plan.RuleDebt)
	}
	return nil
}

func (s Setup) merges() bool { return s.Merge != "" && s.Merge != registry.MergeOff }

// Run runs one setup over the whole trace. It stops early with the error of ctx.
func (w *Simulator) Run(ctx context.Context, s Setup) (Row, error) {
	if err := s.Check(); err != nil {
		return Row{}, err
	}
	p, err := scheduler.ParsePolicy(s.Policy)
	if err != nil {
		return Row{}, err
	}
	row := Row{Policy: s.Policy, Params: params(p), BudgetMS: s.Budget.Milliseconds(), Rule: s.Rule, Merge: s.Merge,
		Signals: s.Signals, Warm: s.Warm}
	y := newTally(w, s.Budget)
	y.merges = s.merges()
	c := plan.ReplayConfig{
		Policy: p, Rule: s.Rule, Budget: s.Budget, Timeout: s.Timeout, Queries: w.queries, World: w, Ring: s.Ring, Ranked: s.Schedule,
	}
	if s.merges() {
		if w.t.Templates == nil {
			return Row{}, errors.New("the trace has no templates, so that no requests can be merged")
		}
		c.Merged = w.merged(s.Merge)
	}
	if s.Warm == WarmTemplate && w.t.Templates == nil {
		return Row{}, errors.New("the trace has no templates, so that nothing is known about other queries of one")
	}
	if s.Signals != nil {
		y.noise, y.heard = *s.Signals, make([]int, w.t.Queries)
		if reports := w.signals(*s.Signals); !policy.NeedsOracle(p) {
			c.Hinted = func(slot uint64) []int { return reports[slot] }
		} else {
			y.reports = reports
		}
	}
	if s.Policy == "bayes" {
		y.belief = w.belief()
	}
	warm := s.Warm
	if policy.NeedsOracle(p) {
		warm = ""
	}
	if warm == WarmState {
		c.World = twice{w}
	}
	var r *plan.Replay
	if warm != "" {
		if r, err = w.warm(ctx, c); err != nil {
			return Row{}, err
		}
	}
	switch warm {
	case WarmImport:
		c.Queries, c.Lead = w.learnt(r), time.Hour
	case WarmTemplate:
		c.Queries, c.Lead = w.ofOthers(r), time.Hour
	}
	if warm != WarmState {
		c.Policy = policy.Foresee(p, y.oracle)
		if r, err = plan.NewReplay(c); err != nil {
			return Row{}, err
		}
	}
	if s.Schedule {
		row.Slots, row.Cuts = make([][]int, w.t.Revisions), [][2]int{}
	}
	for slot := range w.t.Revisions {
		if slot%64 == 0 && ctx.Err() != nil {
			return Row{}, ctx.Err()
		}
		w.slot(r, y, &row, s.Schedule)
	}
	row.Metrics = y.finish()
	row.Delays = y.delays
	return row, nil
}

// warm returns a replay that has played the whole trace.
func (w *Simulator) warm(ctx context.Context, c plan.ReplayConfig) (*plan.Replay, error) {
	r, err := plan.NewReplay(c)
	if err != nil {
		return nil, err
	}
	for range w.t.Revisions {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.Slot(func(plan.Played) {})
	}
	return r, nil
}

// learnt returns the queries with what a replay of the whole trace has found out about them.
func (w *Simulator) learnt(r *plan.Replay) []registry.Query {
	queries := slices.Clone(w.queries)
	for i, e := range r.Entries() {
		queries[i].Learnt = queries[i].Learnt.Plus(e.Stats.Changes, e.Stats.Executions-1, float64(e.Stats.Last)/24)
	}
	return queries
}

// ofOthers is learnt with what was found out about the other queries of a query's template, in place of what was about it.
func (w *Simulator) ofOthers(r *plan.Replay) []registry.Query {
	queries, sums := w.learnt(r), make(map[int]registry.Learnt)
	add := func(to registry.Learnt, l *registry.Learnt, sign int) registry.Learnt {
		if l != nil {
			to.Changes, to.Executions = to.Changes+uint64(sign)*l.Changes, to.Executions+uint64(sign)*l.Executions
			to.Days += float64(sign) * l.Days
		}
		return to
	}
	for q, t := range w.t.Templates {
		sums[t] = add(sums[t], queries[q].Learnt, 1)
	}
	for q, t := range w.t.Templates {
		l := add(sums[t], queries[q].Learnt, -1)
		l.Source = "the other queries of the template"
		if queries[q].Learnt = &l; t == 0 || l.Executions == 0 {
			queries[q].Learnt = nil
		}
	}
	return queries
}

// twice is a World whose history takes place twice. At the beginning of the second time all results are known,
// as at t0.
type twice struct{ *Simulator }

// Execute implements plan.World.
func (w twice) Execute(q int, slot, last uint64) plan.Known {
	if n := uint64(w.t.Revisions); slot > n {
		slot, last = slot-n, max(last, n)-n
	}
	return w.Simulator.Execute(q, slot, last)
}

// Total implements plan.World.
func (w twice) Total(slot uint64) (cost, longest time.Duration, ok bool) {
	if n := uint64(w.t.Revisions); slot > n {
		slot -= n
	}
	return w.Simulator.Total(slot)
}

func (w *Simulator) slot(r *plan.Replay, y *tally, row *Row, schedule bool) {
	y.begin()
	each := y.play
	if schedule {
		done := []int{}
		defer func() { row.Slots[y.slot-1] = done }()
		each = func(x plan.Played) {
			y.play(x)
			if x.Outcome.Complete() {
				done = append(done, x.Query)
			} else if x.Outcome == "cut" {
				row.Cuts = append(row.Cuts, [2]int{y.slot, x.Query})
			}
		}
	}
	if r.Slot(each) {
		y.playAll()
	}
	y.end(r.Debt())
}

// clairvoyant is the policy that knows all results in advance and runs what is stale
// longest first. It exists in simulations only, as a yardstick. It is no upper bound, which
// Simulator.Bound computes: "edf" finds more with the same knowledge.
const clairvoyant = "cv"

// yardstick reports whether a policy is one that no endpoint can run.
func yardstick(spelling string) bool {
	p, err := scheduler.ParsePolicy(spelling)
	return err == nil && policy.NeedsOracle(p)
}

// oracle implements policy.Oracle.
func (y *tally) oracle(slot uint64, c *policy.Candidate) policy.Foresight {
	if y.belief != nil {
		return policy.Foresight{Worth: y.belief.worth(int(c.Number), int(slot-c.Stats.Last)),
			Yield: float64(y.m.Relevant) / max(1, y.used.Seconds())}
	}
	i := y.w.series[c.Number]
	if i < 0 {
		return policy.Foresight{Never: true}
	}
	f := policy.Foresight{Next: math.MaxUint64, Miss: y.noise.Miss, Lie: y.noise.Lie,
		Cost: milliseconds(y.w.t.Times[slot][c.Number]), Rate: y.w.rates[i]}
	if since, stale := y.staleFrom(int(i)); stale {
		f.Since = uint64(since)
	}
	if y.heard == nil { // no change is reported
		f.Miss = 1
	} else {
		f.Signals = y.heard[c.Number]
	}
	s := &y.w.t.Series[i]
	if k := y.now(int(i)); k+1 < len(s.Versions) {
		f.Next = uint64(s.Versions[k+1].Rev)
	}
	return f
}

// params returns the parameters of a policy's canonical spelling, including defaults.
func params(p policy.Policy) map[string]any {
	words := strings.Split(p.String(), ":")
	out := map[string]any{}
	for _, word := range words[1:] {
		name, value, named := strings.Cut(word, "=")
		if !named {
			name, value = paramOf(words[0], word), word
		}
		out[name] = value
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			out[name] = f
		}
	}
	return out
}

// paramOf returns the parameter whose value may be spelled without its name.
func paramOf(policy, word string) string {
	for _, d := range scheduler.Policies() {
		for _, p := range d.Params {
			if d.Name == policy && slices.Contains(p.Values, word) {
				return p.Name
			}
		}
	}
	return word
}
