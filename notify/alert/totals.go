// This file sums up rules, evaluations and messages for the metrics.

package alert

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/freshet/freshet/registry"
)

// Totals sums up all rules. For a query with rules that lag, it reads one change of the log.
func (e *Engine) Totals() (registry.RuleTotals, error) {
	t := registry.RuleTotals{Rules: map[registry.RuleStatus]int{}, Alerts: map[registry.AlertState]int{}, Firing: map[string]int{}, Messages: map[string]registry.MessageTotals{}}
	e.mu.Lock()
	rules := slices.Collect(maps.Values(e.rules))
	t.Evaluated, t.Failed = e.count[0], e.count[1]
	receivers := slices.Collect(maps.Keys(e.receivers))
	list := make([]registry.ListedRule, len(rules))
	for i, x := range rules {
		list[i] = x.counted()
		list[i].Reason = cmp.Or(x.broken, x.trouble)
	}
	e.mu.Unlock()
	if err := e.sum(t.Messages, receivers); err != nil {
		return t, err
	}
	oldest := map[string]registry.Position{} // of rules that lag, by query
	for i := range list {
		v := &list[i]
		broken := v.Reason
		if broken == "" {
			broken = v.State.Problem
		}
		if err := e.opts.judge(v, broken); err != nil {
			return t, err
		}
		t.Rules[v.Status]++
		t.Alerts[registry.AlertFiring] += v.Firing
		t.Alerts[registry.AlertPending] += v.Pending
		if v.Firing > 0 {
			t.Firing[v.Caller] += v.Firing
		}
		switch v.Status {
		case registry.RuleFailing, registry.RulePaused, registry.RuleEnded:
			continue
		}
		status, _, err := e.opts.Log.Current(v.Query, false)
		if errors.Is(err, registry.ErrNotFound) {
			continue
		} else if err != nil {
			return t, err
		}
		at := v.State.At
		if was, lags := oldest[v.Query]; at != status.Position && status.Position.Seq > 0 && (!lags || at.Seq < was.Seq) {
			oldest[v.Query] = at
		}
	}
	now := e.opts.Now()
	for query, at := range oldest {
		page, err := e.opts.Log.After(query, at, 1)
		if gap := (*registry.GapError)(nil); errors.As(err, &gap) || errors.Is(err, registry.ErrNotFound) {
			continue // the next evaluation takes the whole result
		} else if err != nil {
			return t, err
		}
		if len(page) > 0 {
			t.Lag = max(t.Lag, now.Sub(page[0].Time))
		}
	}
	return t, nil
}

// sum sums up the messages to receivers, by their kinds.
func (e *Engine) sum(totals map[string]registry.MessageTotals, receivers []string) error {
	for kind := range kinds {
		totals[kind] = registry.MessageTotals{}
	}
	for _, w := range e.deliveries.WayStats() {
		if w.Way == registry.Alerts && w.Kind != "" {
			totals[w.Kind] = registry.MessageTotals{Delivered: w.Taken, Failed: w.Failed, Dropped: w.GivenUp}
		}
	}
	for _, id := range receivers {
		if !e.deliveries.Has(id) {
			continue // there was no alert
		}
		s, err := e.opts.Queue.Subscription(id)
		if errors.Is(err, registry.ErrNotFound) {
			continue
		} else if err != nil {
			return err
		}
		m := totals[s.To.Kind]
		m.Waiting += s.Waiting()
		totals[s.To.Kind] = m
	}
	return nil
}
