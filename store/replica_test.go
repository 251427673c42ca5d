// Tests that stores which follow one journal have the same content.

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
	"github.com/freshet/freshet/store/replica"
	"go.etcd.io/bbolt"
)

func openJournal(t testing.TB, l *memory.Log) journal.Journal {
	j := l.Open()
	t.Cleanup(func() { j.Close() })
	return j
}

// dump returns all entries of a store, without those that identify its file.
func dump(t testing.TB, d *DB) map[string]string {
	t.Helper()
	m := map[string]string{}
	err := d.bolt.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				if string(name) != string(bMeta) || string(k) != string(kGeneration) && string(k) != string(kCopy) {
					m[fmt.Sprintf("%s/%x", name, k)] = string(v)
				}
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// expectSame compares two stores. A report of the state may arrive at any time, so they are
// compared at the same position in the journal.
func expectSame(t testing.TB, a, b *DB) {
	t.Helper()
	x, y := dump(t, a), dump(t, b)
	at := fmt.Sprintf("%s/%x", bMeta, replica.Applied)
	for end := time.Now().Add(engineWait); a.replica != nil && b.replica != nil && x[at] != y[at] && time.Now().Before(end); {
		settle(t, a, b)
		x, y = dump(t, a), dump(t, b)
	}
	different := 0
	for k, v := range x {
		if w, ok := y[k]; !ok || v != w {
			if different++; different < 6 {
				t.Errorf("%s: %.200q in one store, %.200q in the other", k, v, w)
			}
		}
	}
	if len(x) != len(y) || different > 0 {
		t.Fatalf("%d entries in one store, %d in the other, %d of the first differ", len(x), len(y), different)
	}
}

// settle waits until the purge has ended and every store has applied everything.
func settle(t testing.TB, stores ...*DB) {
	t.Helper()
	deadline := time.Now().Add(engineWait)
	for i := 0; i < len(stores); i++ {
		d := stores[i]
		if err := caughtUp(d); err != nil {
			t.Fatal(err)
		}
		left, err := fetch(d.boltFile, func(tx *bbolt.Tx) (bool, error) {
			k, _ := tx.Bucket(bPurge).Cursor().First()
			return k != nil, nil
		})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the purge did not end: %v", err)
		}
		if left {
			i = -1 // the others follow
			time.Sleep(time.Millisecond)
		}
	}
	for _, d := range stores { // including the steps of the purge that came last
		if err := caughtUp(d); err != nil {
			t.Fatal(err)
		}
	}
}

// caughtUp waits until a store has applied what its journal contains, if it has one.
func caughtUp(d *DB) error {
	if d.replica == nil {
		return nil
	}
	return d.replica.CatchUp(context.Background())
}

// A cluster is a number of stores on one journal. Each has other settings of retention.
type cluster struct {
	t      *testing.T
	log    *memory.Log                    // unless another engine has the journal
	engine func(node int) journal.Journal // opens the journal of a node; nil for a store without one
	stays  bool                           // stores are not opened again
	random *rand.Rand
	dirs   []string
	stores []*DB
	now    time.Time
	mu     sync.Mutex // guards now
	held   map[string]string
	slot   uint64
	last   map[string]uint64 // round of each profile
	seen   map[uint64]string // change by offset
}

func newCluster(t *testing.T, seed uint64, nodes int) *cluster {
	log := memory.New("test")
	c := newClusterOn(t, func(int) journal.Journal { return openJournal(t, log) }, seed, nodes)
	c.log = log
	return c
}

func newClusterOn(t *testing.T, engine func(node int) journal.Journal, seed uint64, nodes int) *cluster {
	c := &cluster{t: t, engine: engine, random: rand.New(rand.NewPCG(seed, 1)), now: start, held: map[string]string{},
		last: map[string]uint64{}, seen: map[uint64]string{}}
	for i := range nodes {
		c.dirs = append(c.dirs, t.TempDir())
		c.stores = append(c.stores, nil)
		c.open(i)
	}
	return c
}

