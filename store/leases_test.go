// Tests of leases: who has them, and what is refused without them.

package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
	"github.com/freshet/freshet/store/replica"
)

func member(name, session string) registry.Node { return registry.Node{Name: name, Session: session} }

// leased returns a lease as a store knows it.
func leased(t *testing.T, d *DB, key string) Lease {
	t.Helper()
	_, leases, err := d.Leases.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		if l.Key == key {
			return l
		}
	}
	return Lease{Key: key}
}

// A node whose lease was taken records nothing more. It is taken only if its owner has shown no
// heartbeat that the taker does not know.
func TestLease(t *testing.T) {
	c := newCluster(t, 1, 3)
	a, b := c.stores[0], c.stores[1]
	na, nb := member("a", "s1"), member("b", "s2")
	put(t, a, "q", "e")
	_, err := a.Endpoints.EditEndpoint("e", func(x *registry.Configured, _ bool) error { x.Endpoint.URL = "http://x/"; return nil })
	c.must(err)
	c.must(a.Leases.Join(na))
	c.must(b.Leases.Join(nb))
	key := EndpointLease("e")
	take := func(d *DB, n registry.Node, token, beats uint64) uint64 {
		t.Helper()
		granted, err := d.Leases.Take(n, []Claim{{key, token, beats}})
		c.must(err)
		if len(granted) == 0 {
			return 0
		}
		return granted[0].Token
	}
	record := func(d *DB, token, slot uint64, value string) error {
		c.must(d.replica.CatchUp(context.Background()))
		_, err := d.Ledger.Under(token).Record("e", scheduler.Batch{Outcomes: []scheduler.Outcome{next(t, d, "q", slot, bag(t, value))}})
		return err
	}
	first := take(a, na, 0, 0)
	if first == 0 || take(b, nb, 0, 0) != 0 {
		t.Fatalf("token %d; only the first is granted the lease", first)
	}
	c.must(record(a, first, 1, "x"))
	c.must(a.Leases.Beat(na)) // the second heartbeat, after that of joining
	if take(b, nb, first, 1) != 0 {
		t.Fatal("the lease of a node that lives was taken")
	}
	second := take(b, nb, first, 2)
	if second <= first {
		t.Fatalf("token %d after %d", second, first)
	}
	c.must(c.stores[2].replica.CatchUp(context.Background()))
	before := dump(t, c.stores[2])
	if err := record(a, first, 2, "y"); !errors.Is(err, scheduler.ErrFenced) {
		t.Fatalf("a record under the old token: %v", err)
	}
	if err := record(a, 0, 2, "y"); !errors.Is(err, scheduler.ErrFenced) {
		t.Fatalf("a record without a token: %v", err)
	}
	c.must(c.stores[2].replica.CatchUp(context.Background()))
	for k, v := range dump(t, c.stores[2]) {
		if before[k] != v && k != fmt.Sprintf("meta/%x", replica.Applied) && k != fmt.Sprintf("meta/%x", replica.State) {
			t.Errorf("a refused record wrote %s", k)
		}
	}
	c.must(record(b, second, 2, "y"))
	// Another session of a ends the first one, and b's lease goes with its release.
	c.must(a.Leases.Join(member("a", "s3")))
	for name, err := range map[string]error{
		"a heartbeat": a.Leases.Beat(na), "leaving": a.Leases.Leave(na), "a release": a.Leases.Release(na, nil),
		"taking": func() error { _, err := a.Leases.Take(na, nil); return err }(),
	} {
		if !errors.Is(err, scheduler.ErrFenced) {
			t.Errorf("%s of a session that has ended: %v", name, err)
		}
	}
	c.must(b.Leases.Release(nb, []Lease{{Key: key, Token: first}}))
	if l := leased(t, b, key); l.Token != second {
		t.Fatalf("a late release under the old token: %+v", l)
	}
	c.must(b.Leases.Release(nb, []Lease{{Key: key, Token: second}}))
	if err := record(b, second, 3, "z"); !errors.Is(err, scheduler.ErrFenced) {
		t.Fatalf("a record after the release: %v", err)
	}
	if l := leased(t, b, key); l.Node != "" || l.Token <= second {
		t.Fatalf("after the release: %+v", l)
	}
	// A removed endpoint has no lease, and one of its name gets a token that was never used.
	_, err = b.Endpoints.EditEndpoint("e", func(x *registry.Configured, _ bool) error { x.Endpoint.URL = ""; return nil })
	c.must(err)
	if l := leased(t, b, key); l.Token != 0 {
		t.Fatalf("the removed endpoint has %+v", l)
	}
	if take(b, nb, 0, 0) != 0 {
		t.Fatal("the lease of a removed endpoint was granted")
	}
	put(t, b, "q", "e")
	_, err = b.Endpoints.EditEndpoint("e", func(x *registry.Configured, _ bool) error { x.Endpoint.URL = "http://x/"; return nil })
	c.must(err)
	if n := take(b, nb, 0, 0); n <= second+1 {
		t.Fatalf("token %d was used before", n)
	}
	settle(t, c.stores...)
	for _, d := range c.stores {
		expectSame(t, a, d)
	}
}

