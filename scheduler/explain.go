package scheduler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// An Explanation describes a query's place in the plan: why it ran or did not, and
// when it is expected to run next.
type Explanation struct {
	Query      string             `json:"query"`
	Endpoint   string             `json:"endpoint"`
	Policy     string             `json:"policy"`
	Slot       uint64             `json:"slot"`     // the slot that comes next
	Eligible   bool               `json:"eligible"` // may run in that slot
	Tier       string             `json:"tier"`     // refresh, new, hinted, interval, ranked
	Rank       int                `json:"rank"`     // rank in its tier, from 1; 0 = not ranked
	Of         int                `json:"of"`       // number of queries in the order
	Inputs     map[string]float64 `json:"inputs"`   // what the rank was computed from
	Estimate   registry.Duration  `json:"estimate"` // expected execution time, 0 = unknown
	Why        string             `json:"why"`      // one sentence for readers
	Code       string             `json:"code"`     // the reason as a word: a constant Code… here or in package plan, or a tier
	LastRun    policy.Run         `json:"last_run"`
	LastAsk    *plan.LastAsk      `json:"last_ask,omitempty"` // nil if merging is off or it has not run since the start
	PassedOver *PassedOver        `json:"passed_over,omitempty"`
	NextDue    time.Time          `json:"next_due,omitzero"`
}

// The codes of explanations besides those of package plan. If a tier puts a query before
// others, the code is the tier.
const (
	CodePlanning = "planning" // the order is being computed
	CodeClosed   = "closed"   // the next slot sends no requests
)

// PassedOver is the last slot in which a query was eligible but did not run.
type PassedOver struct {
	Slot   uint64 `json:"slot"`
	Reason string `json:"reason"`
}

// Explain returns a query's rank in the order of its endpoint, why it ran or did not,
// and when it is expected to run next. Between slots it includes the latest
// registrations. If the plan stays incomplete for long, Explain reports only that. The
// error wraps registry.ErrNotFound if the endpoint has no such query.
func (l *Loop) Explain(query string) (Explanation, error) {
	now := l.clock.Now()
	if !l.mu.TryLockPlan(readerWait) {
		l.mu.Lock()
		defer l.mu.Unlock()
		x := l.unplanned(query)
		x.Code, x.Why = CodePlanning, "the order of the endpoint's queries is being made, because its settings were edited or "+
			"many queries came at once; it is known in a moment"
		return x, nil
	}
	x, found, err := l.planned(query, now)
	since, running, slots := l.revision, l.running, l.calendar()
	later := l.unplanned(query)
	l.mu.Unlock()
	if err != nil || found {
		return x, err
	}
	if running {
		if found, err = l.announced(&later, since, &slots, now); err != nil || found {
			return later, err
		}
	}
	return Explanation{}, fmt.Errorf("query %s at endpoint %s: %w", query, later.Endpoint, registry.ErrNotFound)
}

// unplanned returns the explanation of a query that is not in the plan.
func (l *loopData) unplanned(query string) Explanation {
	return Explanation{
		Query: query, Endpoint: l.set.endpoint.Name, Policy: l.set.policy.String(), Slot: l.planner.Slot(), Inputs: map[string]float64{},
	}
}

// planned explains a query of the plan.
func (l *loopData) planned(query string, now time.Time) (x Explanation, found bool, err error) {
	if err := l.refresh(now); err != nil {
		return Explanation{}, false, err
	}
	c, found := l.planner.Explain(query, now)
	if !found {
		return Explanation{}, false, nil
	}
	return l.explain(query, &c, now), true, nil
}

// announced explains a query that was registered after a revision, while a slot runs.
func (l *loopData) announced(x *Explanation, since uint64, slots *calendar, now time.Time) (bool, error) {
	news, err := l.ledger.Since(x.Endpoint, since)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(news.Entries, func(e policy.Entry) bool { return e.Query.ID == x.Query })
	if i < 0 {
		return false, nil
	}
	x.Slot, x.Tier, x.LastRun = x.Slot+1, plan.TierNew, news.Entries[i].Stats.LastRun
	x.Code, x.Why = plan.TierNew, "it was registered after the running slot had begun; the next one looks at it"
	x.NextDue = slots.first(&news.Entries[i].Query, now)
	return true, nil
}

