package plan

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// TestMarkOutlivesIncompleteExecutions checks that only a complete execution removes
// the mark of a hint.
func TestMarkOutlivesIncompleteExecutions(t *testing.T) {
	for _, o := range []registry.Outcome{registry.Failed, registry.Timeout, registry.Throttled, registry.Dropped, registry.Cut,
		registry.Changed} {
		p := New(named("rr"), time.Minute)
		q, known := estimated("a", time.Second)
		q.Text, q.Constants = "SELECT * { ?s <http://example.org/p> ?o }", []string{"http://example.org/p"}
		p.put(q, known)
		p.Proofs().Hint(registry.Hint{Touched: q.Constants}, noon)
		s := p.Begin(noon, Terms{Width: 1, Timeout: time.Minute})
		x := s.Next(noon)
		if x == nil || x.Tier() != TierHinted {
			t.Fatalf("%s: the marked query starts as %+v", o, x)
		}
		answer, _ := s.Finish(x, registry.Answer{Outcome: o, Elapsed: time.Second}, false)
		stats := x.Stats()
		stats.LastRun = policy.Run{Slot: p.Slot(), At: noon, Outcome: answer.Outcome}
		s.Record(x, &Completion{Stats: &stats, Checked: noon, At: noon})
		p.End(noon, "")
		if marked := p.hints.has(p.all["a"]); marked == o.Complete() {
			t.Errorf("after an execution with the outcome %s the query is marked: %v", o, marked)
		}
	}
}
