// Tests of stores on the engines that keep journals on disk.

package store

import (
	"context"
	"testing"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/nats"
	"github.com/freshet/freshet/store/journal/nats/natstest"
	"github.com/freshet/freshet/store/journal/postgres"
	"github.com/freshet/freshet/store/journal/postgres/postgrestest"
)

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

func opened[J journal.Journal](t testing.TB, open func(ctx context.Context) (J, error)) journal.Journal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	j, err := open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// onNATS returns a function that opens a journal on one of three servers.
func onNATS(t testing.TB) func(node int) journal.Journal {
	var servers []*nats.Server
	for _, c := range natstest.Configs(t, "test", 3) {
		servers = append(servers, natstest.Start(t, c))
	}
	return func(node int) journal.Journal {
		nc, err := servers[node].Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return opened(t, func(ctx context.Context) (*nats.Journal, error) {
			return nats.Open(ctx, nc, nats.Config{Name: "test", Replicas: servers[node].Replicas()})
		})
	}
}

func onPostgreSQL(t testing.TB) func(node int) journal.Journal {
	server := postgrestest.Start(t)
	return func(int) journal.Journal {
		return opened(t, func(ctx context.Context) (*postgres.Journal, error) {
			return postgres.Open(ctx, postgres.Config{URL: server.URL, Name: "test", Poll: 5 * time.Millisecond})
		})
	}
}

func TestReplicasOnNATS(t *testing.T) { runOn(t, onNATS(t)) }

func TestReplicasOnPostgreSQL(t *testing.T) { runOn(t, onPostgreSQL(t)) }