// The lease of an endpoint that is removed, and made again, stays with its owner, whose last request
// may run: with a new token, until the owner gives it back or is gone. A shorter timeout leaves the
// lease as it is. In both cases it says how long requests of the owner may run.
func TestLeaseOfRemovedEndpoint(t *testing.T) {
	c := newCluster(t, 1, 2)
	a, b := c.stores[0], c.stores[1]
	na, nb := member("a", "s1"), member("b", "s2")
	c.must(a.Leases.Join(na))
	c.must(a.Leases.Join(nb))
	key := EndpointLease("e")
	edit := func(d *DB, url string, timeout time.Duration) {
		t.Helper()
		_, err := d.Endpoints.EditEndpoint("e", func(x *registry.Configured, _ bool) error {
			x.Endpoint.URL, x.Endpoint.Timeout = url, registry.Duration(timeout)
			return nil
		})
		c.must(err)
		settle(t, a, b)
	}
	take := func(n registry.Node, token, beats uint64) []Lease {
		t.Helper()
		granted, err := a.Leases.Take(n, []Claim{{key, token, beats}})
		c.must(err)
		return granted
	}
	expect := func(what, session string, linger time.Duration) Lease {
		t.Helper()
		settle(t, a, b)
		l := leased(t, b, key)
		if l.Session != session || l.Linger != linger {
			t.Fatalf("%s: %+v", what, l)
		}
		return l
	}
	edit(a, "http://x/", 9*time.Second)
	first := take(na, 0, 0)[0]
	edit(b, "http://x/", 4*time.Second)
	if l := expect("a shorter timeout", "s1", 9*time.Second); l.Token != first.Token {
		t.Fatalf("a shorter timeout ends the lease: %+v", l)
	}
	edit(b, "http://x/", 5*time.Second)
	edit(b, "http://x/", 3*time.Second)
	edit(b, "", 0)
	l := expect("removed", "s1", 9*time.Second)
	if l.Token <= first.Token {
		t.Fatalf("the owner of a removed endpoint still has it: %+v", l)
	}
	edit(b, "http://x/", 2*time.Second)
	if again := expect("made again", "s1", 9*time.Second); again != l || len(take(nb, 0, 0)) > 0 || len(take(nb, l.Token, 0)) > 0 {
		t.Fatalf("made again: %+v, then %+v", l, again)
	}
	c.must(a.Leases.Release(na, []Lease{l}))
	l = take(nb, expect("given back", "", 0).Token, 0)[0]
	// The new owner is gone, too. The lease of its endpoint may be deleted then, and not before.
	edit(a, "", 0)
	l = expect("removed again", "s2", 2*time.Second)
	take(na, l.Token, 0)
	expect("while the owner lives", "s2", 2*time.Second)
	take(na, l.Token, 1)
	expect("when the owner is gone", "", 0)
	// An owner that lives gives it back, and nothing remains either.
	edit(a, "http://x/", time.Second)
	l = take(na, 0, 0)[0]
	edit(a, "", 0)
	c.must(a.Leases.Release(na, []Lease{expect("removed a third time", "s1", time.Second)}))
	if l := expect("given back", "", 0); l.Token != 0 {
		t.Fatalf("a removed endpoint has %+v", l)
	}
	expectSame(t, a, b)
}

