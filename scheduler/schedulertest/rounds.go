package schedulertest

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/rounds"
	"github.com/freshet/freshet/scheduler/update"
)

// PairProfile makes a profile for tests that asks for both queries each time the
// first one changes.
func PairProfile(id string, a, b registry.Query) registry.Profile {
	return registry.Profile{ID: id, Owner: registry.Anonymous, Endpoint: a.Endpoint, CreatedAt: start, Window: registry.Span{Slots: 3},
		Items: []registry.Item{{Query: a.ID, When: registry.When{Changed: a.ID}}, {Query: b.ID, When: registry.When{Changed: a.ID}}}}
}

func (b *bench) profiles() ProfileSeeder {
	s, ok := b.s.(ProfileSeeder)
	if !ok {
		b.t.Fatalf("%T keeps no profiles", b.s)
	}
	return s
}

func (b *bench) want(p registry.Profile) {
	b.t.Helper()
	if err := b.profiles().Want(p); err != nil {
		b.t.Fatalf("want: %v", err)
	}
}

func (b *bench) ends(id string) []registry.Round {
	b.t.Helper()
	list, err := b.profiles().Ends(id)
	if err != nil {
		b.t.Fatalf("ends: %v", err)
	}
	return list
}

// testProfiles checks that news contains all profiles of an endpoint once after one
// of them was edited.
func testProfiles(t *testing.T, b *bench) {
	q, r, other := b.register(alpha, "a"), b.register(alpha, "b"), b.register(beta, "c")
	rev := b.since(alpha, 0).Revision
	if n := b.since(alpha, rev); n.Reprofiled || n.Profiles != nil {
		t.Errorf("nothing happened: %+v", n)
	}
	b.want(PairProfile("p_2", q, r))
	b.want(PairProfile("p_1", q, q))
	b.want(PairProfile("p_3", other, other))
	n := b.since(alpha, rev)
	if !n.Reprofiled || len(n.Profiles) != 2 || n.Profiles[0].Profile.ID != "p_1" || len(n.Entries) != 0 {
		t.Fatalf("after two profiles: %+v", n)
	}
	b.same("the profile", n.Profiles[1].Profile, PairProfile("p_2", q, r))
	rev = n.Revision
	edited := PairProfile("p_2", q, r)
	edited.Weight = 2
	b.want(edited)
	if err := b.profiles().Unwant("p_1"); err != nil {
		t.Fatal(err)
	}
	n = b.since(alpha, rev)
	if !n.Reprofiled || len(n.Profiles) != 1 || n.Profiles[0].Profile.Weight != 2 {
		t.Errorf("after an edit and a removal: %+v", n)
	}
	if n := b.since(beta, rev); n.Reprofiled {
		t.Errorf("the other endpoint was told: %+v", n)
	}
}

func opened(p registry.Profile, number uint64, slot uint64) registry.Round {
	at := start.Add(time.Duration(slot) * time.Minute)
	r := registry.Round{Profile: p.ID, Number: number, State: registry.RoundOpen, OpenedAt: at, Slot: slot,
		Trigger: registry.Cause{Query: p.Items[0].Query}}
	for _, i := range p.Items {
		r.Intervals = append(r.Intervals, registry.Interval{Query: i.Query, From: at, First: slot, Last: slot + 3,
			Cause: registry.Cause{Query: p.Items[0].Query}})
	}
	return r
}

func done(r registry.Round, item int, slot uint64) registry.Round {
	r.Intervals = append([]registry.Interval(nil), r.Intervals...)
	r.Intervals[item].Done = &registry.Execution{At: start.Add(time.Duration(slot) * time.Minute), Slot: slot, Why: plan.TierInterval}
	return r
}

