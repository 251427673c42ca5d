// Runs the suites of the store without a journal and on each engine of journals.

package store

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
	"github.com/freshet/freshet/store/journal/nats"
	"github.com/freshet/freshet/store/journal/nats/natstest"
	"github.com/freshet/freshet/store/journal/postgres"
	"github.com/freshet/freshet/store/journal/postgres/postgrestest"
)

// suites are the tests whose stores may follow a journal. options returns the options of a store in
// a directory. It is called again when the store there is opened again.
var suites = []struct {
	name string
	run  func(t *testing.T, options func(dir string) Options)
}{
	{"Ledger", testLedger}, {"Log", testLog}, {"Subscriptions", testSubscriptions}, {"Model", testModel},
}

// An engine runs until the test ends.
type engine func(t testing.TB) opener

// An opener opens the journal of a name for a node, until the test ends.
type opener func(t testing.TB, name string, node int) journal.Journal

// TestSuites runs each suite on bolt alone, and on bolt with a journal in memory. A suite's stores
// are the only ones on their journals.
func TestSuites(t *testing.T) {
	t.Run("bolt", func(t *testing.T) {
		for _, s := range suites {
			t.Run(s.name, func(t *testing.T) { s.run(t, func(string) Options { return Options{} }) })
		}
	})
	t.Run("memory", func(t *testing.T) {
		fewer(t, "8") // each question about what is not there waits for the journal
		runSuites(t, onMemory(t))
	})
}

// TestLongSuites runs each suite on the engines that keep journals on disk, and random commands on
// three stores that follow one journal there.
func TestLongSuites(t *testing.T) {
	fewer(t, "4") // every step of the model waits for the engine
	for name, e := range map[string]engine{"nats": onNATS, "postgresql": onPostgreSQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := e(t)
			runSuites(t, open)
			t.Run("Replicas", func(t *testing.T) {
				runOn(t, func(node int) journal.Journal { return open(t, "replicas", node) })
			})
		})
	}
}

func runSuites(t *testing.T, open opener) {
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) { s.run(t, following(t, open)) })
	}
}

// fewer sets how often rapid checks a property until the test ends.
func fewer(t *testing.T, checks string) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	before := f.Value.String()
	t.Cleanup(func() {
		if err := f.Value.Set(before); err != nil {
			t.Error(err)
		}
	})
	if err := f.Value.Set(checks); err != nil {
		t.Fatal(err)
	}
}

// engineWait is how long stores of tests wait for an engine, which is slow on a busy machine.
const engineWait = 5 * time.Minute

// journals counts the journals, so that each has a name of its own.
var journals atomic.Int64

// following returns options with the journal of a directory, which outlives the store there.
func following(t testing.TB, open opener) func(dir string) Options {
	type named struct {
		name string
		last journal.Journal
	}
	known := map[string]*named{}
	return func(dir string) Options {
		n := known[dir]
		if n == nil {
			n = &named{name: fmt.Sprint("suite-", journals.Add(1))}
			known[dir] = n
		} else if err := n.last.Close(); err != nil { // of the store that was here
			t.Error(err)
		}
		n.last = open(t, n.name, 0)
		return Options{Journal: n.last, JournalWait: engineWait}
	}
}

func onMemory(testing.TB) opener {
	logs := map[string]*memory.Log{}
	return func(t testing.TB, name string, _ int) journal.Journal {
		if logs[name] == nil {
			logs[name] = memory.New(name)
		}
		return openJournal(t, logs[name])
	}
}

// onNATS starts three servers in this process. A node is a client of one of them.
func onNATS(t testing.TB) opener {
	var servers []*nats.Server
	for _, c := range natstest.Configs(t, "test", 3) {
		servers = append(servers, natstest.Start(t, c))
	}
	return func(t testing.TB, name string, node int) journal.Journal {
		t.Helper()
		nc, err := servers[node].Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return opened(t, func(ctx context.Context) (*nats.Journal, error) {
			return nats.Open(ctx, nc, nats.Config{Name: name, Replicas: servers[node].Replicas()})
		})
	}
}

func onPostgreSQL(t testing.TB) opener {
	server := postgrestest.Start(t)
	return func(t testing.TB, name string, _ int) journal.Journal {
		t.Helper()
		return opened(t, func(ctx context.Context) (*postgres.Journal, error) {
			return postgres.Open(ctx, postgres.Config{URL: server.URL, Name: name, Poll: 5 * time.Millisecond})
		})
	}
}

func opened[J journal.Journal](t testing.TB, open func(ctx context.Context) (J, error)) journal.Journal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), engineWait)
	defer cancel()
	j, err := open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// runOn runs random commands on three stores with the journal of an engine.
func runOn(t *testing.T, engine func(node int) journal.Journal) {
	const seed, steps = 5, 120
	c := newClusterOn(t, engine, seed, 3)
	for n := range steps {
		c.step(n)
	}
	settle(t, c.stores...)
	for _, d := range c.stores {
		check(t, d)
		expectSame(t, c.stores[0], d)
	}
}
