// Tests of the storage of alert rules.

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An edit is one transaction, and what it stored is there after the file was opened again.
func TestRules(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	if rules, err := d.Rules.Rules(); err != nil || rules != nil {
		t.Errorf("%v %v", rules, err)
	}
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	a := registry.Rule{ID: "rule_a", Caller: "app", CreatedAt: at, RuleSettings: registry.RuleSettings{Name: "a", Query: "q",
		When: "rows > 0", Labels: map[string]string{"team": "x"}}}
	b := registry.Rule{ID: "rule_b", Caller: "app", CreatedAt: at, RuleSettings: registry.RuleSettings{Name: "b", Query: "q", When: "changed"}}
	state := registry.RuleState{At: registry.Position{Epoch: "e", Seq: 3}, Rows: 2, CheckedAt: at, Fired: 1, Happened: 1,
		Alerts: map[string]*registry.Alert{"k": {State: registry.AlertFiring, Since: at, FiredAt: at,
			Rows: map[string]int{`{"s":1}`: 2}}}, Events: []registry.RuleEvent{{Alert: "k", Time: at, Since: at}}}
	e := registry.RuleEdit{Put: []registry.Rule{a, b}, States: map[string]*registry.RuleChange{"rule_a": state.Since(&registry.RuleState{})},
		Queue: []registry.AlertMessage{alertTo("a", "m1"), alertTo("b", "m2"), alertTo("a", "m3")}}
	if err := d.Rules.EditRules(&e); err != nil {
		t.Fatal(err)
	}
	if err := d.dropAlert("a", 1); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, Options{})
	rules, err := d.Rules.Rules()
	want := []registry.StoredRule{{Rule: a, State: state}, {Rule: b}}
	if diff := cmp.Diff(want, rules); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	stored := func(seq uint64) registry.AlertMessage {
		m := e.Queue[seq-1]
		m.Seq, m.To = seq, nil
		return m
	}
	for receiver, want := range map[string][]registry.AlertMessage{"a": {stored(3)}, "b": {stored(2)}} {
		messages, err := d.Subscriptions.Messages(alertReceiver(receiver), 0, 10)
		if diff := cmp.Diff(want, messages); diff != "" || err != nil {
			t.Error(err, diff)
		}
		s, err := d.Subscriptions.Subscription(alertReceiver(receiver))
		if err != nil || s.Way != registry.Alerts || s.Stored != 1 || s.Newest != want[0].Seq || s.To.Address != alertTo(receiver,
			"").To[0].Address || s.State != registry.Active {
			t.Errorf("%+v %v", s, err)
		}
	}
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	last := registry.RuleEdit{Remove: []string{"rule_a"}, Queue: []registry.AlertMessage{alertTo("b", "m4")}}
	if err := d.Rules.EditRules(&last); err != nil {
		t.Fatal(err)
	}
	messages, err := d.Subscriptions.Messages(alertReceiver("b"), 2, 10)
	if rules, fail := d.Rules.Rules(); errors.Join(err, fail) != nil || len(rules) != 1 || len(messages) != 1 || messages[0].ID != "m4" {
		t.Errorf("%v %v %v %v", rules, messages, err, fail)
	}
	end := func(s *registry.Subscription, _ bool) error { s.State = registry.Ended; return nil }
	if _, err := d.Subscriptions.EditSubscription(alertReceiver("b"), end); err != nil {
		t.Fatal(err)
	}
	if messages, err := d.Subscriptions.Messages(alertReceiver("b"), 0, 10); err != nil || len(messages) != 0 {
		t.Errorf("messages of a receiver that has ended: %v %v", messages, err)
	}
}

