// Tests of the storage of alert rules.

package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
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
