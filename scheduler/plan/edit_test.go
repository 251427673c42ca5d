package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// An edit of a query keeps what the policy has learnt about it since the statistics were
// recorded. A query that was removed and registered again begins with what is recorded.
func TestEditKeepsWhatThePolicyLearnt(t *testing.T) {
	p := New(named("hybrid"), 10*time.Second)
	now := time.Unix(1_790_000_000, 0)
	recorded := policy.Entry{Query: registry.Query{ID: "q_a", Endpoint: "city", Limit: -1}}
	recorded.Stats.Position.Epoch = "first"
	p.Update(now, Update{Entries: []policy.Entry{recorded}})
	c := p.all["q_a"]
	old := slices.Clone(c.Stats.State)
	recorded.Stats.Policy, recorded.Stats.State = c.Stats.Policy, old
	learnt := slices.Repeat([]float64{0.25}, max(1, len(old)))
	c.SetState(slices.Clone(learnt))
	edited := recorded
	edited.Query.Text = "SELECT * { ?s ?p ?o } # edited"
	p.Update(now, Update{Entries: []policy.Entry{edited}})
	if c := p.all["q_a"]; !slices.Equal(c.Stats.State, learnt) || c.Query.Text != edited.Query.Text {
		t.Errorf("after an edit the state is %v, want %v", c.Stats.State, learnt)
	}
	again := recorded
	again.Stats.Position.Epoch = "second"
	p.Update(now, Update{Entries: []policy.Entry{again}})
	if c := p.all["q_a"]; slices.Equal(c.Stats.State, learnt) {
		t.Errorf("a query that was registered again has the state of the removed one: %v", c.Stats.State)
	}
}
