// Tests that the journal carries every kind of command, with all that it contains.

package store

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/proof"
	"github.com/freshet/freshet/scheduler/rounds"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
	"github.com/freshet/freshet/store/replica"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

// full returns a value in which every field is set. Values with another salt differ in all fields.
func full[T any](salt int) T {
	var v T
	n := 1000 * salt
	fill(reflect.ValueOf(&v).Elem(), &n)
	return v
}

// everything makes one command of each kind that callers have, with every field set, on the n-th
// call with other values.
func (c *cluster) everything(d *DB, n int) {
	c.t.Helper()
	const endpoint = "full"
	query, profile := fmt.Sprint("q_full", n), fmt.Sprint("p_full", n) // what is asked never changes
	must := func(_ any, err error) {
		c.t.Helper()
		c.must(err)
	}
	must(d.Endpoints.EditEndpoint(endpoint, func(x *registry.Configured, _ bool) error {
		*x = full[registry.Configured](n)
		x.Endpoint.Name, x.File.Name = endpoint, endpoint
		return nil
	}))
	must(d.Queries.EditQuery(query, func(q *registry.Query, _ bool) error {
		*q = full[registry.Query](n)
		q.ID, q.Endpoint, q.Merged = query, endpoint, false
		return nil
	}))
	must(d.Profiles.EditProfile(profile, registry.Bounds{}, func(p *registry.Profile, _ bool) error {
		*p = full[registry.Profile](n)
		p.ID, p.Endpoint, p.Owner = profile, endpoint, "app"
		for i := range p.Items { // one of each form
			p.Items[i].Query = query
			switch w := &p.Items[i].When; i {
			case 0:
				*w = registry.When{Every: w.Every, Slack: w.Slack}
			case 1:
				*w = registry.When{Changed: w.Changed, Where: w.Where, Within: w.Within}
			default:
				*w = registry.When{Predicted: true, Within: w.Within}
			}
		}
		return nil
	}))
	must(d.Subscriptions.EditSubscription("full", func(s *registry.Subscription, _ bool) error {
		*s = full[registry.Subscription](n)
		s.ID, s.State = "full", registry.Active
		s.Stored, s.Bytes = 0, 0 // no messages wait
		return nil
	}))
	token := full[registry.Token](n)
	c.must(d.Tokens.PutToken(token))
	rule, message := full[registry.Rule](n), full[registry.AlertMessage](n)
	rule.ID, message.Rule = "full", "full"
	state := full[registry.RuleChange](n)
	c.must(caughtUp(d))
	was, err := d.Rules.Rule(rule.ID)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		c.t.Fatal(err)
	}
	state.Version, state.Happened, state.Kept = was.State.Version+1, uint64(n), len(state.Events)
	c.must(d.Rules.EditRules(&registry.RuleEdit{Put: []registry.Rule{rule}, States: map[string]*registry.RuleChange{"full": &state},
		Queue: []registry.AlertMessage{message}, Remove: []string{"none"}}))
	node := full[registry.Node](n)
	c.must(d.Leases.Join(node))
	c.must(d.Leases.Beat(node))
	must(d.Leases.Take(node, []Claim{{Key: fmt.Sprint("shard/full", n)}}))
	c.must(d.Ledger.RecordFeed(scheduler.FeedBatch{Feed: "full", State: proof.Feed{Cursor: fmt.Sprint(n)},
		Touched: map[string]proof.Touch{query: {Feed: "full"}}}))
	must(d.Secret("full", func() string { return fmt.Sprint("secret ", n) }))
	c.batch(d, endpoint, query, profile, n)
}