// testRounds checks that a round is recorded together with the executions that open,
// advance and end it. Its positions are those of the batch and do not change.
func testRounds(t *testing.T, b *bench) {
	q, r := b.register(alpha, "a"), b.register(alpha, "b")
	p := PairProfile("p_1", q, r)
	b.want(p)
	one, two, three := Rows(t, "1"), Rows(t, "2"), Rows(t, "3")
	b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(q.ID, 1, nil, one), outcome(r.ID, 1, nil, one)}})
	first := done(opened(p, 1, 2), 0, 2)
	b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(q.ID, 2, one, two)}, Rounds: []registry.Round{first}})
	n := b.since(alpha, 0).Profiles[0]
	if n.Rounds != 1 || n.Slot != 2 || !n.Opened.Equal(first.OpenedAt) || len(n.Open) != 1 {
		t.Fatalf("after the opening: %+v", n)
	}
	at := b.entry(alpha, q.ID).Stats.Position
	if x := n.Open[0]; x.Trigger.Position != at || x.Intervals[0].Done == nil || x.Intervals[0].Done.Position != at ||
		x.Intervals[1].Done != nil || x.Intervals[1].Cause.Position != at {
		t.Errorf("the open round: %+v, want positions %v", x, at)
	}
	// The first query changes again; the positions that captured its interval stay.
	b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(q.ID, 3, two, three)}, Rounds: []registry.Round{opened(p, 2, 3)}})
	end := done(first, 1, 3)
	end.State, end.EndedAt, end.EndedSlot = registry.RoundCaptured, start.Add(3*time.Minute), 3
	b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(r.ID, 3, one, nil)}, Rounds: []registry.Round{end}})
	lost := opened(p, 2, 3)
	lost.State, lost.Reason, lost.EndedAt = registry.RoundExpired, "why", start.Add(7*time.Minute)
	b.record(alpha, scheduler.Batch{Rounds: []registry.Round{lost}})
	// A round that has ended does not change.
	b.record(alpha, scheduler.Batch{Rounds: []registry.Round{end, lost, opened(p, 1, 2)}})
	ends := b.ends(p.ID)
	if len(ends) != 2 || ends[0].State != registry.RoundCaptured || ends[1].State != registry.RoundExpired || ends[1].Reason != "why" {
		t.Fatalf("ends: %+v", ends)
	}
	if ends[0].Position.Seq != 1 || ends[0].Position.Epoch == "" || ends[1].Position.Seq != 0 {
		t.Errorf("positions: %v, %v", ends[0].Position, ends[1].Position)
	}
	if got := ends[0].Intervals[0].Done.Position; got != at {
		t.Errorf("the first interval was captured at %v, and now says %v", at, got)
	}
	if got, want := ends[0].Intervals[1].Done.Position, b.entry(alpha, r.ID).Stats.Position; got != want {
		t.Errorf("the second interval: %v, want %v", got, want)
	}
	if n := b.since(alpha, 0).Profiles[0]; len(n.Open) != 0 || n.Rounds != 2 {
		t.Errorf("in the end: %+v", n)
	}
}

// testForeignRounds checks that the ledger skips rounds of removed profiles, and of
// an older profile with the same id.
func testForeignRounds(t *testing.T, b *bench) {
	q := b.register(alpha, "a")
	p := PairProfile("p_1", q, q)
	b.want(p)
	if err := b.profiles().Unwant(p.ID); err != nil {
		t.Fatal(err)
	}
	b.record(alpha, scheduler.Batch{Rounds: []registry.Round{opened(p, 1, 2)}})
	p.CreatedAt = start.Add(time.Hour)
	b.want(p)
	b.record(alpha, scheduler.Batch{Rounds: []registry.Round{opened(p, 9, 2)}})
	if n := b.since(alpha, 0).Profiles; len(n) != 1 || n[0].Rounds != 0 || len(n[0].Open) != 0 {
		t.Errorf("a round of the one before: %+v", n)
	}
}

