// Tests of what rules and receivers cost the journal of a cluster.

package alert_test

import (
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