func (c *cluster) open(i int) {
	o := Options{
		Retention: Retention{Changes: 3 + i, Bytes: int64(3000 + 500*i), Age: time.Duration(90+i) * time.Minute},
		Now: func() time.Time {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.now
		},
		JournalWait: engineWait,
	}
	if c.engine != nil {
		o.Journal = c.engine(i)
	}
	c.stores[i] = open(c.t, c.dirs[i], o)
}

func (c *cluster) restart(i int) {
	if err := c.stores[i].Close(); err != nil {
		c.t.Fatal(err)
	}
	c.open(i)
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// step runs a random command on a random store.
func (c *cluster) step(n int) {
	c.mu.Lock()
	c.now = start.Add(time.Duration(n) * time.Minute)
	c.mu.Unlock()
	r := c.random
	d := c.stores[r.IntN(len(c.stores))]
	endpoint := fmt.Sprint("e", r.IntN(3))
	id := fmt.Sprint("q", r.IntN(12), endpoint)
	switch k := r.IntN(100); {
	case k < 16:
		put(c.t, d, id, endpoint, registry.Holder{Caller: fmt.Sprint("app", r.IntN(2)), Name: fmt.Sprint("n", r.IntN(4)),
			Live: r.IntN(4) == 0, Since: start})
		c.held[id] = endpoint
	case k < 22:
		remove(c.t, d, id)
		delete(c.held, id)
	case k < 24:
		_, err := d.Endpoints.EditEndpoint(endpoint, func(x *registry.Configured, _ bool) error { x.Endpoint.URL = ""; return nil })
		c.must(err)
		for q, e := range c.held {
			if e == endpoint {
				delete(c.held, q)
			}
		}
	case k < 32:
		_, err := d.Endpoints.EditEndpoint(endpoint, func(x *registry.Configured,
			_ bool) error {
			x.Endpoint.URL = fmt.Sprint("http://x/", n%3)
			return nil
		})
		c.must(err)
	case k < 38:
		c.subscriptions(d, n)
	case k < 42:
		c.profile(d, endpoint)
	case k < 46:
		name := fmt.Sprint("token", r.IntN(3))
		role := []registry.Role{registry.RoleAdmin, registry.RoleApp}[r.IntN(2)]
		if err := d.Tokens.PutToken(registry.Token{Name: name, Role: role}); errors.Is(err, registry.ErrExists) {
			keeps := r.IntN(4) > 0
			if err := d.Tokens.DeleteToken(name, keeps); !keeps || !errors.Is(err, registry.ErrLastToken) {
				c.must(err)
			}
		} else {
			c.must(err)
		}
	case k < 48:
		c.leases(d)
	case k < 50:
		c.rules(d, n)
	case k < 52:
		if i := r.IntN(len(c.stores)); !c.stays {
			c.restart(i)
		}
	default:
		c.record(d, endpoint)
	}
}

func (c *cluster) subscriptions(d *DB, n int) {
	state := registry.Active
	if c.random.IntN(4) == 0 {
		state = registry.Ended
	}
	for i := range 3 {
		_, err := d.Subscriptions.EditSubscription(fmt.Sprint("s", (n+i)%5), func(s *registry.Subscription, _ bool) error {
			s.State = state
			s.Deliveries++
			return nil
		})
		c.must(err)
	}
}

// leases makes sessions of two nodes join, live, and pass two leases to each other.
func (c *cluster) leases(d *DB) {
	r := c.random
	n := registry.Node{Name: fmt.Sprint("n", r.IntN(2)), Session: fmt.Sprint("s", r.IntN(2)), Applied: r.Uint64()}
	var err error
	switch r.IntN(7) {
	case 5, 6:
		url, timeout := []string{"", "http://x/"}[r.IntN(2)], registry.Duration(1+r.IntN(9))*registry.Duration(time.Second)
		_, err = d.Endpoints.EditEndpoint("leased", func(x *registry.Configured, _ bool) error {
			x.Endpoint.URL, x.Endpoint.Timeout = url, timeout
			return nil
		})
	case 0:
		err = d.Leases.Join(n)
	case 1:
		err = d.Leases.Beat(n)
	case 2:
		_, leases, readErr := d.Leases.Nodes()
		c.must(readErr)
		err = d.Leases.Release(n, leases)
	default:
		c.must(caughtUp(d))
		nodes, leases, readErr := d.Leases.Nodes()
		c.must(readErr)
		claims := []Claim{{Key: "shard/1"}, {Key: "shard/2"}, {Key: EndpointLease("leased")}}
		for i := range claims {
			for _, l := range leases {
				if l.Key == claims[i].Key {
					claims[i].Token = l.Token
				}
			}
			for _, x := range nodes {
				claims[i].Beats = x.Beats
			}
		}
		_, err = d.Leases.Take(n, claims)
	}
	if !errors.Is(err, scheduler.ErrFenced) && !errors.Is(err, registry.ErrNotFound) {
		c.must(err)
	}
}

func (c *cluster) rules(d *DB, n int) {
	id := fmt.Sprint("rule", n%3)
	e := registry.RuleEdit{Queue: []registry.AlertMessage{alertTo(id, fmt.Sprint("m", n))}}
	if c.random.IntN(3) == 0 {
		e.Remove = []string{id}
	} else {
		c.must(caughtUp(d))
		was, err := d.Rules.Rule(id)
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			c.t.Fatal(err)
		}
		state := registry.RuleState{Rows: n, Happened: was.State.Happened + 1, Events: []registry.RuleEvent{{Seq: uint64(n)}},
			Alerts: map[string]*registry.Alert{fmt.Sprint("k", n%4): {Summary: fmt.Sprint(n)}}}
		e.States = map[string]*registry.RuleChange{id: state.Since(&was.State)}
		e.Put = []registry.Rule{{ID: id, RuleSettings: registry.RuleSettings{Name: id}}}
	}
	c.must(d.Rules.EditRules(&e))
	_, err := d.Subscriptions.EditSubscription(alertReceiver(id), func(s *registry.Subscription, _ bool) error {
		if s.Drop = []uint64{s.Newest}; n%5 == 0 {
			s.State = registry.Ended
		}
		return nil
	})
	c.must(err)
	if d.replica == nil && e.Remove == nil {
		return // without a journal the caller sees to it that names are unique
	}
	if err := d.Rules.EditRules(&registry.RuleEdit{Put: []registry.Rule{{ID: "other",
		RuleSettings: registry.RuleSettings{Name: id}}}}); (err == nil) != (e.Remove != nil) {
		c.t.Fatalf("a second rule with the name %s: %v", id, err)
	} else if err == nil {
		c.must(d.Rules.EditRules(&registry.RuleEdit{Remove: []string{"other"}}))
	} else if !errors.Is(err, registry.ErrExists) {
		c.t.Fatal(err)
	}
}

