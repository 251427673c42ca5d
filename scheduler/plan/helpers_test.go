package plan

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/hybrid"
	"github.com/freshet/freshet/scheduler/policy"
)

// definitions returns the policies that need no profiles.
func definitions() []policy.Definition {
	return append(append(policy.Definitions(), hybrid.Definition()), policy.Yardsticks()...)
}

func parse(spelling string) (policy.Policy, error) { return policy.Parse(definitions(), spelling) }

// named returns the policy with a spelling and panics if there is none.
func named(spelling string) policy.Policy {
	p, err := parse(spelling)
	if err != nil {
		panic(err)
	}
	return p
}

func seconds(n float64) time.Duration { return time.Duration(math.Round(n * float64(time.Second))) }

func query(id string) registry.Query {
	return registry.Query{ID: id, Endpoint: "city", Form: diff.Select, Holders: []registry.Holder{{Caller: registry.Anonymous}}}
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// registered returns realistic queries of an endpoint. Each has eight constants: all
// queries share one, a thousand share another, and few share the rest.
func registered(n int) []policy.Entry {
	list := make([]policy.Entry, n)
	for i := range list {
		q := query(fmt.Sprintf("q%07d", i*7919%n))
		q.Constants = []string{"http://example.org/all", fmt.Sprintf("http://example.org/many/%d", i%(n/1000+1))}
		for k := range 6 {
			q.Constants = append(q.Constants, fmt.Sprintf("http://example.org/some/%d", (i+k*k*31)%n))
		}
		s := policy.Stats{Policy: "rr", Executions: 3, Last: uint64(1 + i%900), CheckedAt: began.Add(time.Duration(i) * time.Millisecond)}
		s.Remember(policy.Sample{Elapsed: time.Duration(1+i%1000) * time.Millisecond})
		list[i] = policy.Entry{Query: q, Stats: s}
	}
	return list
}

func planned(tb testing.TB, policy string, list []policy.Entry) *Planner {
	x, err := parse(policy)
	if err != nil {
		tb.Fatal(err)
	}
	p := New(x, time.Hour)
	p.slot, p.now = 1000, began.Add(time.Hour)
	for _, e := range list {
		p.put(e.Query, e.Stats)
	}
	return p
}

func compareItems(a, b *item) int { return entryOf(a).compare(entryOf(b)) }