// batch records a batch in which every field is set.
func (c *cluster) batch(d *DB, endpoint, query, profile string, n int) {
	c.t.Helper()
	c.must(caughtUp(d))
	slot, health, learnt := full[scheduler.Slot](n), full[registry.Health](n), full[scheduler.PolicyState](n)
	slot.Endpoint, slot.Number = endpoint, uint64(n)
	o := next(c.t, d, query, uint64(n), bag(c.t, fmt.Sprint("value ", n)))
	stats := full[policy.Stats](n)
	stats.Hash, stats.Position = o.Stats.Hash, o.Stats.Position
	o.Stats, o.Turned = stats, true
	o.Edits = []registry.DataEdit{full[registry.DataEdit](n)}
	round := full[registry.Round](n)
	round.Profile, round.Number, round.State = profile, uint64(n), registry.RoundCaptured
	made, err := d.Profiles.Profile(profile)
	c.must(err)
	round.ProfileCreatedAt = made.CreatedAt
	for i := range round.Intervals {
		round.Intervals[i].Query = query
	}
	model := full[rounds.Model](n)
	model.Query = query
	proved := full[proof.Endpoint](n)
	b := scheduler.Batch{Outcomes: []scheduler.Outcome{o}, Slot: &slot, Health: &health, Policy: &learnt,
		Cohorts:        []cohort.State{full[cohort.State](n)},
		DroppedCohorts: []string{"none"}, Rounds: []registry.Round{round}, Models: []rounds.Model{model}, Proof: &proved,
		Beside: &scheduler.Beside{Slot: 2, Seconds: 1.5}}
	var known bool
	c.must(d.view(func(tx *bbolt.Tx) error {
		var s storedSpace
		s, known = findSpace(tx, endpoint)
		b.Space = s.number
		return nil
	}))
	for _, v := range []any{b, b.Outcomes[0]} {
		if f := unset(v); !known || len(f) > 0 {
			c.t.Fatalf("the fields %v of %T are not set: set them", f, v)
		}
	}
	changes, err := d.Ledger.Record(endpoint, b)
	c.must(err)
	if len(changes) != 1 {
		c.t.Fatalf("%d changes", len(changes))
	}
}

// unset returns the fields of a struct that are zero.
func unset(v any) (names []string) {
	s := reflect.ValueOf(v)
	for i := range s.NumField() {
		if name := s.Type().Field(i).Name; s.Field(i).IsZero() && name != "Prepared" { // which Record sets
			names = append(names, name)
		}
	}
	return names
}

// TestJournalKeepsEverything runs the same commands on a store without a journal and on one that
// has nothing but what the journal carries. They end with the same content, so no command lacks
// anything in its form in the journal.
func TestJournalKeepsEverything(t *testing.T) {
	const seed, steps = 20261123, 300
	t.Logf("seed %d", seed)
	origin := beginning{Epoch: "epoch", Seed: 7}
	log := memory.New("test")
	form, err := encodeCommand(&origin)
	if err == nil {
		_, err = openJournal(t, log).Append(t.Context(), "begin", form)
	}
	if err != nil {
		t.Fatal(err)
	}
	with := newClusterOn(t, func(int) journal.Journal { return openJournal(t, log) }, seed, 2)
	with.stores = with.stores[:1] // commands are made at one; the other one only follows
	without := newClusterOn(t, nil, seed, 1)
	without.must(without.stores[0].update(func(tx *bbolt.Tx) error {
		m := tx.Bucket(bMeta)
		return errors.Join(m.Put(kEpoch, []byte(origin.Epoch)), m.Put(kSeed, key8(origin.Seed)))
	}))
	without.restart(0)
	with.stays, without.stays = true, true // a store without a journal has no leases after a restart
	for _, c := range []*cluster{without, with} {
		for n := range steps {
			if n%100 == 50 {
				c.everything(c.stores[0], n)
			}
			c.step(n)
			settle(t, c.stores[0]) // retention counts what is not purged, and the purge takes its own time
		}
		c.everything(c.stores[0], steps)
	}
	with.stores = with.stores[:2]
	settle(t, with.stores...)
	settle(t, without.stores...)
	want := dump(t, without.stores[0])
	for _, d := range with.stores {
		got := dump(t, d)
		for _, key := range [][]byte{replica.Applied, kPurges, replica.State} { // what only journals need
			delete(got, fmt.Sprintf("%s/%x", bMeta, key))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("the store with a journal (+) differs:\n%s", d)
		}
		check(t, d)
	}
}