// testRoundsOfClockAhead checks that the ledger tells a profile from an earlier one of the same id by when each was
// made, however far the clock was ahead then.
func testRoundsOfClockAhead(t *testing.T, b *bench) {
	q := b.register(alpha, "a")
	p := PairProfile("p_1", q, q)
	earlier := opened(p, 1, 2)
	earlier.ProfileCreatedAt = p.CreatedAt.Add(-time.Hour)
	p.CreatedAt = start.Add(24 * time.Hour)
	b.want(p)
	r := opened(p, 1, 2)
	r.ProfileCreatedAt = p.CreatedAt
	b.record(alpha, scheduler.Batch{Rounds: []registry.Round{r}})
	n := b.since(alpha, 0).Profiles
	if len(n) != 1 || n[0].Rounds != 1 || len(n[0].Open) != 1 || !n[0].Open[0].ProfileCreatedAt.IsZero() {
		t.Fatalf("a round that opened: %+v", n)
	}
	earlier.State = registry.RoundExpired
	b.record(alpha, scheduler.Batch{Rounds: []registry.Round{earlier}})
	if n := b.since(alpha, 0).Profiles; len(n) != 1 || len(n[0].Open) != 1 {
		t.Errorf("the end of one of an earlier profile: %+v", n)
	}
	r.State = registry.RoundExpired
	b.record(alpha, scheduler.Batch{Rounds: []registry.Round{r}})
	if list := b.ends(p.ID); len(list) != 1 || len(b.since(alpha, 0).Profiles[0].Open) != 0 {
		t.Errorf("the end of the round: %+v", list)
	}
}

// testModels checks that models are loaded with the profiles that predict their
// queries, and removed with the queries.
func testModels(t *testing.T, b *bench) {
	q, r := b.register(alpha, "a"), b.register(alpha, "b")
	p := PairProfile("p_1", q, r)
	p.Items[0].When = registry.When{Predicted: true}
	b.want(p)
	m := []rounds.Model{{Query: q.ID, Week: update.Week{All: update.Counter{Updates: 3, Watched: 7}}},
		{Query: r.ID, Week: update.Week{All: update.Counter{Updates: 1}}}}
	m[0].Week.Hour[9].Updates = 2
	b.record(alpha, scheduler.Batch{Models: append(m, rounds.Model{Query: "q_gone"})})
	b.same("the models", b.since(alpha, 0).Models, m[:1])
	if err := b.s.Remove(q.ID); err != nil {
		t.Fatal(err)
	}
	b.register(alpha, "a")
	if n := b.since(alpha, 0); len(n.Models) != 0 {
		t.Errorf("of a query registered again: %+v", n.Models)
	}
}

// testExpectations checks that the time of an expected change is recorded by item,
// and remains after the round that it began or opened has ended.
func testExpectations(t *testing.T, b *bench) {
	q, r := b.register(alpha, "a"), b.register(alpha, "b")
	p := PairProfile("p_1", q, r)
	p.Items[0].When, p.Items[1].When = registry.When{Predicted: true}, registry.When{Predicted: true}
	b.want(p)
	first := opened(p, 1, 2)
	first.Intervals[1] = registry.Interval{Query: r.ID}
	b.record(alpha, scheduler.Batch{Slot: &scheduler.Slot{Number: 2}, Rounds: []registry.Round{first}})
	next := done(first, 0, 5)
	at := first.OpenedAt.Add(3 * time.Minute)
	next.Intervals[1].From, next.Intervals[1].Until = at, at.Add(time.Hour)
	b.record(alpha, scheduler.Batch{Slot: &scheduler.Slot{Number: 5}, Rounds: []registry.Round{next}})
	end := done(next, 1, 6)
	end.State, end.EndedAt, end.EndedSlot = registry.RoundCaptured, at.Add(time.Minute), 6
	b.record(alpha, scheduler.Batch{Slot: &scheduler.Slot{Number: 6}, Rounds: []registry.Round{end}})
	n := b.since(alpha, 0).Profiles[0]
	if len(n.Expected) != 2 || n.Expected[0].Slot != 2 || !n.Expected[0].At.Equal(first.OpenedAt) || n.Expected[1].Slot != 5 ||
		!n.Expected[1].At.Equal(at) {
		t.Errorf("expected %+v", n.Expected)
	}
}