// explain explains a query's place in the plan, and why the next slot sends no requests
// if that is so.
func (l *loopData) explain(query string, c *plan.Place, now time.Time) Explanation {
	x := l.unplanned(query)
	x.Eligible, x.Tier, x.Rank, x.Of, x.Inputs = c.Eligible, c.Tier, c.Rank, c.Of, readable(c.Inputs)
	x.Estimate, x.LastRun, x.Code, x.Why = registry.Duration(c.Estimate), c.LastRun, c.Code, c.Why
	if l.set.endpoint.Merge != registry.MergeOff {
		x.LastAsk = c.LastAsk
	}
	slots := l.calendar()
	var between bool
	if x.NextDue, between = l.expected(&slots, c.Forecast, now); between {
		x.Why += "; an event or a hint says that it may have changed, so it is asked before, if the last slot has left enough of its budget"
	}
	if n := l.last.Number; c.Rank > 0 && n >= c.Since && n > 0 && !l.running {
		x.PassedOver = &PassedOver{Slot: n, Reason: cmp.Or(l.last.Error, l.rest.Refusal(c.Tier, c.Estimate, c.Cut),
			"the slot ended before its turn")}
	}
	if v := c.Void; v != nil && v.Slot == l.last.Number && !l.running {
		x.PassedOver = &PassedOver{Slot: v.Slot, Reason: fmt.Sprintf("the answer to a request for %d queries said nothing about "+
			"it (%s), and the slot ended before it was asked again", v.Members, v.Why)}
	}
	if shut := slots.closedReason(now); shut != "" && !c.Ran {
		x.Eligible, x.Code, x.Why = false, CodeClosed, shut+"; when slots ask it again: "+x.Why
	}
	return x
}

// Due predicts when queries are expected to run next, as Explain does for one. The
// times are in the order of queries; zero means unknown. All are zero while the
// plan stays incomplete for long. Due reads the plan once for all of them. Callers that
// wait for the plan at the same time share one update of it.
func (l *Loop) Due(queries []string) ([]time.Time, error) {
	now, begun := l.clock.Now(), l.begun.Load()
	due := make([]time.Time, len(queries))
	if !l.mu.TryLockPlan(readerWait) {
		return due, nil
	}
	since, slots, running := l.revision, l.calendar(), l.running
	err := l.due(due, queries, now, begun)
	l.mu.Unlock()
	if err != nil || !running {
		return due, err
	}
	return due, l.dueAnnounced(due, queries, since, &slots, now)
}

// due predicts when queries of the plan run, as they are in their order.
func (l *loopData) due(due []time.Time, queries []string, now time.Time, begun uint64) error {
	if !l.running {
		if l.updated <= begun { // else an update that began after this call has read what it asks for
			if err := l.update(now); err != nil {
				return err
			}
		}
		l.planner.RefreshFor(now, queries)
	}
	slots := l.calendar()
	for i, id := range queries {
		if f, ok := l.planner.Forecast(id); ok {
			due[i], _ = l.expected(&slots, f, now)
		}
	}
	return nil
}

// expected predicts when a query runs, and whether that is between two slots.
func (l *loopData) expected(slots *calendar, f plan.Forecast, now time.Time) (at time.Time, between bool) {
	slot := slots.expected(f, now)
	if f.Armed.At.IsZero() || slots.shut != nil {
		return slot, false
	}
	if at = f.Armed.At; at.Before(now) {
		at = now
	}
	next := slots.after(now)
	for at.Before(next) && at.Before(f.Armed.Vain) {
		at = at.Add(f.Armed.Every)
	}
	limit, _ := l.offGridLimit(now, next)
	if limit <= 0 || !l.set.blackouts.end(at).IsZero() || !slot.IsZero() && !at.Before(slot) {
		return slot, false
	}
	return at, true
}

// dueAnnounced predicts when queries run that were registered after a revision, while a slot
// runs: the next one looks at them.
func (l *loopData) dueAnnounced(due []time.Time, queries []string, since uint64, slots *calendar, now time.Time) error {
	if !slices.ContainsFunc(due, time.Time.IsZero) {
		return nil
	}
	news, err := l.ledger.Since(slots.set.endpoint.Name, since)
	for i := range news.Entries {
		q := &news.Entries[i].Query
		if n := slices.Index(queries, q.ID); n >= 0 && due[n].IsZero() {
			due[n] = slots.first(q, now)
		}
	}
	return err
}

// readable rounds fractions to what people can read: to six digits, and to 0 where a value is too
// small to decide anything.
func readable(inputs map[string]float64) map[string]float64 {
	for name, v := range inputs {
		if math.Abs(v) < 1e-9 {
			inputs[name] = 0
		} else if v != math.Trunc(v) {
			inputs[name], _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64) // it is a number
		}
	}
	return inputs
}
