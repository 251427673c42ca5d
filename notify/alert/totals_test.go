// Tests of the sums over rules that the metrics show.

package alert_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

func (r *rig) totals() registry.RuleTotals {
	r.t.Helper()
	v, err := r.Totals()
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// sent returns the counts of messages to webhooks.
func (r *rig) sent() deliver.WayStats {
	list := r.deliver.WayStats()
	return list[slices.IndexFunc(list, func(w deliver.WayStats) bool { return w.Kind == "webhook" })]
}

func TestTotals(t *testing.T) {
	r, h := newRig(t), newHook(t)
	h.answer(http.StatusServiceUnavailable)
	late, early := r.log.Add("late", diff.Select, false), r.log.Add("early", diff.Select, false)
	r.record(late, "a=11", "b=11", "c=1")
	to := []registry.Receiver{{Kind: "webhook", Address: h.URL}}
	r.create(registry.RuleSettings{Name: "fires", Query: late, When: "?value > 10", To: to})
	r.create(registry.RuleSettings{Name: "pends", Query: late, When: "?value < 10", For: registry.Duration(time.Hour), To: to})
	r.create(registry.RuleSettings{Name: "waits", Query: early, When: "changed"})
	r.create(registry.RuleSettings{Name: "rests", Query: late, When: "rows > 100"})
	if _, err := r.SetPaused(context.Background(), r.rule("rests").ID, true); err != nil {
		t.Fatal(err)
	}
	until(t, "an attempt that fails", func() bool { return r.sent().Failed > 0 })
	v := r.totals()
	if len(v.Failing) > 0 {
		t.Error("none fails")
	}
	rules := map[registry.RuleStatus]int{registry.RuleFiring: 1, registry.RulePending: 1, registry.RuleWaiting: 1, registry.RulePaused: 1}
	if d := cmp.Diff(rules, v.Rules); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[registry.AlertState]int{registry.AlertFiring: 2, registry.AlertPending: 1}, v.Alerts); d != "" {
		t.Error(d)
	}
	if r.stored() != 2 || r.sent().Taken != 0 || v.Evaluated != 3 || v.Failed != 0 || len(v.Behind) != 0 {
		t.Errorf("%+v", v)
	}
	r.halted.Store(&map[string]string{"test": "the endpoint is paused"})
	if v := r.totals(); v.Rules[registry.RuleStale] != 2 || v.Rules[registry.RuleFiring] != 0 || v.Alerts[registry.AlertFiring] != 2 {
		t.Errorf("rules of an endpoint that runs no slot: %+v", v)
	}
	if x := r.rule("fires"); x.Status != registry.RuleStale || x.Reason != "the query is stale: the endpoint is paused" {
		t.Errorf("a rule of an endpoint that runs no slot: %s, %s", x.Status, x.Reason)
	}
	r.halted.Store(&map[string]string{})
	h.answer(http.StatusOK)
	until(t, "the deliveries", func() bool { return r.stored() == 0 && r.sent().Taken == 2 })
	r.log.Fail(late, "it is down")
	if v := r.totals(); v.Rules[registry.RuleStale] != 2 || v.Rules[registry.RulePaused] != 1 {
		t.Errorf("%+v", v)
	}
	h.answer(http.StatusGone)
	r.record(late, "b=11", "c=1")
	until(t, "the message that is given up", func() bool { return r.sent().GivenUp == 1 })
	if v := r.totals(); r.sent().Taken != 2 || v.Evaluated != 5 {
		t.Errorf("%+v", v)
	}
	var rows []string
	for i := range 1001 {
		rows = append(rows, fmt.Sprintf("r%d=11", i))
	}
	r.record(late, rows...)
	until(t, "the evaluation that is impossible", func() bool { return r.totals().Failed > 0 })
	if v := r.totals(); v.Rules[registry.RuleFailing] != 1 || v.Failing[r.rule("fires").Caller] != 1 {
		t.Errorf("%+v", v)
	}
}

// Rules that are not evaluated lag, except those that are not to be evaluated.
func TestLag(t *testing.T) {
	r := newRig(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=1")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10"})
	r.stop()
	r.options.Lease = func() (uint64, bool) { return 0, false }
	r.start()
	r.record(q, "a=2")
	r.record(q, "a=3")
	if behind := r.totals().Behind; len(behind) != 1 || behind[q].Seq != 1 {
		t.Errorf("%v", behind)
	}
	r.withdrawn.Store(true) // so the rule is failing
	if behind := r.totals().Behind; len(behind) != 0 {
		t.Errorf("a rule that is not to be evaluated lags: %v", behind)
	}
}
