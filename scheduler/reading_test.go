package scheduler

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// While the loop's lock is held, for example to merge very many queries, readers get
// the last state and no prediction instead of waiting for the lock.
func TestReadersDoNotWaitForTheLock(t *testing.T) {
	e := registry.Endpoint{Name: "city", URL: "http://127.0.0.1/sparql", Slot: "@every 1h", Policy: "rr"}.WithDefaults()
	l, err := NewLoop(Config{Endpoint: e, Ledger: &reading{}, Executor: healthy{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.news(); err != nil {
		t.Fatal(err)
	}
	want := l.State()
	if want.Queries != 3 {
		t.Fatalf("%d queries, want 3", want.Queries)
	}
	l.mu.Lock()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if got := l.State(); got.Queries != want.Queries || got.Endpoint != "city" {
			t.Errorf("the state is %+v, want the one before: %+v", got, want)
		}
		if due, err := l.Due([]string{"a", "b"}); err != nil || len(due) != 2 || !due[0].IsZero() {
			t.Errorf("due %v, %v, want two unknown times", due, err)
		}
	}()
	free := make(chan struct{})
	go func() {
		defer close(free)
		l.Answers()
	}()
	select {
	case <-answered:
	case <-time.After(time.Minute): // far beyond readerWait
		t.Error("readers wait for the lock")
	}
	select {
	case <-free:
		t.Error("a loop whose lock is held counts as one that answers")
	default:
	}
	l.mu.Unlock()
	<-free
	<-answered
	if due, err := l.Due([]string{"a"}); err != nil || due[0].IsZero() {
		t.Errorf("with the lock free: due %v, %v", due, err)
	}
}

// reading is a ledger of three queries.
type reading struct{ Ledger }

func (*reading) Since(_ string, revision uint64) (News, error) {
	n := News{Revision: 1}
	for _, id := range []string{"a", "b", "c"} {
		if revision == 0 {
			q := registry.Query{ID: id, Endpoint: "city"}
			q.Holders = []registry.Holder{{Caller: "anonymous"}}
			n.Entries = append(n.Entries, policy.Entry{Query: q})
		}
	}
	return n, nil
}

// healthy is an executor that must not be called.
type healthy struct{ Executor }

func (healthy) Health() registry.Health { return registry.Health{State: registry.Healthy} }

// removing is a ledger of three queries of which a is removed, and then all but c.
type removing struct{ reading }

func (r *removing) Since(endpoint string, revision uint64) (News, error) {
	n, err := r.reading.Since(endpoint, revision)
	switch n.Revision = revision + 1; revision {
	case 1:
		n.Removed = []string{"a"}
	case 2:
		all, err := r.reading.Since(endpoint, 0)
		return News{Revision: 3, Full: true, Entries: all.Entries[2:]}, err
	}
	return n, err
}

// What is held to audit a query goes with the query.
func TestAuditsOfRemovedQueriesAreDropped(t *testing.T) {
	e := registry.Endpoint{Name: "city", URL: "http://127.0.0.1/sparql", Slot: "@every 1h", Policy: "rr"}.WithDefaults()
	l, err := NewLoop(Config{Endpoint: e, Ledger: &removing{}, Executor: healthy{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c"} {
		l.audits[id] = &audit{}
	}
	for _, want := range []int{3, 2, 1} {
		if err := l.news(); err != nil {
			t.Fatal(err)
		}
		if n := len(l.audits); n != want {
			t.Errorf("%d audits of %d queries", n, want)
		}
	}
}
