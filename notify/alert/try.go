package alert

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/freshet/freshet/notify/rule"
	"github.com/freshet/freshet/registry"
)

// Try evaluates a rule over the whole history of its query that is kept. It stores nothing.
func (e *Engine) Try(ctx context.Context, c registry.Caller, r registry.RuleSettings) (t registry.RuleTrial, err error) {
	r.Name = cmp.Or(r.Name, "trial")
	p, err := e.opts.check(c, &r, nil)
	if err != nil {
		return t, err
	}
	leave, err := e.trials.Wait(ctx, c.Name)
	if err != nil {
		return t, err
	}
	defer leave()
	first, err := e.opts.Past.Versions(r.Query, 0, 1)
	if err != nil {
		return t, err
	}
	if len(first) == 0 {
		return t, &registry.Problem{Kind: registry.KindNoResult, Detail: "no execution has been complete so far: try the rule " +
			"when there is a result"}
	}
	s := registry.RuleState{At: registry.Position{Epoch: first[0].Epoch}}
	t.From = first[0].CheckedAt
	note := func(events []registry.RuleEvent) {
		for _, v := range events {
			switch v.State {
			case registry.AlertFiring:
				t.Fired++
			case registry.AlertResolved:
				t.Resolved++
			default:
				continue
			}
			t.Events = append(t.Events, v)
		}
		t.Events = slices.Delete(t.Events, 0, max(0, len(t.Events)-trialEvents))
	}
	whole := func(at registry.Position, checked time.Time) error {
		result, err := e.opts.Past.StateAt(ctx, r.Query, at)
		if err == nil {
			note(p.Reset(&s, result, at, checked))
		}
		return err
	}
	if first[0].Seq > 1 {
		if err := whole(first[0].Position, first[0].CheckedAt); err != nil {
			return t, err
		}
	}
	for {
		page, err := e.opts.Log.After(r.Query, s.At, pageChanges)
		if err != nil {
			return t, err
		}
		for i := range page {
			note(p.Advance(&s, page[i].CheckedAt))
			if t.Changes++; rule.NeedsResult(&s) {
				err = whole(page[i].Position(), page[i].CheckedAt)
			} else {
				note(p.Change(&s, &page[i]))
			}
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return t, err
			}
		}
		if len(page) == 0 {
			break
		}
	}
	status, _, err := e.opts.Log.Current(r.Query, false)
	if err != nil {
		return t, err
	}
	if t.To = status.CheckedAt; status.Position == s.At {
		note(p.Advance(&s, t.To))
		note(p.Confirm(&s, t.To))
	}
	t.Problem = s.Problem
	for _, a := range listAlerts(&s, r.Labels) {
		t.Active = append(t.Active, a.Alert)
	}
	return t, nil
}
