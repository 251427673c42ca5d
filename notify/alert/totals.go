package alert

import "github.com/freshet/freshet/registry"

// Totals sums up all rules.
func (e *Engine) Totals() (registry.RuleTotals, error) {
	t := registry.RuleTotals{Rules: map[registry.RuleStatus]int{}, Alerts: map[registry.AlertState]int{}, Firing: map[string]int{},
		Failing: map[string]int{}, Behind: map[string]registry.Position{}}
	e.mu.Lock()
	t.Evaluated, t.Failed = e.count[0], e.count[1]
	list := make([]registry.ListedRule, 0, len(e.rules))
	for _, x := range e.rules {
		list = append(list, x.counted())
	}
	e.mu.Unlock()
	halted := e.halted()
	for i := range list {
		v := &list[i]
		newest, err := e.opts.judge(v, halted)
		if err != nil {
			return t, err
		}
		t.Rules[v.Status]++
		t.Alerts[registry.AlertFiring] += v.Firing
		t.Alerts[registry.AlertPending] += v.Pending
		if v.Firing > 0 {
			t.Firing[v.Caller] += v.Firing
		}
		switch v.Status {
		case registry.RuleFailing:
			t.Failing[v.Caller]++
			continue
		case registry.RulePaused, registry.RuleEnded:
			continue
		}
		at := v.State.At
		if was, known := t.Behind[v.Query]; at != newest && newest.Seq > 0 && (!known || at.Seq < was.Seq) {
			t.Behind[v.Query] = at
		}
	}
	return t, nil
}
