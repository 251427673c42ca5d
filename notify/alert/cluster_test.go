// Tests of what rules and receivers cost the journal of a cluster.

package alert_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal/memory"
)

// Nodes do not ask each other about each receiver that has had no alert, or that is gone: lists,
// metrics and the news of other nodes would wait for thousands of answers.
func TestReceiversWithoutSubscriptions(t *testing.T) {
	r := newRig(t)
	r.stop()
	var commands atomic.Int64
	r.dir, r.journal = t.TempDir(), memory.New("test")
	r.refuse = func([]byte) error { commands.Add(1); return nil }
	r.start()
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=5")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "webhook", Address: "http://127.0.0.1:1/a"}, {Kind: "webhook", Address: "http://127.0.0.1:1/b"}}})
	before := commands.Load()
	if v := r.rule("late"); len(v.Receivers) != 2 {
		t.Errorf("%+v", v)
	}
	if _, err := r.Totals(); err != nil {
		t.Error(err)
	}
	if err := r.deliver.Refresh([]string{r.rule("late").Receivers[0].ID}); err != nil {
		t.Error(err)
	}
	if n := commands.Load() - before; n != 0 {
		t.Errorf("%d commands were appended to the journal", n)
	}
}

// A node that is cut off after it has applied edits of rules takes note of all of them. It does not wait for other nodes
// to say that a rule is gone, and a rule whose query is gone is not broken by the outage.
func TestRulesOfOthersWhileCutOff(t *testing.T) {
	r := newRig(t)
	r.stop()
	r.dir, r.journal = t.TempDir(), memory.New("test")
	var cut, other atomic.Bool
	outage := errors.New("the journal does not answer")
	r.refuse = func([]byte) error {
		if cut.Load() {
			return outage
		}
		return nil
	}
	r.options.Lease = func() (uint64, bool) { return 0, !other.Load() }
	query := r.options.Query
	r.options.Query = func(id string) (registry.Query, error) {
		if cut.Load() { // as the store about one that is gone
			return registry.Query{}, fmt.Errorf("%w: %w", registry.ErrReadOnly, outage)
		}
		return query(id)
	}
	r.start()
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=5")
	gone := r.create(registry.RuleSettings{Name: "gone", Query: q, When: "?value > 10"})
	kept := r.create(registry.RuleSettings{Name: "kept", Query: q, When: "?value > 10"})
	other.Store(true)
	if err := r.db.Rules.EditRules(&registry.RuleEdit{Remove: []string{gone.ID}}); err != nil {
		t.Fatal(err)
	}
	cut.Store(true)
	if err := r.Refresh([]string{gone.ID, kept.ID}); err != nil {
		t.Error(err)
	}
	if _, err := r.Rule(app, gone.ID); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a rule that was removed: %v", err)
	}
	cut.Store(false)
	if v := r.rule(kept.ID); v.Reason != "" {
		t.Errorf("the outage has broken a rule: %s", v.Reason)
	}
}
