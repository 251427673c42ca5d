// Tests of rules whose states or messages are larger than a command of the store may be, and of
// stores that refuse some commands.

package alert_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
)

// narrow is the size of the largest command of these tests.
const narrow = 64 << 10

// narrowed restarts a rig with a journal whose commands are small.
func narrowed(t *testing.T) *rig {
	r := newRig(t)
	r.stop()
	r.dir, r.journal = t.TempDir(), memory.New("test")
	r.refuse = func(cmd []byte) error {
		if len(cmd) > narrow {
			return fmt.Errorf("%w: %d bytes", journal.ErrTooLarge, len(cmd))
		}
		return nil
	}
	r.start()
	return r
}

func wide(n int, value string) (rows []string) {
	for i := range n {
		rows = append(rows, fmt.Sprintf("%050d=%s", i, value))
	}
	return rows
}

func wideLabels(n int, text string) map[string]string {
	labels := map[string]string{"s": "?s"}
	for i := range n {
		labels[fmt.Sprint("l", i)] = text
	}
	return labels
}

// unreachable are receivers that take nothing, so that their messages stay.
func unreachable(t *testing.T, n int) (list []registry.Receiver) {
	h := newServer(t, func(*http.Request) int { return http.StatusServiceUnavailable })
	for i := range n {
		list = append(list, registry.Receiver{Kind: "webhook", Address: fmt.Sprint(h, "/", i)})
	}
	return list
}