// The changes of a state lead to the same state as the store has. One that was made for another state
// is refused with its messages.
func TestRuleStates(t *testing.T) {
	const seed, steps = 24, 500
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, seed))
	d := open(t, t.TempDir(), Options{})
	other := registry.Rule{ID: "rule_aa", RuleSettings: registry.RuleSettings{Name: "other"}}
	state := registry.RuleState{Alerts: map[string]*registry.Alert{}}
	for id, r := range map[string]registry.Rule{"rule_a": {ID: "rule_a"}, "rule_aa": other} {
		if err := d.Rules.EditRules(&registry.RuleEdit{Put: []registry.Rule{r},
			States: map[string]*registry.RuleChange{id: (&registry.RuleState{}).Since(&registry.RuleState{})}}); err != nil {
			t.Fatal(err)
		}
	}
	state.Version = 1
	for n := range steps {
		before := state.Clone()
		for range rnd.IntN(4) {
			key := fmt.Sprint("k", rnd.IntN(20))
			if rnd.IntN(3) == 0 {
				delete(state.Alerts, key)
			} else {
				state.Alerts[key] = &registry.Alert{Summary: fmt.Sprint(n)}
			}
			state.Events = append(state.Events, registry.RuleEvent{Alert: key, Seq: uint64(n)})
			state.Happened++
		}
		state.Events = state.Events[max(0, len(state.Events)-1-rnd.IntN(10)):]
		e := registry.RuleEdit{States: map[string]*registry.RuleChange{"rule_a": state.Since(before)},
			Queue: []registry.AlertMessage{alertTo("a", fmt.Sprint("m", n))}}
		if err := d.Rules.EditRules(&e); err != nil {
			t.Fatal(err)
		}
		if err := d.Rules.EditRules(&e); !errors.Is(err, registry.ErrRuleMoved) {
			t.Fatalf("the same change again: %v", err)
		}
		got, err := d.Rules.Rule("rule_a")
		if diff := cmp.Diff(state, got.State, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("step %d: %v\n%s", n, err, diff)
		}
	}
	if s, err := d.Subscriptions.Subscription(alertReceiver("a")); err != nil || s.Stored != steps {
		t.Errorf("%d messages after %d steps: %v", s.Stored, steps, err)
	}
	gone := registry.RuleEdit{States: map[string]*registry.RuleChange{"rule_gone": {RuleState: registry.RuleState{Version: 1}}}}
	if err := d.Rules.EditRules(&gone); !errors.Is(err, registry.ErrRuleMoved) {
		t.Errorf("the state of a rule that is gone: %v", err)
	}
	if err := d.Rules.EditRules(&registry.RuleEdit{Remove: []string{"rule_a"}}); err != nil {
		t.Fatal(err)
	}
	left := 0
	err := d.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(bRuleStates).ForEach(func(k, _ []byte) error { left++; return nil })
	})
	if rules, fail := d.Rules.Rules(); errors.Join(err, fail) != nil || left != 1 || len(rules) != 1 || rules[0].ID != other.ID {
		t.Errorf("%d entries of states are left, and the rules %v: %v %v", left, rules, err, fail)
	}
}

// alertTo returns a message to a webhook of a name.
func alertTo(receiver, id string) registry.AlertMessage {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return registry.AlertMessage{ID: id, Rule: "rule_a", Caller: "app", At: at, StartsAt: at,
		To: []registry.Receiver{{Kind: "webhook", Address: "http://" + receiver + ".example", Secret: "s"}}}
}

// alertReceiver returns the id of the subscription that has the messages of alertTo.
func alertReceiver(receiver string) string { return alertTo(receiver, "").To[0].ID("app") }

// dropAlert deletes a message.
func (d *DB) dropAlert(receiver string, seq uint64) error {
	_, err := d.Subscriptions.EditSubscription(alertReceiver(receiver), func(s *registry.Subscription, _ bool) error {
		s.Drop = []uint64{seq}
		return nil
	})
	return err
}

// A node that has lost the lease of the rules changes neither rules nor states, and queues no
// message. It may still deliver.
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
			Queue: []registry.AlertMessage{alertTo("a", "m_"+id)}}
	}
	e := edit(first, "rule_a")
	c.must(a.Rules.EditRules(&e))
	second := take(b, nb, first, 1)
	for _, stale := range []registry.RuleEdit{edit(first, "rule_b"), edit(0, "rule_b"),
		{Token: first, Put: []registry.Rule{{ID: "rule_a"}},
			States: map[string]*registry.RuleChange{"rule_a": {RuleState: registry.RuleState{Version: 1, Fired: 9}}}},
		{Token: first, Queue: []registry.AlertMessage{{ID: "m"}}}, {Token: first, Remove: []string{"rule_a"}}} {
		if err := a.Rules.EditRules(&stale); !errors.Is(err, scheduler.ErrFenced) {
			t.Errorf("%+v: %v", stale, err)
		}
	}
	c.must(a.dropAlert("a", 1))
	last := edit(second, "rule_c")
	c.must(b.Rules.EditRules(&last))
	for _, d := range c.stores {
		c.must(d.replica.CatchUp(context.Background()))
		rules, err := d.Rules.Rules()
		c.must(err)
		messages, err := d.Subscriptions.Messages(alertReceiver("a"), 0, 10)
		if c.must(err); len(rules) != 2 || rules[0].State.Fired != 0 || rules[1].ID != "rule_c" || len(messages) != 1 ||
			messages[0].ID != "m_rule_c" {
			t.Errorf("%+v %+v", rules, messages)
		}
	}
}

