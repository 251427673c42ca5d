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

// What many alerts have in common is stored once in a command: a rule whose alerts fired in several steps
// can be removed, however long the addresses of its receivers are.
func TestLongAddresses(t *testing.T) {
	r := narrowed(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, wide(1, "1")...)
	to := unreachable(t, 2)
	for i := range to {
		to[i].Address += "?" + strings.Repeat("&", 350)
	}
	v := r.create(registry.RuleSettings{Name: "many", Query: q, When: "?value > 10", To: to})
	for n := 10; n <= 40; n += 10 {
		r.record(q, wide(n, "11")...)
		until(t, "the alerts", func() bool { return alerts(r.rule(v.ID)) == n })
	}
	if err := r.Remove(v.ID); err != nil {
		t.Error(err)
	}
	if firing, resolved := r.told(); firing != 80 || resolved != 80 {
		t.Errorf("%d firing and %d resolved messages", firing, resolved)
	}
}

// told counts the stored messages of each alert to each receiver. It fails if two to one receiver have one id.
func (r *rig) told() (firing, resolved int) {
	r.t.Helper()
	all, err := r.db.Subscriptions.Subscriptions("", 1000)
	for _, s := range all {
		seen := map[string]bool{}
		for after := uint64(0); ; {
			list, fail := r.db.Subscriptions.Messages(s.ID, after, 100_000)
			if err = errors.Join(err, fail); len(list) == 0 {
				break
			}
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
				after = m.Seq
			}
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return firing, resolved
}

// The state of a rule and all messages about its alerts are one command, however many there are. A
// process that is killed before it loses no message and stores none twice, whether rows, a pause, an edit
// or a removal lead to them. Until then the alerts go on.
func TestMessagesInOneCommand(t *testing.T) {
	const rows, receivers = 200, 10
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
			r := newRig(t)
			r.stop()
			r.dir, r.journal = t.TempDir(), memory.New("test")
			var killed atomic.Bool
			var refused, stored atomic.Int64 // commands with messages
			r.refuse = func(cmd []byte) error {
				switch {
				case !strings.Contains(string(cmd), `"Queue":[{`):
					return nil
				case killed.Load():
					refused.Add(1)
					return errors.New("the process is killed")
				}
				stored.Add(1)
				return nil
			}
			r.start()
			again := func() {
				t.Helper()
				until(t, "the kill", func() bool { return refused.Load() > 0 })
				r.stop()
				killed.Store(false)
				refused.Store(0)
				r.start()
			}
			q := r.log.Add("q", diff.Select, false)
			r.record(q, wide(1, "1")...)
			v := r.create(registry.RuleSettings{Name: "many", Query: q, When: "?value > 10", Labels: map[string]string{"s": "?s",
				"l": strings.Repeat("x", 500)}, To: unreachable(t, receivers)})
			killed.Store(true)
			r.record(q, wide(rows, "11")...)
			again()
			until(t, "all alerts", func() bool { return alerts(r.rule(v.ID)) == rows && r.rule(v.ID).State.At.Seq == 2 })
			if firing, resolved := r.told(); firing != rows*receivers || resolved != 0 {
				t.Fatalf("%d firing and %d resolved messages", firing, resolved)
			}
			killed.Store(true)
			if err := end(r, v); (err == nil) != (name == "rows") {
				t.Errorf("the step that was killed: %v", err)
			}
			if n := alerts(r.rule(v.ID)); n != rows {
				t.Errorf("%d alerts after the step that was killed", n)
			}
			again()
			if name != "rows" {
				if err := end(r, v); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "the end of all alerts", func() bool {
				x, err := r.Rule(app, v.ID)
				return errors.Is(err, registry.ErrNotFound) || alerts(x) == 0 && x.State.Problem == ""
			})
			if firing, resolved := r.told(); firing != rows*receivers || resolved != firing {
				t.Errorf("%d firing and %d resolved messages of %d alerts to %d receivers", firing, resolved, rows, receivers)
			}
			if n := stored.Load(); n != 2 {
				t.Errorf("%d commands with messages", n)
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
			v, err = r.Create(context.Background(), app, registry.RuleSettings{Name: "high", Query: q, When: "?value > 10",
				To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
			return err
		})
		r.record(q, "a=11", "b=12")
		ids := func() map[string]bool { // a delivery whose record is refused is repeated under its id
			ids := map[string]bool{}
			for _, m := range h.messages() {
				ids[m.Header.Get("Webhook-Id")] = true
			}
			return ids
		}
		until(t, "the alerts", func() bool { return len(ids()) >= 2 })
		r.record(q, "a=1")
		until(t, "the ends", func() bool { return len(ids()) >= 4 })
		until(t, "the rule is well", func() bool { return r.rule(v.ID).Status == registry.RuleInactive })
		again(func() error { _, err := r.SetPaused(t.Context(), v.ID, true); return err })
		again(func() error { return r.Remove(v.ID) })
		if got := len(ids()); got != 4 {
			t.Errorf("refusal %d: %d messages", n, got)
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
	other, err := r.Create(t.Context(), registry.Caller{Name: "other", Role: registry.RoleApp}, registry.RuleSettings{Name: "r",
		Query: q, When: "rows > 1"})
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
	if _, err := r.Create(t.Context(), app, registry.RuleSettings{Name: "further", Query: q, When: "rows > 1"}); !errors.As(err,
		&p) || p.Kind != registry.KindQuota {
		t.Errorf("a further rule: %v", err)
	}
	r.record(q, wide(1, "1")...)
	until(t, "all rules are well", func() bool { return failing() == 0 && r.rule(ids[0]).Status == registry.RuleInactive })
}
