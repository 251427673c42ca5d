// Tests of batches and results that are larger than a command of the journal may be.

package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
)

// noise returns a result that takes about n bytes when it is stored.
func noise(t testing.TB, random *rand.Rand, n int) *diff.Result {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + random.IntN(26))
	}
	return bag(t, string(b))
}

// A batch that is larger than a command is recorded by several. The slot ends with the last one.
func TestLargeBatch(t *testing.T) {
	const seed, queries = 3, 12
	random := rand.New(rand.NewPCG(seed, 1))
	log := memory.New("test")
	a, b := open(t, t.TempDir(), Options{Journal: openJournal(t, log)}), open(t, t.TempDir(), Options{Journal: openJournal(t, log)})
	a.replica.SetLargest(3 << 20)
	batch := scheduler.Batch{Slot: &scheduler.Slot{Endpoint: "city", Number: 1, Started: start, Finished: start.Add(time.Minute)}}
	for i := range queries {
		id := fmt.Sprint("q_", i)
		put(t, a, id, "city")
		size := 300_000
		if i == 5 {
			size = 1_000_000 // more than a part
		}
		batch.Outcomes = append(batch.Outcomes, next(t, a, id, 1, noise(t, random, size)))
	}
	put(t, a, "q_same", "city")
	batch.Outcomes = append(batch.Outcomes, scheduler.Outcome{Query: "q_same", At: start})
	batch.Rounds = []registry.Round{}
	before := len(entriesOf(t, log))
	changes, err := a.Ledger.Record("city", batch)
	if err != nil || len(changes) != queries {
		t.Fatalf("seed %d: %d changes: %v", seed, len(changes), err)
	}
	for i, c := range changes {
		if c.Query != batch.Outcomes[i].Query || c.Offset != uint64(i+1) || c.Delta != batch.Outcomes[i].Delta {
			t.Errorf("change %d is that of %s with the offset %d", i, c.Query, c.Offset)
		}
	}
	if n := len(entriesOf(t, log)) - before; n < 3 {
		t.Errorf("%d commands", n)
	}
	for _, e := range entriesOf(t, log)[before:] {
		if int64(len(e.Command)) > a.replica.Largest() {
			t.Errorf("a command of %d bytes", len(e.Command))
		}
	}
	settle(t, a, b)
	expectSame(t, a, b)
	check(t, b)
	slots, err := b.History.Slots("city", 5)
	if err != nil || len(slots) != 1 || slots[0].Finished.IsZero() {
		t.Errorf("%+v %v", slots, err)
	}
}

// A stuckJournal takes only some commands.
type stuckJournal struct {
	journal.Journal
	takes atomic.Int64
}

func (j *stuckJournal) Append(ctx context.Context, id string, cmd []byte) (uint64, error) {
	if j.takes.Add(-1) < 0 {
		return 0, errors.New("stuck")
	}
	return j.Journal.Append(ctx, id, cmd)
}

// If a later part of a batch is not recorded, the changes of those before are returned, so that their followers learn of them.
func TestLargeBatchInPart(t *testing.T) {
	const queries = 8
	random := rand.New(rand.NewPCG(4, 1))
	j := &stuckJournal{Journal: openJournal(t, memory.New("test"))}
	j.takes.Store(1 << 40)
	d := open(t, t.TempDir(), Options{Journal: j})
	d.replica.SetLargest(3 << 20)
	batch := scheduler.Batch{Slot: &scheduler.Slot{Endpoint: "city", Number: 1, Started: start, Finished: start.Add(time.Minute)}}
	for i := range queries {
		put(t, d, fmt.Sprint("q_", i), "city")
		batch.Outcomes = append(batch.Outcomes, next(t, d, fmt.Sprint("q_", i), 1, noise(t, random, 1_000_000)))
	}
	j.takes.Store(3)
	changes, err := d.Ledger.Record("city", batch)
	j.takes.Store(1 << 40)
	if err == nil {
		t.Fatal("all parts are recorded")
	}
	all, e := d.History.All(registry.Offset{}, queries)
	if e != nil || len(all) == 0 || len(changes) != len(all) {
		t.Errorf("%d changes are recorded, %v; Record returned %d, %v", len(all), e, len(changes), err)
	}
}