func (c *cluster) profile(d *DB, endpoint string) {
	id := fmt.Sprint("p", c.random.IntN(2), endpoint)
	removes := c.random.IntN(4) == 0
	name := fmt.Sprint("profile ", c.random.IntN(3))
	var bounds registry.Bounds
	if c.random.IntN(2) == 0 {
		bounds = registry.Bounds{Caller: "app", TokenProfiles: 4, TokenBytes: 1 << 40}
	}
	_, err := d.Profiles.EditProfile(id, bounds, func(p *registry.Profile, found bool) error {
		if !found {
			p.Endpoint, p.Owner, p.CreatedAt = endpoint, "app", start
		}
		p.Name = name
		if p.Items = nil; !removes {
			p.Items = []registry.Item{{Query: "q1" + endpoint, When: registry.When{Predicted: true}},
				{Query: "q2" + endpoint, When: registry.When{Changed: "q1" + endpoint}}}
		}
		return nil
	})
	if p, ok := errors.AsType[*registry.Problem](err); ok && p.Kind == registry.KindQuota && bounds.TokenProfiles > 0 {
		return
	}
	c.must(err)
}

func (c *cluster) record(d *DB, endpoint string) {
	r := c.random
	c.slot++
	c.must(caughtUp(d)) // as the owner of an endpoint does
	b := scheduler.Batch{Slot: &scheduler.Slot{Endpoint: endpoint, Number: c.slot, Started: c.now}}
	var ids []string
	for id, e := range c.held {
		if e == endpoint {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids[:min(len(ids), 5)] {
		var values []string
		for range r.IntN(5) {
			values = append(values, fmt.Sprint("v", r.IntN(9), strings.Repeat("x", r.IntN(40))))
		}
		o := next(c.t, d, id, c.slot, bag(c.t, values...))
		if r.IntN(8) == 0 && o.Delta != nil {
			o.Delta.OldHash = "sha256:other" // another result than the stored one
		}
		o.Stats.State = []float64{r.Float64(), 1 / 3.0}
		b.Outcomes = append(b.Outcomes, o)
		b.Models = append(b.Models, rounds.Model{Query: id})
		b.Models[len(b.Models)-1].Week.All.Updates = r.Float64()
	}
	for i := range 2 {
		id := fmt.Sprint("p", i, endpoint)
		c.last[id]++
		state := []registry.RoundState{registry.RoundOpen, registry.RoundCaptured, registry.RoundExpired}[r.IntN(3)]
		b.Rounds = append(b.Rounds, registry.Round{Profile: id, Number: c.last[id], State: state, OpenedAt: c.now, EndedAt: c.now, Slot: c.slot,
			Intervals: []registry.Interval{{Query: "q1" + endpoint, First: c.slot, From: c.now, Done: &registry.Execution{At: c.now,
				Slot: c.slot}}}})
	}
	if r.IntN(2) == 0 {
		b.Health = &registry.Health{State: registry.HealthFailing, Failures: r.IntN(9), Since: c.now}
		b.Policy = &scheduler.PolicyState{Policy: "rr", State: []float64{r.Float64()}}
		b.Cohorts = []cohort.State{{Key: "a", At: c.now}, {Key: "b", Turn: r.Uint64()}}
	} else {
		b.DroppedCohorts = []string{"a"}
	}
	changes, err := d.Ledger.Record(endpoint, b)
	c.must(err)
	for _, x := range changes {
		if was, ok := c.seen[x.Offset]; ok {
			c.t.Fatalf("offset %d is that of a change of %s and of one of %s", x.Offset, was, x.Query)
		}
		c.seen[x.Offset] = x.Query
		if i := slices.IndexFunc(b.Outcomes, func(o scheduler.Outcome) bool { return o.Query == x.Query }); x.Delta != b.Outcomes[i].Delta {
			c.t.Fatalf("the change of %s has the delta of another one", x.Query)
		}
	}
}

// TestReplicas runs random commands on several stores with one journal. The stores end with
// the same content, though each restarts at other times and has its own settings. Every kind of
// command is among them, and every bucket gets entries.
func TestReplicas(t *testing.T) {
	defer func(n uint64) { compareEvery = n }(compareEvery)
	compareEvery = 100
	kinds, used := map[byte]int{}, map[string]int{}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := newCluster(t, seed, 3)
			for n := range 500 {
				c.step(n)
				if n%200 == 100 {
					c.everything(c.stores[c.random.IntN(len(c.stores))], n)
				}
				if n%20 == 0 {
					countBuckets(t, c.stores[0], used)
				}
			}
			settle(t, c.stores...)
			for _, d := range c.stores {
				check(t, d)
				expectSame(t, c.stores[0], d)
			}
			if seen := len(c.seen); seen < 50 {
				t.Fatalf("only %d changes", seen)
			}
			for _, e := range entriesOf(t, c.log) {
				kinds[e.Command[1]]++
			}
			t.Logf("%d entries, %d changes, journal at %d", len(dump(t, c.stores[0])), len(c.seen), c.stores[0].Applied())
		})
	}
	for k := range 256 {
		if newCommand(new(boltFile), byte(k)) != nil && kinds[byte(k)] == 0 {
			t.Errorf("no command of kind %q was applied: let cluster.step or cluster.everything make some", byte(k))
		}
	}
	if kinds[kindPurge] > 0 {
		used[string(bPurge)]++ // its entries may be gone before the next look
	}
	for name, n := range used {
		if n == 0 {
			t.Errorf("the bucket %s was always empty: let cluster.step or cluster.everything fill it", name)
		}
	}
}