// A rule whose alerts are too large is failing, and says why. The engine goes on with all others,
// also after a restart, and the rule can be edited and removed.
func TestTooLargeAlerts(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"markup": wideLabels(19, "?s "+strings.Repeat("<", 1100)),
		"text":   wideLabels(8, strings.Repeat("x", 1000)),
	} {
		t.Run(name, func(t *testing.T) {
			r := narrowed(t)
			q := r.log.Add("q", diff.Select, false)
			r.record(q, wide(1, "11")...)
			small := r.create(registry.RuleSettings{Name: "small", Query: q, When: "rows > 1"})
			large := r.create(registry.RuleSettings{Name: "large", Query: q, When: "?value > 10", Labels: labels, To: unreachable(t, 2)})
			r.record(q, wide(150, "11")...)
			for range 2 {
				until(t, "the other rule fires", func() bool { return r.rule(small.ID).Status == registry.RuleFiring })
				until(t, "the rule is failing", func() bool { return r.rule(large.ID).Status == registry.RuleFailing })
				if why := r.rule(large.ID).Reason; !strings.Contains(why, "its alerts ") || !strings.Contains(why, "fewer or shorter labels") {
					t.Errorf("reason: %s", why)
				}
				r.stop()
				r.start()
			}
			large.Labels = map[string]string{}
			if v, err := r.Replace(t.Context(), app, large.ID, large.RuleSettings); err != nil || v.Status != registry.RuleFiring {
				t.Errorf("with one label: %s %s %v", v.Status, v.Reason, err)
			}
			if err := r.Remove(large.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// told counts the stored messages of each alert to each receiver. It fails if two have one id.
func (r *rig) told() (firing, resolved int) {
	r.t.Helper()
	var list []registry.AlertMessage
	all, err := r.db.Subscriptions.Subscriptions("", 1000)
	for _, s := range all {
		messages, fail := r.db.Subscriptions.Messages(s.ID, 0, 100_000)
		list, err = append(list, messages...), errors.Join(err, fail)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range list {
		if seen[m.ID] {
			r.t.Errorf("the id %s twice", m.ID)
		}
		seen[m.ID] = true
		if m.State == registry.AlertFiring {
			firing++
		} else {
			resolved++
		}
	}
	return firing, resolved
}

// Messages that do not fit into one command are stored by several. A process that is killed
// between two of them loses no message and stores none twice, whether rows, a pause, an edit or a
// removal lead to them.
func TestMessagesInSeveralCommands(t *testing.T) {
	const rows, receivers = 100, 3
	steps := map[string]func(r *rig, v registry.ListedRule) error{
		"rows": func(r *rig, v registry.ListedRule) error {
			r.record(v.Query, wide(1, "1")...)
			return nil
		},
		"pause": func(r *rig, v registry.ListedRule) error {
			_, err := r.SetPaused(r.t.Context(), v.ID, true)
			return err
		},
		"remove": func(r *rig, v registry.ListedRule) error { return r.Remove(v.ID) },
		"edit": func(r *rig, v registry.ListedRule) error {
			v.When = "?value > 1000"
			_, err := r.Replace(r.t.Context(), app, v.ID, v.RuleSettings)
			return err
		},
	}
	for name, end := range steps {
		t.Run(name, func(t *testing.T) {
			r := narrowed(t)
			var limit, done atomic.Int64 // commands with messages until the store refuses all
			limit.Store(1 << 40)
			size := r.refuse
			r.refuse = func(cmd []byte) error {
				if err := size(cmd); err != nil {
					return err
				}
				if strings.Contains(string(cmd), `"Queue":[{`) && done.Add(1) > limit.Load() {
					return errors.New("the process is killed")
				}
				return nil
			}
			q := r.log.Add("q", diff.Select, false)
			r.record(q, wide(1, "1")...)
			v := r.create(registry.RuleSettings{Name: "many", Query: q, When: "?value > 10", To: unreachable(t, receivers)})
			limit.Store(2)
			r.record(q, wide(rows, "11")...)
			until(t, "the kill", func() bool { return done.Load() > 2 })
			r.stop()
			limit.Store(1 << 40)
			r.start()
			until(t, "all alerts", func() bool { return alerts(r.rule(v.ID)) == rows && r.rule(v.ID).State.At.Seq == 2 })
			if firing, resolved := r.told(); firing != rows*receivers || resolved != 0 {
				t.Fatalf("%d firing and %d resolved messages", firing, resolved)
			}
			done.Store(0)
			limit.Store(2)
			err := end(r, v)
			until(t, "the kill", func() bool { return done.Load() > 2 })
			if (err == nil) != (name == "rows") {
				t.Errorf("the step that was killed: %v", err)
			}
			r.stop()
			limit.Store(1 << 40)
			r.start()
			if name != "rows" { // what was not done is repeated, from the result as it is
				if err := end(r, v); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "the end of all alerts", func() bool {
				x, err := r.Rule(app, v.ID)
				return errors.Is(err, registry.ErrNotFound) || alerts(x) == 0 && x.State.Problem == ""
			})
			firing, resolved := r.told()
			if firing != resolved || firing < rows*receivers || name == "rows" && firing > rows*receivers {
				t.Errorf("%d firing and %d resolved messages of %d alerts to %d receivers", firing, resolved, rows, receivers)
			}
		})
	}
}

// A store that refuses one command makes a rule failing for a while, and nothing gets lost.
func TestRefusedCommand(t *testing.T) {
	for n := range 8 {
		r := narrowed(t)
		size := r.refuse
		var count atomic.Int64
		r.refuse = func(cmd []byte) error {
			if count.Add(1) == int64(n) {
				return errors.New("refused by the test")
			}
			return size(cmd)
		}
		h := newHook(t)
		q := r.log.Add("q", diff.Select, false)
		again := func(do func() error) {
			if do() != nil {
				if err := do(); err != nil {
					t.Fatal(err)
				}
			}
		}
		count.Store(0)
		r.record(q, "a=1")
		var v registry.ListedRule
		again(func() (err error) {
			v, err = r.Create(context.Background(), app, registry.RuleSettings{Name: "high", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
			return err
		})
		r.record(q, "a=11", "b=12")
		until(t, "the alerts", func() bool { return len(h.messages()) >= 2 })
		r.record(q, "a=1")
		until(t, "the ends", func() bool { return len(h.messages()) >= 4 })
		until(t, "the rule is well", func() bool { return r.rule(v.ID).Status == registry.RuleInactive })
		again(func() error { _, err := r.SetPaused(t.Context(), v.ID, true); return err })
		again(func() error { return r.Remove(v.ID) })
		ids := map[string]bool{}
		for _, m := range h.messages() {
			ids[m.Header.Get("Webhook-Id")] = true
		}
		if len(ids) != 4 {
			t.Errorf("refusal %d: %d messages", n, len(ids))
		}
	}
}

// The alerts of the rules of one caller are bounded in all. A rule above the bound is failing, until
// there is room; those of other callers fire.
func TestBytesOfCaller(t *testing.T) {
	r := newRig(t)
	r.stop()
	r.options.Bytes = 100 << 10
	r.start()
	q := r.log.Add("q", diff.Select, false)
	r.record(q, wide(1, "1")...)
	text := map[string]string{"s": "?s", "l": "?s " + strings.Repeat("x", 700)}
	var ids []string
	for i := range 3 {
		ids = append(ids, r.create(registry.RuleSettings{Name: fmt.Sprint("r", i), Query: q, When: "?value > 10", Labels: text}).ID)
	}
	other, err := r.Create(t.Context(), registry.Caller{Name: "other", Role: registry.RoleApp}, registry.RuleSettings{Name: "r", Query: q, When: "rows > 1"})
	if err != nil {
		t.Fatal(err)
	}
	failing := func() (n int) {
		for _, id := range ids {
			if v := r.rule(id); v.Status == registry.RuleFailing {
				n++
				if !strings.Contains(v.Reason, "limits.token_bytes") {
					t.Error(v.Reason)
				}
			}
		}
		return n
	}
	for n := range 8 { // each time some more
		r.record(q, wide(10+10*n, "11")...)
		until(t, "the evaluation", func() bool { return r.rule(other.ID).State.At.Seq == uint64(n+2) })
	}
	until(t, "the rule of another caller fires", func() bool { return r.rule(other.ID).Status == registry.RuleFiring })
	until(t, "a rule is failing", func() bool { return failing() > 0 })
	var p *registry.Problem
	if _, err := r.Create(t.Context(), app, registry.RuleSettings{Name: "further", Query: q, When: "rows > 1"}); !errors.As(err, &p) || p.Kind != registry.KindQuota {
		t.Errorf("a further rule: %v", err)
	}
	r.record(q, wide(1, "1")...)
	until(t, "all rules are well", func() bool { return failing() == 0 && r.rule(ids[0]).Status == registry.RuleInactive })
}

// Alerts that ended before the store refused the rest of an edit fire again at once, because the edit was
// refused.
func TestRefusedRestOfAnEdit(t *testing.T) {
	const rows, receivers = 100, 3
	for name, end := range map[string]func(r *rig, id string) error{
		"pause":  func(r *rig, id string) error { _, err := r.SetPaused(r.t.Context(), id, true); return err },
		"remove": func(r *rig, id string) error { return r.Remove(id) },
	} {
		t.Run(name, func(t *testing.T) {
			r := narrowed(t)
			r.stop()
			var done atomic.Int64 // commands with messages; the third is refused
			done.Store(1 << 40)
			size := r.refuse
			r.refuse = func(cmd []byte) error {
				if strings.Contains(string(cmd), `"Queue":[{`) && done.Add(1) == 3 {
					return errors.New("refused by the test")
				}
				return size(cmd)
			}
			r.start()
			q := r.log.Add("q", diff.Select, false)
			r.record(q, wide(rows, "11")...)
			v := r.create(registry.RuleSettings{Name: "many", Query: q, When: "?value > 10", To: unreachable(t, receivers)})
			until(t, "all alerts", func() bool { return alerts(r.rule(v.ID)) == rows && r.rule(v.ID).State.At.Seq > 0 })
			done.Store(0)
			if err := end(r, v.ID); err == nil {
				t.Fatal("the edit was stored")
			}
			until(t, "all alerts again", func() bool { return alerts(r.rule(v.ID)) == rows && r.rule(v.ID).State.At.Seq > 0 })
		})
	}
}