// What a batch records besides results may need several commands, too. The slot ends with the last
// one. A write that is too large and cannot be divided has no effect, and the store goes on.
func TestLargeCommand(t *testing.T) {
	const queries = 40
	log := memory.New("test")
	a, b := open(t, t.TempDir(), Options{Journal: openJournal(t, log)}), open(t, t.TempDir(), Options{Journal: openJournal(t, log)})
	batch := scheduler.Batch{Slot: &scheduler.Slot{Endpoint: "city", Number: 1, Started: start, Finished: start.Add(time.Minute)}}
	for i := range queries {
		id := fmt.Sprint("q_", i)
		put(t, a, id, "city")
		o := scheduler.Outcome{Query: id, At: start}
		if i < 3 {
			o = next(t, a, id, 1, bag(t, "x"))
			var err error
			if o.Prepared, err = a.Ledger.Prepare(nil, o.Result, o.Delta); err != nil {
				t.Fatal(err)
			}
		}
		o.Stats.LastRun.Error = strings.Repeat("e", 500)
		batch.Outcomes = append(batch.Outcomes, o)
		batch.Cohorts = append(batch.Cohorts, cohort.State{Key: id + strings.Repeat("k", 500)})
		batch.DroppedCohorts = append(batch.DroppedCohorts, fmt.Sprint("old", i)+strings.Repeat("k", 500))
		batch.Models = append(batch.Models, rounds.Model{Query: id})
	}
	a.replica.SetLargest(8 << 10)
	before := len(entriesOf(t, log))
	changes, err := a.Ledger.Record("city", batch)
	if err != nil || len(changes) != 3 || changes[2].Query != "q_2" || changes[2].Seq != 1 {
		t.Fatalf("%+v %v", changes, err)
	}
	list := entriesOf(t, log)[before:]
	for _, e := range list {
		if int64(len(e.Command)) > a.replica.Largest() {
			t.Errorf("a command of %d bytes", len(e.Command))
		}
	}
	settle(t, a, b)
	expectSame(t, a, b)
	check(t, b)
	news, err := b.Ledger.Since("city", 0)
	if err != nil || len(list) < 8 || len(news.Entries) != queries || len(news.Cohorts) != queries || news.Last.Finished.IsZero() {
		t.Errorf("%d commands, %d queries, %d cohorts, slot %+v: %v", len(list), len(news.Entries), len(news.Cohorts), news.Last, err)
	}
	for _, e := range news.Entries {
		if e.Stats.LastRun.Error == "" {
			t.Errorf("%s was not recorded", e.Query.ID)
		}
	}
	name := func(size int) func(*registry.Subscription, bool) error {
		return func(s *registry.Subscription, found bool) error {
			s.Name = strings.Repeat("n", size)
			return active(s, found)
		}
	}
	_, large := a.Subscriptions.EditSubscription("s1", name(10_000))
	for what, err := range map[string]error{
		"a subscription": large,
		"a token":        a.Tokens.PutToken(registry.Token{Name: strings.Repeat("t", 10_000)}),
	} {
		if !errors.Is(err, registry.ErrTooLarge) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := a.Subscriptions.Subscriptions("", 9); len(list) > 0 || err != nil {
		t.Errorf("%v %v", list, err)
	}
	if _, err := a.Subscriptions.EditSubscription("s1", name(5000)); err != nil {
		t.Error(err)
	}
	settle(t, a, b)
	expectSame(t, a, b)
}

// A result or delta that could not be read back is refused before it is recorded, also without a journal.
func TestLargestValue(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	d := open(t, t.TempDir(), Options{})
	d.pack.most = 10_000
	small, large := noise(t, random, 4000), noise(t, random, 12_000)
	repeated := bag(t, strings.Repeat("a", 12_000)) // a few bytes when it is packed
	for _, x := range []struct {
		what     string
		old, new *diff.Result
		want     error
	}{
		{"a small result", nil, small, nil},
		{"a large result", nil, large, scheduler.ErrTooLarge},
		{"one that is small when packed", nil, repeated, scheduler.ErrTooLarge},
		{"a large delta to a small result", repeated, small, scheduler.ErrTooLarge},
	} {
		if _, err := d.Ledger.Prepare(nil, x.new, diff.Compare(x.old, x.new)); !errors.Is(err, x.want) {
			t.Errorf("%s: %v", x.what, err)
		}
	}
	put(t, d, "q_a", "city")
	o := outcome(policy.Stats{}, nil, "q_a", 1, repeated)
	if _, err := d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{o}}); !errors.Is(err, scheduler.ErrTooLarge) {
		t.Errorf("recorded without being prepared: %v", err)
	}
	if r, err := d.Ledger.Result("q_a"); r != nil || err != nil {
		t.Errorf("a result is there: %t, %v", r != nil, err)
	}
}

// A result that no command has room for is refused before it is recorded.
func TestLargeResult(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	a := open(t, t.TempDir(), Options{Journal: openJournal(t, memory.New("test"))})
	a.replica.SetLargest(100_000)
	for size, want := range map[int]error{10_000: nil, 100_000: scheduler.ErrTooLarge} {
		r := noise(t, random, size)
		if _, err := a.Ledger.Prepare(nil, r, diff.Compare(nil, r)); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
