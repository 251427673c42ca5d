package alert

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/freshet/freshet/notify/rule"
	"github.com/freshet/freshet/registry"
)

// Rules returns at most limit rules after an id, in id order.
func (e *Engine) Rules(after string, limit int) ([]registry.ListedRule, error) {
	e.mu.Lock()
	ids := slices.Sorted(maps.Keys(e.rules))
	e.mu.Unlock()
	at, _ := slices.BinarySearch(ids, after+"\x00")
	var list []registry.ListedRule
	halted := e.halted()
	for _, id := range ids[at:] {
		r, err := e.judged(id, halted)
		if err == nil {
			list = append(list, r)
		} else if !errors.Is(err, registry.ErrNotFound) {
			return nil, err
		}
		if len(list) == limit {
			break
		}
	}
	return list, nil
}

// Rule returns a rule by its id, by the caller's name for it, or for an admin by the name that
// only one caller uses. It wraps registry.ErrNotFound.
func (e *Engine) Rule(c registry.Caller, ref string) (registry.ListedRule, error) {
	var others []string
	e.mu.Lock()
	if e.rules[ref] == nil {
		for id, x := range e.rules {
			if x.Name == ref && x.Caller == c.Name {
				ref, others = id, nil
				break
			} else if x.Name == ref && c.Role.Includes(registry.RoleAdmin) {
				others = append(others, id)
			}
		}
	}
	e.mu.Unlock()
	switch len(others) {
	case 0:
		return e.rule(ref)
	case 1:
		return e.rule(others[0])
	}
	slices.Sort(others)
	return registry.ListedRule{}, &registry.Problem{Kind: registry.KindAmbiguousName, IDs: others[:min(len(others), mostNamed)],
		Detail: fmt.Sprintf("%d callers use the name %s: use an id, such as %s", len(others), ref, others[0])}
}

func (e *Engine) rule(id string) (registry.ListedRule, error) { return e.judged(id, e.opts.Halted) }

// halted is Options.Halted for many rules: it asks once about each endpoint.
func (e *Engine) halted() func(endpoint string) string {
	known := map[string]string{}
	return func(endpoint string) string {
		why, asked := known[endpoint]
		if !asked {
			why = e.opts.Halted(endpoint)
			known[endpoint] = why
		}
		return why
	}
}

// judged returns the rule with an id. halted is Options.Halted.
func (e *Engine) judged(id string, halted func(endpoint string) string) (registry.ListedRule, error) {
	e.mu.Lock()
	x := e.rules[id]
	if x == nil {
		e.mu.Unlock()
		return registry.ListedRule{}, fmt.Errorf("rule: %w", registry.ErrNotFound)
	}
	v := x.counted()
	e.mu.Unlock()
	for _, to := range v.To {
		v.Receivers = append(v.Receivers, e.receiver(v.Caller, to))
	}
	_, err := e.opts.judge(&v, halted)
	return v, err
}

// counted returns a rule with the numbers of its alerts, and why it cannot be evaluated. The caller holds mu.
func (x *entry) counted() registry.ListedRule {
	v := registry.ListedRule{StoredRule: x.StoredRule, Reason: cmp.Or(x.broken, x.trouble, x.State.Problem)}
	for _, a := range x.State.Alerts {
		if a.State == registry.AlertFiring {
			v.Firing++
		} else {
			v.Pending++
		}
	}
	v.State.Alerts = nil
	return v
}

// Alerts returns at most limit alerts of a rule after one, ordered by their ids, and only those in a
// state unless it is "".
func (e *Engine) Alerts(id string, state registry.AlertState, after string, limit int) (list []registry.ListedAlert, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.rules[id]
	if x == nil {
		return nil, fmt.Errorf("rule: %w", registry.ErrNotFound)
	}
	list = slices.DeleteFunc(listAlerts(&x.State, x.Labels), func(a registry.ListedAlert) bool {
		return a.ID <= after || state != "" && a.State != state
	})
	return list[:min(len(list), limit)], nil
}

// listAlerts returns the alerts of a state in the order of their ids, with all labels of a rule and without their rows.
func listAlerts(s *registry.RuleState, labels map[string]string) (list []registry.ListedAlert) {
	common := rule.Common(labels)
	for _, key := range slices.Sorted(maps.Keys(s.Alerts)) {
		a := *s.Alerts[key]
		a.Labels, a.Rows = rule.Complete(common, a.Labels), nil
		list = append(list, registry.ListedAlert{ID: key, Alert: a})
	}
	return list
}

// judge decides the status of a rule that has a reason if it cannot be evaluated. It returns the position of its query.
func (o *Options) judge(v *registry.ListedRule, halted func(endpoint string) string) (newest registry.Position, err error) {
	status, _, err := o.Log.Current(v.Query, false)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return newest, err
	}
	newest = status.Position
	q, err := o.Query(v.Query)
	switch {
	case v.State.Ended || errors.Is(err, registry.ErrNotFound):
		v.Status, v.Reason = registry.RuleEnded, v.State.Problem
		return newest, nil
	case err != nil:
		return newest, err
	}
	v.CheckedAt = status.CheckedAt
	if v.Paused {
		v.Status, v.Reason = registry.RulePaused, "it is not evaluated and raises no alerts until it is resumed"
		return newest, nil
	}
	if err := o.deprived(&v.Rule, &q); err != nil {
		v.Reason = err.Error()
	}
	if status.State == registry.Live {
		if why := halted(q.Endpoint); why != "" {
			status.State, status.Error = registry.Stale, why
		}
	}
	switch {
	case v.Reason != "":
		v.Status = registry.RuleFailing
	case v.State.At.Seq == 0:
		v.Status, v.Reason = registry.RuleWaiting, cmp.Or(status.Error, "the query has no complete result yet")
	case !status.State.Current():
		v.Status, v.Reason = registry.RuleStale, fmt.Sprintf("the query is %s", status.State)
		if status.Error != "" {
			v.Reason += ": " + status.Error
		}
	case v.Firing > 0:
		v.Status = registry.RuleFiring
	case v.Pending > 0:
		v.Status = registry.RulePending
	default:
		v.Status = registry.RuleInactive
	}
	return newest, nil
}
