// Tests of rules that are edited, paused and resumed.

package alert_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A paused rule resolves its alerts, stays paused over a restart, and begins with the current
// result when it is resumed. What happened meanwhile raises no alert.
func TestPause(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11", "b=5")
	v := r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	changed := r.create(registry.RuleSettings{Name: "changed", Query: q, When: "changed"})
	until(t, "a", func() bool { return len(h.messages()) == 1 })
	for range 2 { // the second one does nothing
		if p, err := r.SetPaused(t.Context(), v.ID, true); err != nil || p.Status != registry.RulePaused || alerts(p) != 0 || p.State.Fired != 1 {
			t.Fatalf("%+v: %v", p, err)
		}
	}
	if _, err := r.SetPaused(t.Context(), changed.ID, true); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of a", func() bool { return len(h.messages()) == 2 })
	r.delivered("late")
	r.record(q, "a=11", "c=20")
	r.stop()
	r.start()
	r.record(q, "a=11", "d=30")
	other := r.create(registry.RuleSettings{Name: "other", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "webhook", Address: h.URL + "/other"}}})
	until(t, "the other rule", func() bool { return r.rule("other").State.Fired == 2 && len(h.messages()) == 4 })
	if v := r.rule("late"); v.Status != registry.RulePaused || v.State.Fired != 1 {
		t.Errorf("%+v", v)
	}
	if err := r.Remove(other.ID); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the other rule", func() bool { return len(h.messages()) == 6 })
	if v, err := r.SetPaused(t.Context(), v.ID, false); err != nil || v.Status != registry.RuleFiring || v.State.Fired != 3 {
		t.Errorf("%+v: %v", v, err)
	}
	if v, err := r.SetPaused(t.Context(), changed.ID, false); err != nil || v.Status != registry.RuleInactive || v.State.Fired != 0 {
		t.Errorf("the pause counts as a change: %+v: %v", v, err)
	}
	until(t, "a and d", func() bool { return len(h.messages()) == 8 })
	ids := map[string]bool{}
	for _, m := range h.messages() {
		ids[m.Get("Webhook-Id")] = true
	}
	if len(ids) != 8 {
		t.Errorf("%d ids of 8 messages", len(ids))
	}
	if d := cmp.Diff([]string{"firing a", "resolved a"}, h.seen()[:2]); d != "" {
		t.Error(d)
	}
	r.record(q, "a=11", "d=30", "e=40")
	until(t, "e", func() bool { return len(h.messages()) == 9 })
}

// The same answer may lead to the same alert twice. Its messages then have other ids.
func TestPauseWithoutAnAnswer(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11")
	v := r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	for _, paused := range []bool{true, false, true} {
		if _, err := r.SetPaused(t.Context(), v.ID, paused); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all messages", func() bool { return len(h.messages()) == 4 })
	if d := cmp.Diff([]string{"firing a", "resolved a", "firing a", "resolved a"}, h.seen()); d != "" {
		t.Error(d)
	}
	ids := map[string]bool{}
	for _, m := range h.messages() {
		ids[m.Get("Webhook-Id")] = true
	}
	if len(ids) != 4 {
		t.Errorf("%d ids of 4 messages", len(ids))
	}
}

// An edit of the condition begins the alerts again; one of the times, the summary and the
// receivers keeps them. A webhook keeps its secret.
func TestReplace(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11", "b=21")
	s := registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", Labels: map[string]string{"s": "?s"},
		To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}}
	v := r.create(s)
	until(t, "a and b", func() bool { return len(h.messages()) == 2 })
	s.Summary, s.KeepFiringFor = "?s is late", registry.Duration(90e9)
	kept, err := r.Replace(t.Context(), app, v.ID, s)
	if err != nil || alerts(kept) != 2 || kept.State.Fired != 2 || kept.To[0].Secret != v.To[0].Secret || kept.ID != v.ID ||
		!kept.CreatedAt.Equal(v.CreatedAt) {
		t.Fatalf("%+v: %v", kept, err)
	}
	r.record(q, "b=21") // a minute later: kept
	r.record(q, "b=22")
	until(t, "both answers", func() bool { return r.rule("late").State.At.Seq == 3 })
	if v := r.rule("late"); alerts(v) != 2 || len(h.messages()) != 2 {
		t.Errorf("%+v", v)
	}
	s.When, s.Name = "?value > 20", "later"
	next, err := r.Replace(t.Context(), app, v.ID, s)
	if err != nil || next.State.Fired != 3 || alerts(next) != 1 || next.Status != registry.RuleFiring {
		t.Fatalf("%+v: %v", next, err)
	}
	until(t, "the ends and b again", func() bool { return len(h.messages()) == 5 })
	ends := map[string]int{}
	for _, m := range h.seen() {
		ends[m]++
	}
	if d := cmp.Diff(map[string]int{"firing a": 1, "firing b": 2, "resolved a": 1, "resolved b": 1}, ends); d != "" {
		t.Error(d)
	}
	if last := h.messages()[4]; last.data["name"] != "later" || last.data["summary"] != "b is late" {
		t.Errorf("%s", last.body)
	}
	if _, err := r.Rule(app, "late"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("the old name leads to a rule: %v", err)
	}
	r.create(registry.RuleSettings{Name: "third", Query: q, When: "rows > 5"})
	for name, wrong := range map[string]registry.RuleSettings{
		"a name in use":     {Name: "third", Query: q, When: "rows > 0"},
		"a bad condition":   {Name: "later", Query: q, When: "rows"},
		"a missing query":   {Name: "later", Query: "none", When: "rows > 0"},
		"a wrong receiver":  {Name: "later", Query: q, When: "rows > 0", To: []registry.Receiver{{}}},
		"a private address": {Name: "later", Query: q, When: "rows > 0", To: []registry.Receiver{{Kind: "webhook", Address: "http://10.0.0.1/"}}},
	} {
		if _, err := r.Replace(t.Context(), app, v.ID, wrong); !errors.As(err, new(*registry.Problem)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Replace(t.Context(), app, "rule_none", s); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a missing rule: %v", err)
	}
	r.stop()
	r.start()
	if v := r.rule("later"); v.When != "?value > 20" || v.Edition != 1 || v.State.Fired != 3 || alerts(v) != 1 {
		t.Errorf("after a restart: %+v", v)
	}
}