// A lease of a session that another session of the node has replaced may be taken at any time.
func TestLeaseOfReplacedSession(t *testing.T) {
	c := newCluster(t, 1, 1)
	d := c.stores[0]
	c.must(d.Leases.Join(member("a", "s1")))
	old, err := d.Leases.Take(member("a", "s1"), []Claim{{Key: "shard/1"}})
	if err != nil || len(old) != 1 {
		t.Fatal(old, err)
	}
	c.must(d.Leases.Join(member("a", "s2")))
	got, err := d.Leases.Take(member("a", "s2"), []Claim{{"shard/1", old[0].Token, 0}})
	if err != nil || len(got) != 1 || got[0].Session != "s2" {
		t.Fatal(got, err)
	}
	c.must(d.Leases.Drain("a", true))
	if nodes, _, err := d.Leases.Nodes(); err != nil || len(nodes) != 1 || !nodes[0].Drains || nodes[0].Session != "s2" {
		t.Fatal(nodes, err)
	}
	if err := d.Leases.Drain("x", true); !errors.Is(err, registry.ErrNotFound) {
		t.Fatal(err)
	}
	c.must(d.Leases.Leave(member("a", "s2")))
	if nodes, _, err := d.Leases.Nodes(); err != nil || nodes[0].Session != "" {
		t.Fatal(nodes, err)
	}
}

// A member that left in an orderly way, or was stopped, finds what it lacks in the journal when it comes back
// within a day. A new member does not.
func TestJournalOfMemberThatLeft(t *testing.T) {
	for name, left := range map[string]bool{"left": true, "stopped": false} {
		t.Run(name, func(t *testing.T) { bubble.Test(t, func(t *testing.T) { testComeBack(t, left) }) })
	}
}

func testComeBack(t *testing.T, left bool) {
	l, dir := memory.New("test"), t.TempDir()
	start := func(name string) (*DB, func() error, error) {
		j := l.Open()
		d, err := Open(filepath.Join(dir, name), Options{Journal: j})
		if err != nil {
			return nil, nil, errors.Join(err, j.Close())
		}
		d.bolt.NoSync = true // saves time
		n := member(name, "s"+name)
		n.Applied = d.Applied()
		return d, func() error { return errors.Join(d.Close(), j.Close()) }, d.Leases.Join(n)
	}
	open := func(name string) (*DB, func() error) {
		d, end, err := start(name)
		if err != nil {
			t.Fatal(err)
		}
		return d, end
	}
	beat := func(d *DB, name string) {
		t.Helper()
		n := member(name, "s"+name)
		n.Applied = d.Applied()
		if err := d.Leases.Beat(n); err != nil {
			t.Fatal(err)
		}
	}
	a, end := open("a")
	defer end()
	fill := func() {
		for i := range 256 {
			put(t, a, fmt.Sprint("q", i), "e")
		}
	}
	if !left {
		fill()
	}
	b, stop := open("b")
	if left {
		if err := errors.Join(b.Leases.Leave(member("b", "sb")), stop()); err != nil {
			t.Fatal(err)
		}
		fill() // b lacks it
	} else {
		if err := caughtUp(b); err != nil {
			t.Fatal(err)
		}
		beat(b, "b")
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Leases.Drop(); err != nil { // which sees what may be dropped later
		t.Fatal(err)
	}
	time.Sleep(journal.KeepAge / 2)
	beat(a, "a")
	if err := a.Leases.Drop(); err != nil {
		t.Fatal(err)
	}
	b, stop = open("b")
	defer stop()
	expectSame(t, a, b)
	if !left {
		if _, _, err := start("c"); !errors.Is(err, journal.ErrDropped) {
			t.Errorf("a new member after entries were dropped: %v", err)
		}
	}
}
