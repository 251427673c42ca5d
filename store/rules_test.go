// Tests of the storage of alert rules.

package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An edit is one transaction, and what it stored is there after the file was opened again.
func TestRules(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	if rules, messages, err := d.Rules.Rules(); err != nil || rules != nil || messages != nil {
		t.Errorf("%v %v %v", rules, messages, err)
	}
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	a := registry.Rule{ID: "rule_a", Caller: "app", CreatedAt: at, RuleSettings: registry.RuleSettings{Name: "a", Query: "q", When: "rows > 0", Labels: map[string]string{"team": "x"}}}
	b := registry.Rule{ID: "rule_b", Caller: "app", CreatedAt: at, RuleSettings: registry.RuleSettings{Name: "b", Query: "q", When: "changed"}}
	state := registry.RuleState{At: registry.Position{Epoch: "e", Seq: 3}, Rows: 2, CheckedAt: at, Fired: 1,
		Alerts: map[string]*registry.Alert{"k": {State: registry.AlertFiring, Since: at, FiredAt: at, Rows: map[string]int{`{"s":1}`: 2}}}}
	e := registry.RuleEdit{Put: []registry.Rule{a, b}, States: map[string]*registry.RuleState{"rule_a": &state, "rule_gone": &state},
		Queue: []registry.AlertMessage{{ID: "m1", Rule: "rule_a", At: at, StartsAt: at}, {ID: "m2", Rule: "rule_a", At: at, StartsAt: at}}}
	if err := d.Rules.EditRules(&e); err != nil {
		t.Fatal(err)
	}
	if err := d.Rules.EditRules(&registry.RuleEdit{Sent: []uint64{e.Queue[0].Seq}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, Options{})
	rules, messages, err := d.Rules.Rules()
	want := []registry.StoredRule{{Rule: a, State: state}, {Rule: b}}
	if diff := cmp.Diff(want, rules); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if diff := cmp.Diff(e.Queue[1:], messages); diff != "" {
		t.Error(diff)
	}
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	last := registry.RuleEdit{Remove: []string{"rule_a"}, Queue: []registry.AlertMessage{{ID: "m3", Rule: "rule_a"}}}
	if err := d.Rules.EditRules(&last); err != nil {
		t.Fatal(err)
	}
	if rules, messages, err := d.Rules.Rules(); err != nil || len(rules) != 1 || len(messages) != 2 || messages[1].Seq <= messages[0].Seq {
		t.Errorf("%v %v %v", rules, messages, err)
	}
}

// A node that has lost the lease of the rules changes neither rules nor states, and queues no
// message. It may still say what it has sent.
func TestRulesOfAnotherLease(t *testing.T) {
	c := newCluster(t, 1, 2)
	a, b := c.stores[0], c.stores[1]
	na, nb := member("a", "s1"), member("b", "s2")
	c.must(a.Leases.Join(na))
	c.must(b.Leases.Join(nb))
	take := func(d *DB, n registry.Node, token, beats uint64) uint64 {
		t.Helper()
		granted, err := d.Leases.Take(n, []Claim{{AlertsLease, token, beats}})
		c.must(err)
		if len(granted) != 1 {
			t.Fatalf("%d leases were granted", len(granted))
		}
		return granted[0].Token
	}
	first := take(a, na, 0, 0)
	edit := func(token uint64, id string) registry.RuleEdit {
		return registry.RuleEdit{Token: token, Put: []registry.Rule{{ID: id, RuleSettings: registry.RuleSettings{Name: id}}},
			Queue: []registry.AlertMessage{{ID: "m_" + id, Rule: id}}}
	}
	e := edit(first, "rule_a")
	c.must(a.Rules.EditRules(&e))
	second := take(b, nb, first, 1)
	for _, stale := range []registry.RuleEdit{edit(first, "rule_b"), edit(0, "rule_b"), {Token: first, States: map[string]*registry.RuleState{"rule_a": {Fired: 9}}},
		{Token: first, Queue: []registry.AlertMessage{{ID: "m"}}}, {Token: first, Remove: []string{"rule_a"}}} {
		if err := a.Rules.EditRules(&stale); !errors.Is(err, scheduler.ErrFenced) {
			t.Errorf("%+v: %v", stale, err)
		}
	}
	c.must(a.Rules.EditRules(&registry.RuleEdit{Token: first, Sent: []uint64{e.Queue[0].Seq}}))
	last := edit(second, "rule_c")
	c.must(b.Rules.EditRules(&last))
	for _, d := range c.stores {
		c.must(d.replica.catchUp(d.replica.ctx))
		rules, messages, err := d.Rules.Rules()
		if c.must(err); len(rules) != 2 || rules[0].State.Fired != 0 || rules[1].ID != "rule_c" || len(messages) != 1 || messages[0].ID != "m_rule_c" {
			t.Errorf("%+v %+v", rules, messages)
		}
	}
}

func TestDamagedRules(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	for bucket, v := range map[string]string{string(bRules): `{"id":"other"}`, string(bRuleStates): "{", string(bAlerts): "{"} {
		e := registry.RuleEdit{Put: []registry.Rule{{ID: "rule_a"}}, States: map[string]*registry.RuleState{"rule_a": {}}, Queue: []registry.AlertMessage{{}}}
		if err := d.Rules.EditRules(&e); err != nil {
			t.Fatal(err)
		}
		err := d.update(func(tx *bbolt.Tx) error {
			key := []byte("rule_a")
			if bucket == string(bAlerts) {
				key = key8(e.Queue[0].Seq)
			}
			return tx.Bucket([]byte(bucket)).Put(key, []byte(v))
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.Rules.Rules(); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", bucket, err)
		}
		if d.Check() == nil {
			t.Errorf("%s: Check finds nothing", bucket)
		}
		if err := d.Rules.EditRules(&registry.RuleEdit{Remove: []string{"rule_a"}, Sent: []uint64{e.Queue[0].Seq}}); err != nil {
			t.Fatal(err)
		}
	}
}