func TestDamagedRules(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	for bucket, v := range map[string]string{string(bRules): `{"id":"other"}`, string(bRuleStates): "{"} {
		e := registry.RuleEdit{Put: []registry.Rule{{ID: "rule_a"}},
			States: map[string]*registry.RuleChange{"rule_a": {RuleState: registry.RuleState{Version: 1}}}}
		if err := d.Rules.EditRules(&e); err != nil {
			t.Fatal(err)
		}
		err := d.update(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(bucket)).Put([]byte("rule_a"), []byte(v))
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Rules.Rules(); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", bucket, err)
		}
		if d.Check() == nil {
			t.Errorf("%s: Check finds nothing", bucket)
		}
		if err := d.Rules.EditRules(&registry.RuleEdit{Remove: []string{"rule_a"}}); err != nil {
			t.Fatal(err)
		}
	}
	e := registry.RuleEdit{Queue: []registry.AlertMessage{alertTo("a", "m")}}
	if err := d.Rules.EditRules(&e); err != nil {
		t.Fatal(err)
	}
	err := d.update(func(tx *bbolt.Tx) error {
		k := alertKey(alertReceiver("a"), 1)
		return tx.Bucket(bAlerts).Put(k, bytes.Repeat([]byte("{"), len(tx.Bucket(bAlerts).Get(k))))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Subscriptions.Messages(alertReceiver("a"), 0, 1); !errors.Is(err, ErrDamaged) || d.Check() == nil {
		t.Errorf("a damaged message: %v", err)
	}
	if err := d.dropAlert("a", 1); err != nil || d.Check() != nil {
		t.Errorf("after it is dropped: %v %v", err, d.Check())
	}
}

// Large messages are read a few at a time, and the oldest are given up when those of a receiver take
// too much room.
func TestLargeMessages(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	const each, many = 1 << 20, 66
	for i := range many {
		m := alertTo("a", fmt.Sprint("m", i))
		m.Summary = strings.Repeat("x", each)
		if err := d.Rules.EditRules(&registry.RuleEdit{Queue: []registry.AlertMessage{m}}); err != nil {
			t.Fatal(err)
		}
	}
	receiver := alertReceiver("a")
	list, err := d.Subscriptions.Messages(receiver, 0, many)
	if err != nil || len(list) != 1 || list[0].ID != "m3" {
		t.Errorf("%d messages are read at once: %v", len(list), err)
	}
	if err := d.dropAlert("a", list[0].Seq); err != nil {
		t.Fatal(err)
	}
	s, err := d.Subscriptions.Subscription(receiver)
	if err != nil || s.Stored != many-4 || s.GaveUp != 3 || s.Bytes < (many-4)*each || s.Bytes > (many-3)*each ||
		!strings.Contains(s.LastError, "64 MiB") {
		t.Errorf("%+v: %v", s, err)
	}
}

// The messages to all receivers of a caller are bounded. Those to the receiver with the most of them are
// given up, and no others.
func TestMessagesOfACaller(t *testing.T) {
	defer func(n int64) { mostCallerBytes = n }(mostCallerBytes)
	mostCallerBytes = 10 << 20
	d := open(t, t.TempDir(), Options{})
	send := func(caller, receiver string, n int) {
		t.Helper()
		for i := range n {
			m := alertTo(receiver, fmt.Sprint(receiver, i))
			m.Caller, m.Summary = caller, strings.Repeat("x", 1<<20)
			if err := d.Rules.EditRules(&registry.RuleEdit{Queue: []registry.AlertMessage{m}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	stored := func(caller, receiver string) registry.Subscription {
		t.Helper()
		s, err := d.Subscriptions.Subscription(alertTo(receiver, "").To[0].ID(caller))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	send("other", "a", 9)
	send("app", "dead", 8)
	send("app", "slow", 3)
	if dead, slow := stored("app", "dead"), stored("app", "slow"); dead.Stored != 6 || dead.GaveUp != 2 ||
		!strings.Contains(dead.LastError, "10 MiB wait for the receivers of its token") || slow.Stored != 3 || slow.GaveUp != 0 {
		t.Errorf("%+v\n%+v", dead, slow)
	}
	if s := stored("other", "a"); s.Stored != 9 || s.GaveUp != 0 {
		t.Errorf("another caller: %+v", s)
	}
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	for _, end := range []func(s *registry.Subscription, _ bool) error{
		func(s *registry.Subscription, _ bool) error { s.Drop = []uint64{s.Newest}; return nil },
		func(s *registry.Subscription, _ bool) error { s.State = registry.Ended; return nil },
	} {
		if _, err := d.Subscriptions.EditSubscription(alertReceiver("dead"), end); err != nil {
			t.Fatal(err)
		}
		if err := d.Check(); err != nil {
			t.Error(err)
		}
	}
	send("app", "slow", 6)
	if s := stored("app", "slow"); s.Stored != 9 || s.GaveUp != 0 {
		t.Errorf("after the end of another receiver: %+v", s)
	}
}

// A dead letter whose message is dropped for lack of room goes with it, and was given up only once.
func TestDropOfDeadLetters(t *testing.T) {
	defer func(n int64) { mostCallerBytes = n }(mostCallerBytes)
	mostCallerBytes = 4 << 20
	d := open(t, t.TempDir(), Options{})
	send := func() {
		m := alertTo("a", "m")
		m.Summary = strings.Repeat("x", 1<<20)
		e := registry.RuleEdit{Queue: []registry.AlertMessage{m}}
		if err := d.Rules.EditRules(&e); err != nil {
			t.Fatal(err)
		}
	}
	send()
	bury := func(s *registry.Subscription, _ bool) error {
		s.Dead = append(s.Dead, registry.DeadLetter{Seq: 1})
		s.GaveUp++
		return nil
	}
	if _, err := d.Subscriptions.EditSubscription(alertReceiver("a"), bury); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		send()
	}
	s, err := d.Subscriptions.Subscription(alertReceiver("a"))
	if err != nil || s.Stored != 3 || s.Waiting() != 3 || len(s.Dead) != 0 || s.GaveUp != 1 {
		t.Errorf("stored %d, waiting %d, dead %d, given up %d: %v", s.Stored, s.Waiting(), len(s.Dead), s.GaveUp, err)
	}
}

// Check finds receivers whose messages are counted wrongly. A wrong count makes no loop that never ends.
func TestWrongCountsOfMessages(t *testing.T) {
	defer func(n int64) { mostCallerBytes = n }(mostCallerBytes)
	mostCallerBytes = 4 << 20
	for name, spoil := range map[string]func(s *registry.Subscription){
		"more messages":  func(s *registry.Subscription) { s.Stored++ },
		"fewer messages": func(s *registry.Subscription) { s.Stored-- },
		"more bytes":     func(s *registry.Subscription) { s.Bytes++ },
		"many bytes":     func(s *registry.Subscription) { s.Bytes = 5 << 20 },
		"no messages":    func(s *registry.Subscription) { s.Bytes, s.Stored = 5<<20, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, t.TempDir(), Options{})
			send := func(receiver string) error {
				return d.Rules.EditRules(&registry.RuleEdit{Queue: []registry.AlertMessage{alertTo(receiver, "m"+receiver)}})
			}
			if err := errors.Join(send("a"), send("b"), d.Check()); err != nil {
				t.Fatal(err)
			}
			err := d.update(func(tx *bbolt.Tx) error {
				id := alertReceiver("a")
				s, err := parseSubscription(id, tx.Bucket(bSubscriptions).Get([]byte(id)))
				spoil(&s)
				return errors.Join(err, putReceiver(tx, &s))
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Check(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), alertReceiver("a")) {
				t.Errorf("Check: %v", err)
			}
			if err := send("b"); err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("a further message: %v", err)
			}
		})
	}
}

// Check finds states that belong to no rule.
func TestStatesWithoutRule(t *testing.T) {
	for _, key := range []string{"rule_gone", "rule_gone" + ofAlert + "k", "rule_gone" + ofEvent + "12345678"} {
		d := open(t, t.TempDir(), Options{})
		if err := d.Rules.EditRules(&registry.RuleEdit{Put: []registry.Rule{{ID: "rule_a"}}}); err != nil {
			t.Fatal(err)
		}
		if err := d.update(func(tx *bbolt.Tx) error { return tx.Bucket(bRuleStates).Put([]byte(key), []byte("{}")) }); err != nil {
			t.Fatal(err)
		}
		if d.Check() == nil {
			t.Errorf("Check finds nothing: %q", key)
		}
	}
}
