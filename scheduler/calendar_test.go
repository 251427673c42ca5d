package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A countedRanker counts how often all queries are ranked.
type countedRanker struct {
	policy.Ranker
	times int
}

func (c *countedRanker) Rank(m policy.Moment, all []*policy.Candidate) policy.Ranking {
	c.times++
	return c.Ranker.Rank(m, all)
}

// quietLedger returns its news once.
type quietLedger struct {
	Ledger
	news News
}

func (l *quietLedger) Since(string, uint64) (News, error) {
	n := l.news
	l.news = News{Revision: n.Revision}
	return n, nil
}

type fit struct{ Executor }

func (fit) Health() registry.Health { return registry.Health{State: registry.Healthy} }

// A client that asks for one query after the other does not make the loop rank all
// queries each time, as followers do when all of their queries change.
func TestDueRanksOnce(t *testing.T) {
	const spelling = "wic:urgency=uniform:life=overwrite"
	p, err := ParsePolicy(spelling)
	if err != nil {
		t.Fatal(err)
	}
	counted := &countedRanker{Ranker: p.(policy.Ranker)}
	ledger := &quietLedger{}
	l, err := NewLoop(Config{
		Endpoint: registry.Endpoint{
			Name: "city", URL: "http://127.0.0.1/sparql", Slot: "@every 1m",
			Budget: registry.Duration(10 * time.Second), Timeout: registry.Duration(time.Second), Policy: spelling,
		},
		Ledger: ledger, Executor: fit{}, Wake: func([]Note) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.planner.SetPolicy(counted, plan.RuleStrict, 10*time.Second)
	const n = 100
	entry := func(i int) policy.Entry {
		return policy.Entry{Query: query(fmt.Sprintf("q%03d", i)), Stats: policy.Stats{Executions: 2, Last: 1, Policy: p.String(),
			Floor: time.Second}}
	}
	ledger.news = News{Revision: 1, Last: Slot{Number: 1}}
	for i := range n {
		ledger.news.Entries = append(ledger.news.Entries, entry(i))
	}
	ask := func() {
		t.Helper()
		for i := range n {
			if due, err := l.Due([]string{fmt.Sprintf("q%03d", i)}); err != nil || due[0].IsZero() {
				t.Fatalf("%v, %v", due, err)
			}
		}
	}
	if ask(); counted.times != 1 {
		t.Errorf("%d queries were ranked %d times to tell when each is due, want once", n, counted.times)
	}
	// A change of a query's rank makes the loop rank all queries again.
	ledger.news = News{Revision: 2, Entries: []policy.Entry{entry(n)}}
	if ask(); counted.times != 2 {
		t.Errorf("ranked %d times after one more query came, want 2", counted.times)
	}
	ledger.news = News{Revision: 3, Removed: []string{fmt.Sprintf("q%03d", n)}}
	if ask(); counted.times != 3 {
		t.Errorf("ranked %d times after one query went, want 3", counted.times)
	}
}
