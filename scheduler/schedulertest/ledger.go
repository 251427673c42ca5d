package schedulertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A Seeder registers queries in the store of the ledger under test. Register adds a
// query, or replaces the one with the same id. Remove removes a query with all its
// data. Both have committed when they return.
type Seeder interface {
	Register(q registry.Query) error
	Remove(id string) error
}

// A ProfileSeeder is a Seeder that also keeps profiles. Want adds a profile, or
// replaces the one with the same id. Unwant removes a profile with its rounds. Ends
// lists the ended rounds of a profile in the order recorded.
type ProfileSeeder interface {
	Want(p registry.Profile) error
	Unwant(id string) error
	Ends(id string) ([]registry.Round, error)
}

// TestLedger tests the rules that every ledger must follow. open creates an empty
// ledger; endpoints named "alpha" and "beta" must be usable.
func TestLedger(t *testing.T, open func(t *testing.T) (scheduler.Ledger, Seeder)) {
	for name, law := range map[string]func(*testing.T, *bench){
		"empty":            testEmpty,
		"since":            testSince,
		"edit and remove":  testEditRemove,
		"numbering":        testNumbering,
		"unchanged":        testUnchanged,
		"result":           testResult,
		"stats":            testStats,
		"one batch":        testBatch,
		"passed over":      testPassedOver,
		"registered again": testAgain,
		"slots":            testSlots,
		"debt":             testDebt,
		"health":           testHealth,
		"policy state":     testPolicyState,
		"trial runs":       testTrialRuns,
		"cohorts":          testCohorts,
		"concurrent":       testConcurrent,
		"profiles":         testProfiles,
		"rounds":           testRounds,
		"expectations":     testExpectations,
		"rounds of others": testForeignRounds,
		"clock ahead":      testRoundsOfClockAhead,
		"models":           testModels,
	} {
		t.Run(name, func(t *testing.T) {
			l, s := open(t)
			law(t, &bench{t, l, s})
		})
	}
}

// A bench is a ledger under test.
type bench struct {
	t *testing.T
	l scheduler.Ledger
	s Seeder
}

const (
	alpha = "alpha"
	beta  = "beta"
)

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// Query makes a SELECT query for tests, with name in its text. The id follows from
// the query's identity.
func Query(endpoint, name string) registry.Query {
	text := fmt.Sprintf("SELECT ?s WHERE { ?s <http://example.org/p> %q }", name)
	return registry.Query{
		ID: registry.Identity(endpoint, text, false, nil, nil), Endpoint: endpoint, Text: text, Normal: text,
		Form: diff.Select, Limit: -1, CreatedAt: start,
		Holders: []registry.Holder{{Caller: registry.Anonymous, Name: name, Since: start}},
	}
}

// Rows makes a SELECT result of one variable with these literals.
func Rows(t testing.TB, values ...string) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	errs := []error{b.SetVars([]string{"s"})}
	for _, v := range values {
		errs = append(errs, b.Row(diff.Term{Kind: diff.Literal, Value: v}))
	}
	r, err := b.Finish()
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatalf("build a result: %v", err)
	}
	return r
}

func (b *bench) register(endpoint, name string) registry.Query {
	b.t.Helper()
	q := Query(endpoint, name)
	if err := b.s.Register(q); err != nil {
		b.t.Fatalf("register: %v", err)
	}
	return q
}

func (b *bench) since(endpoint string, rev uint64) scheduler.News {
	b.t.Helper()
	n, err := b.l.Since(endpoint, rev)
	if err != nil {
		b.t.Fatalf("Since(%s, %d): %v", endpoint, rev, err)
	}
	return n
}

func (b *bench) record(endpoint string, x scheduler.Batch) []registry.Change {
	b.t.Helper()
	c, err := b.l.Record(endpoint, x)
	if err != nil {
		b.t.Fatalf("Record: %v", err)
	}
	return c
}

func (b *bench) result(id string) *diff.Result {
	b.t.Helper()
	r, err := b.l.Result(id)
	if err != nil {
		b.t.Fatalf("Result(%s): %v", id, err)
	}
	return r
}

// entry returns one query of an endpoint.
func (b *bench) entry(endpoint, id string) policy.Entry {
	b.t.Helper()
	for _, e := range b.since(endpoint, 0).Entries {
		if e.Query.ID == id {
			return e
		}
	}
	b.t.Fatalf("query %s is not among those of %s", id, endpoint)
	return policy.Entry{}
}

// outcome describes one complete execution in a slot. now is nil if the result did
// not change.
func outcome(id string, slot uint64, was, now *diff.Result) scheduler.Outcome {
	at := start.Add(time.Duration(slot) * time.Minute)
	o := scheduler.Outcome{Query: id, Checked: at.Add(-time.Second), At: at}
	o.Stats = policy.Stats{
		Last: slot, Executions: slot, CheckedAt: o.Checked,
		LastRun: policy.Run{Slot: slot, At: at, Elapsed: time.Second, Outcome: registry.Unchanged, Why: plan.TierRanked},
	}
	if now != nil {
		o.Result, o.Delta = now, diff.Compare(was, now)
		o.Stats.Hash, o.Stats.Rows, o.Stats.ChangedAt = now.Hash(), now.Len(), o.Checked
		o.Stats.LastRun.Outcome = registry.Changed
	}
	return o
}

func ids(entries []policy.Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Query.ID)
	}
	slices.Sort(out)
	return out
}

func sortedIDs(qs ...registry.Query) []string {
	var out []string
	for _, q := range qs {
		out = append(out, q.ID)
	}
	slices.Sort(out)
	return out
}

func (b *bench) same(what string, got, want any) {
	b.t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		b.t.Errorf("%s (-want +got):\n%s", what, d)
	}
}