// countBuckets counts the buckets of a store that are not empty.
func countBuckets(t *testing.T, d *DB, used map[string]int) {
	t.Helper()
	err := d.view(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			if k, _ := b.Cursor().First(); k != nil {
				used[string(name)]++
			} else {
				used[string(name)] += 0 // known, and empty
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReplicasTogether edits the same queries, subscriptions and endpoints on all stores at the
// same time. No edit is lost, and each is decided on the state to which it is applied.
func TestReplicasTogether(t *testing.T) {
	const writers, times = 3, 20
	c := newCluster(t, 1, 3)
	put(t, c.stores[0], "q", "e")
	var g sync.WaitGroup
	for w := range writers * len(c.stores) {
		d := c.stores[w%len(c.stores)]
		g.Go(func() {
			for range times {
				_, err1 := d.Queries.EditQuery("q", func(q *registry.Query, found bool) error {
					if !found {
						return errors.New("the query is gone")
					}
					q.Refreshes++
					return nil
				})
				_, err2 := d.Subscriptions.EditSubscription("s", func(s *registry.Subscription, _ bool) error {
					s.State = registry.Active
					s.Deliveries++
					return nil
				})
				_, err3 := d.Profiles.EditProfile("p", registry.Bounds{}, func(p *registry.Profile, _ bool) error {
					p.Endpoint, p.Items = "e", append(p.Items, registry.Item{Query: "q"})
					return nil
				})
				_, err4 := d.Endpoints.EditEndpoint("e", func(e *registry.Configured, _ bool) error {
					e.Endpoint.URL = "http://x/"
					e.Endpoint.Budget++
					return nil
				})
				if err := errors.Join(err1, err2, err3, err4); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	settle(t, c.stores...)
	want := uint64(writers * len(c.stores) * times)
	for _, d := range c.stores {
		expectSame(t, c.stores[0], d)
		q, err1 := d.Queries.Query("q")
		s, err2 := d.Subscriptions.Subscription("s")
		p, err3 := d.Profiles.Profile("p")
		e, err4 := d.Endpoints.Endpoint("e")
		base := registry.Endpoint{}.WithDefaults().Budget
		if err := errors.Join(err1, err2, err3, err4); err != nil || q.Refreshes != want || s.Deliveries != want ||
			uint64(len(p.Items)) != want || uint64(e.Budget-base) != want && uint64(e.Budget) != want {
			t.Fatalf("%d, %d, %d edits and a budget of %d, want %d: %v", q.Refreshes, s.Deliveries, len(p.Items), e.Budget, want, err)
		}
	}
}

// A lateJournal lets its reader see new entries only while it is open.
type lateJournal struct {
	journal.Journal
	open chan struct{}
}

func (j *lateJournal) Read(ctx context.Context, after journal.Position, f func(journal.Entry) error) error {
	return j.Journal.Read(ctx, after, func(e journal.Entry) error {
		if e.Seq > 1 {
			select {
			case <-j.open:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return f(e)
	})
}

// A node that has not applied the newest commands waits for them before it denies anything.
func TestLaggingReplica(t *testing.T) {
	log := memory.New("test")
	late := &lateJournal{openJournal(t, log), make(chan struct{})}
	a := open(t, t.TempDir(), Options{Journal: openJournal(t, log)})
	b := open(t, t.TempDir(), Options{Journal: late})
	put(t, a, "q_a", "city")
	step(t, a, "city", "q_a", 1, "x")
	second := step(t, a, "city", "q_a", 2, "y")[0]
	at := registry.Position{Epoch: second.Epoch, Seq: second.Seq}
	reads := map[string]func() error{
		"its query":     func() error { _, err := b.Queries.Query("q_a"); return err },
		"its position":  func() error { _, err := b.History.After("q_a", at, 1); return err },
		"an offset":     func() error { _, err := b.History.All(registry.Offset{Epoch: a.Epoch(), Seq: 2}, 1); return err },
		"its change":    func() error { _, err := b.History.Latest("q_a"); return err },
		"its status":    func() error { _, _, err := b.History.Current("q_a", true); return err },
		"a new edit":    func() error { _, err := b.Queries.EditQuery("q_a", mustExist); return err },
		"an empty edit": func() error { return expectHolder(b, "q_a") },
	}
	type done struct {
		name string
		err  error
	}
	all := make(chan done)
	for name, read := range reads {
		go func() { all <- done{name, read()} }()
	}
	select {
	case d := <-all:
		t.Errorf("%s was answered early: %v", d.name, d.err)
		all <- d
	case <-time.After(50 * time.Millisecond):
	}
	close(late.open)
	for range reads {
		if d := <-all; d.err != nil {
			t.Errorf("%s: %v", d.name, d.err)
		}
	}
	if _, err := b.History.After("q_a", registry.Position{Epoch: at.Epoch, Seq: 3}, 1); gap(err) != registry.Ahead {
		t.Errorf("a position that is ahead: %v", err)
	}
}

func mustExist(q *registry.Query, found bool) error {
	if !found {
		return registry.ErrNotFound
	}
	q.Refreshes++
	return nil
}

// expectHolder edits a query without effect and expects that the edit saw it.
func expectHolder(d *DB, id string) error {
	q, err := d.Queries.EditQuery(id, func(*registry.Query, bool) error { return nil })
	if err == nil && len(q.Holders) == 0 {
		err = errors.New("the edit did not see the query")
	}
	return err
}

// logOf returns a log with the given commands.
func logOf(t testing.TB, name string, commands ...journal.Entry) *memory.Log {
	t.Helper()
	l := memory.New(name)
	j := openJournal(t, l)
	for _, e := range commands {
		if _, err := j.Append(context.Background(), e.ID, e.Command); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// entriesOf returns what a log contains.
func entriesOf(t testing.TB, l *memory.Log) (list []journal.Entry) {
	t.Helper()
	j := openJournal(t, l)
	head, err := j.Head(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	err = j.Read(context.Background(), journal.Position{}, func(e journal.Entry) error {
		if list = append(list, e); e.Seq == head.Seq {
			return io.EOF
		}
		return nil
	})
	if err != io.EOF {
		t.Fatal(err)
	}
	return list
}

// A store refuses a journal that is not a continuation of what it has applied, and says why.
func TestForeignJournal(t *testing.T) {
	dir, log := t.TempDir(), memory.New("test")
	j := log.Open()
	d := open(t, dir, Options{Journal: j})
	for n := range 5 {
		put(t, d, fmt.Sprint("q", n), "city")
	}
	backup := filepath.Join(t.TempDir(), File)
	f, err := os.Create(backup)
	if err == nil {
		_, err = d.Backup(f)
	}
	if err := errors.Join(err, f.Close(), d.Close(), j.Close()); err != nil {
		t.Fatal(err)
	}
	list := entriesOf(t, log)
	altered := slices.Clone(list)
	altered[3].Command = slices.Clone(altered[3].Command)
	altered[3].Command[len(altered[3].Command)-1]++
	plain := t.TempDir()
	open(t, plain, Options{}).Close()
	for _, x := range []struct {
		name, dir string
		log       *memory.Log
		want      error
		says      string
	}{
		{"the same", dir, log, nil, ""},
		{"shortened", dir, logOf(t, "test", list[:3]...), journal.ErrShortened, "entries are missing at its end"},
		{"altered", dir, logOf(t, "test", append(altered, journal.Entry{ID: "more", Command: list[2].Command})...), journal.ErrForeign,
			"not the journal that this node has applied"},
		{"altered at the end", dir, logOf(t, "test", altered...), journal.ErrForeign, "not the journal that this node has applied"},
		{"another name", dir, logOf(t, "other", list...), journal.ErrForeign, "cluster.name"},
		{"another store", plain, log, errOther, "an empty data directory"},
		{"a backup", filepath.Dir(backup), log, nil, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			j := openJournal(t, x.log)
			d, err := Open(x.dir, Options{Journal: j})
			if err == nil {
				if d.Epoch() == "" {
					t.Error("no epoch")
				}
				err = d.Close()
			}
			if !errors.Is(err, x.want) || err != nil && !strings.Contains(err.Error(), x.says) {
				t.Fatalf("%v, want %v", err, x.want)
			}
		})
	}
}

// A store that had data before begins the journal. Other members start from its backup; an
// empty one is refused. A store that leaves the journal numbers in a new epoch.
func TestJournalOfExistingStore(t *testing.T) {
	dir, log := t.TempDir(), memory.New("test")
	d := open(t, dir, Options{})
	put(t, d, "q_a", "city")
	first := step(t, d, "city", "q_a", 1, "x")[0]
	seed := d.Seed()
	d = reopen(t, d, dir, Options{Journal: openJournal(t, log)})
	second := step(t, d, "city", "q_a", 2, "y")[0]
	if second.Epoch != first.Epoch || second.Seq != 2 || d.Seed() != seed {
		t.Fatalf("the journal did not continue the store: %+v after %+v", second, first)
	}
	if _, err := Open(t.TempDir(), Options{Journal: openJournal(t, log)}); !errors.Is(err, errEmpty) {
		t.Fatalf("an empty store joined: %v", err)
	}
	other := t.TempDir()
	f, err := os.Create(filepath.Join(other, File))
	if err == nil {
		_, err = d.Backup(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	step(t, d, "city", "q_a", 3, "z")
	b := open(t, other, Options{Journal: openJournal(t, log)})
	settle(t, d, b)
	expectSame(t, d, b)
	b = reopen(t, b, other, Options{})
	if b.Epoch() == d.Epoch() {
		t.Error("a store that left the journal continues its epoch")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(other, Options{Journal: openJournal(t, log)}); !errors.Is(err, errOther) {
		t.Errorf("a store that left the journal joined it again: %v", err)
	}
}

// The server that had data begins a journal, in whatever order its copies are opened. Copies of the
// same content join, and keep all positions. Others do not, and no copy begins a journal.
func TestJournalOfCopies(t *testing.T) {
	dir, log := t.TempDir(), memory.New("test")
	d := open(t, dir, Options{})
	put(t, d, "q_a", "city")
	early := filepath.Join(t.TempDir(), File) // a copy of the same run with less
	f, err := os.Create(early)
	if err == nil {
		_, err = d.Backup(f)
	}
	step(t, d, "city", "q_a", 1, "x")
	if err := errors.Join(err, f.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	copied := func() string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, File))
		to := t.TempDir()
		if err == nil {
			err = os.WriteFile(filepath.Join(to, File), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	first, second, alone := copied(), copied(), copied()
	for range 2 { // it remains a copy
		if _, err := Open(first, Options{Journal: openJournal(t, log), JournalWait: 10 * time.Millisecond}); !errors.Is(err, errCopy) {
			t.Fatalf("a copy began the journal: %v", err)
		}
	}
	opened := make(chan *DB)
	go func() {
		b, err := Open(first, Options{Journal: openJournal(t, log)})
		if err != nil {
			t.Error(err)
		}
		opened <- b
	}()
	d = open(t, dir, Options{Journal: openJournal(t, log)})
	b := <-opened
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() { b.Close() })
	changes := []registry.Change{step(t, b, "city", "q_a", 2, "y")[0]}
	c := open(t, second, Options{Journal: openJournal(t, log)})
	changes = append(changes, step(t, c, "city", "q_a", 3, "z")...)
	if changes[0].Seq != 2 || changes[1].Seq != 3 || changes[0].Epoch != changes[1].Epoch || !strings.HasPrefix(changes[0].Epoch,
		string(d.epoch)) {
		t.Errorf("%+v", changes)
	}
	if _, err := d.History.After("q_a", registry.Position{Epoch: changes[0].Epoch, Seq: 1}, 5); err != nil {
		t.Errorf("the positions before the journal are gone: %v", err)
	}
	settle(t, d, b, c)
	expectSame(t, d, b)
	expectSame(t, d, c)
	check(t, c)
	b = reopen(t, b, first, Options{Journal: openJournal(t, log)})
	if b.copied != "" {
		t.Error("a member counts as a copy")
	}
	if _, err := Open(filepath.Dir(early), Options{Journal: openJournal(t, log)}); !errors.Is(err, errOther) {
		t.Errorf("a copy with other content joined: %v", err)
	}
	own := open(t, alone, Options{})
	epoch := own.Epoch()
	if err := own.Close(); err != nil || epoch == d.Epoch() {
		t.Errorf("a copy outside the cluster continues its epoch: %v", err)
	}
	if _, err := Open(alone, Options{Journal: openJournal(t, log)}); !errors.Is(err, errOther) {
		t.Errorf("a copy that was in use joined: %v", err)
	}
}

// A command that no store can apply has no effect on any, and its caller learns why. A command
// in a form that is unknown stops the store.
func TestUnfitCommand(t *testing.T) {
	log := memory.New("test")
	j := openJournal(t, log)
	a, b := open(t, t.TempDir(), Options{Journal: openJournal(t, log)}), open(t, t.TempDir(), Options{Journal: openJournal(t, log)})
	long := strings.Repeat("x", 40_000)
	if err := a.Tokens.PutToken(registry.Token{Name: long}); err == nil {
		t.Error("a token with a name that is too long for a key was stored")
	}
	put(t, a, "q_a", "city")
	settle(t, a, b)
	expectSame(t, a, b)
	if _, err := j.Append(context.Background(), "future", []byte{commandVersion + 1, kindBatch}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := a.Watch(ctx); err == nil || !strings.Contains(err.Error(), "update this node") {
		t.Errorf("an unknown command: %v", err)
	}
	if _, err := a.Queries.EditQuery("q_a", mustExist); !errors.Is(err, ErrBroken) {
		t.Errorf("an edit after that: %v", err)
	}
	for _, kind := range "Rqpsfb" { // of earlier programs, which apply them in another way
		if _, err := b.decodeCommand(fmt.Appendf([]byte{commandVersion}, "%c{}", kind)); !errors.Is(err, replica.ErrForm) {
			t.Errorf("a command of kind %c: %v", kind, err)
		}
	}
}

// A journal of another version is refused.
func TestJournalOfAnotherVersion(t *testing.T) {
	log := memory.New("test")
	if _, err := openJournal(t, log).Append(context.Background(), "begin", []byte{commandVersion - 1, kindBegin, 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.TempDir(), Options{Journal: openJournal(t, log)}); !errors.Is(err, replica.ErrForm) {
		t.Errorf("%v", err)
	}
}

// The steps of a Record that a batch takes to the journal and back lose nothing.
func TestBatchForm(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_a", "city")
	o := next(t, d, "q_a", 7, bag(t, "x"))
	o.Turned = true
	o.Stats.Position = registry.Position{Epoch: "e-1"}
	o.Stats.Memory = registry.AnswerMemory{ETag: `"x"`, Vars: []string{"s"}}
	o.Stats.LastRun.How = policy.HowProbe
	outcomes, err := d.Ledger.prepareRest([]scheduler.Outcome{o, {Query: "q_b", Stats: policy.Stats{Failures: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{endpoint: "city", now: start, keep: Retention{Changes: 3, Age: time.Hour, Bytes: 9}, b: &scheduler.Batch{Space: 4,
		Outcomes: outcomes, DroppedCohorts: []string{"k"}}}
	form, err := encodeCommand(w)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.decodeCommand(form)
	if err != nil {
		t.Fatal(err)
	}
	again, err := encodeCommand(c)
	if err != nil || string(again) != string(form) {
		t.Fatalf("a batch changed on its way: %v\n%q\n%q", err, form, again)
	}
	for n := range len(form) {
		if _, err := d.decodeCommand(form[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(form), err)
		}
	}
}

// A step of the purge that was done already has no effect, even if the journal no longer knows
// its id.
func TestPurgeStepAgain(t *testing.T) {
	log := memory.New("test")
	j := openJournal(t, log)
	d := open(t, t.TempDir(), Options{Journal: openJournal(t, log)})
	steps := func() uint64 {
		n, err := fetch(d.boltFile, func(tx *bbolt.Tx) (uint64, error) { return number(tx.Bucket(bMeta).Get(kPurges)), nil })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for n := range 3 {
		put(t, d, "q_a", "city")
		remove(t, d, "q_a")
		settle(t, d)
		if steps() < uint64(n+1) {
			t.Fatalf("%d steps after %d removals", steps(), n+1)
		}
	}
	before := steps()
	form, err := encodeCommand(&purgeStep{Number: 1})
	if err == nil {
		_, err = j.Append(t.Context(), "stale", form)
	}
	if err != nil {
		t.Fatal(err)
	}
	settle(t, d)
	if steps() != before {
		t.Fatalf("step 1 was done again after step %d", before)
	}
}