// Each caller has names of its own for rules. An admin finds the rules of others by a name that one
// of them uses.
func TestNamesOfCallers(t *testing.T) {
	r := newRig(t)
	q := r.log.Add("q", diff.Select, false)
	other, admin := registry.Caller{Name: "other", Role: registry.RoleApp}, registry.Caller{Name: "boss", Role: registry.RoleAdmin}
	mine := r.create(registry.RuleSettings{Name: "late", Query: q, When: "rows > 0"})
	if _, err := r.Rule(other, "late"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("the name of another caller: %v", err)
	}
	if v, err := r.Rule(admin, "late"); err != nil || v.ID != mine.ID {
		t.Errorf("an admin: %+v %v", v, err)
	}
	theirs, err := r.Create(t.Context(), other, registry.RuleSettings{Name: "late", Query: q, When: "rows > 1"})
	if err != nil {
		t.Fatal(err)
	}
	for c, want := range map[string]string{"app": mine.ID, "other": theirs.ID} {
		if v, err := r.Rule(registry.Caller{Name: c, Role: registry.RoleApp}, "late"); err != nil || v.ID != want {
			t.Errorf("%s: %+v %v", c, v, err)
		}
	}
	var p *registry.Problem
	if _, err := r.Rule(admin, "late"); !errors.As(err, &p) || p.Kind != registry.KindAmbiguousName || len(p.IDs) != 2 {
		t.Errorf("an admin: %v", err)
	}
	if _, err := r.Create(t.Context(), other, registry.RuleSettings{Name: "late", Query: q, When: "rows > 2"}); !errors.As(err,
		&p) || p.Kind != registry.KindExists {
		t.Errorf("an own name: %v", err)
	}
}

// The history of a rule keeps the labels that its alerts had, whatever the labels become.
func TestHistoryKeepsLabels(t *testing.T) {
	r := newRig(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11")
	s := registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", Labels: map[string]string{"s": "?s", "severity": "warning"}}
	v := r.create(s)
	s.Labels = map[string]string{"s": "?s", "severity": "critical"}
	if _, err := r.Replace(t.Context(), app, v.ID, s); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		var got []string
		for _, e := range r.rule(v.ID).State.Events {
			got = append(got, string(e.State)+" "+e.Labels["severity"])
		}
		if d := cmp.Diff([]string{"firing warning", "resolved warning", "firing critical"}, got); d != "" {
			t.Error(d)
		}
	}
	check()
	r.stop()
	r.start()
	check()
}

// A rule without labels that an earlier version has stored is known to have none, so an edit gives it none.
func TestStoredWithoutLabels(t *testing.T) {
	r := newRig(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11", "b=12")
	v := r.create(registry.RuleSettings{Name: "old", Query: q, When: "?value > 10", Labels: map[string]string{}})
	v.Rule.Labels = nil
	if err := r.db.Rules.EditRules(&registry.RuleEdit{Put: []registry.Rule{v.Rule}}); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r.start()
	s := r.rule("old").RuleSettings
	s.Summary = "x"
	if v, err := r.Replace(t.Context(), app, v.ID, s); err != nil || v.Firing != 1 || v.State.Fired != 1 {
		t.Errorf("%d alerts, %d have fired: %v", v.Firing, v.State.Fired, err)
	}
}
