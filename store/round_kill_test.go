//go:build unix

package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// captureForever records one batch in each slot: a change of two queries, the round that the
// change of the first one opens, and the end of the previous round, which the second one
// completes. Every third round expires instead.
func captureForever(d *DB) error {
	if err := registerChild(d); err != nil {
		return err
	}
	_, err := d.Profiles.EditProfile("p_x", registry.Bounds{}, func(p *registry.Profile, _ bool) error {
		p.Endpoint, p.Window, p.Owner = "city", registry.Span{Slots: 3}, "app"
		p.Items = []registry.Item{{Query: "q_a", When: registry.When{Changed: "q_a"}}, {Query: "q_b", When: registry.When{Changed: "q_a"}}}
		return nil
	})
	if err != nil {
		return err
	}
	n, err := d.Ledger.Since("city", 0)
	for slot := n.Last.Number + 1; err == nil; slot++ {
		if err = captureSlot(d, slot); err == nil {
			_, err = fmt.Println(slot)
		}
	}
	return err
}

func roundOf(slot uint64) registry.Round {
	at := start.Add(time.Duration(slot) * time.Minute)
	done := &registry.Execution{At: at, Slot: slot, Why: "interval"}
	return registry.Round{Profile: "p_x", Number: slot, State: registry.RoundOpen, OpenedAt: at, Slot: slot,
		Trigger:   registry.Cause{Query: "q_a"},
		Intervals: []registry.Interval{{Query: "q_a", First: slot, Last: slot + 3, Done: done}, {Query: "q_b", First: slot, Last: slot + 3}}}
}

func captureSlot(d *DB, slot uint64) error {
	b := scheduler.Batch{Slot: &scheduler.Slot{Endpoint: "city", Number: slot}, Rounds: []registry.Round{roundOf(slot)}}
	for _, id := range []string{"q_a", "q_b"} {
		stats, err := d.Catalog.Stats(id)
		if err != nil {
			return err
		}
		old, err := d.Ledger.Result(id)
		if err != nil {
			return err
		}
		now, err := rows(valuesAt(id, slot)...)
		if err != nil {
			return err
		}
		b.Outcomes = append(b.Outcomes, outcome(stats, old, id, slot, now))
	}
	if slot > 1 {
		r := roundOf(slot - 1)
		r.State, r.EndedSlot, r.EndedAt = registry.RoundExpired, slot, start.Add(time.Duration(slot)*time.Minute)
		if slot%3 > 0 {
			r.State = registry.RoundCaptured
			r.Intervals[1].Done = &registry.Execution{At: r.EndedAt, Slot: slot, Why: "interval"}
		}
		b.Rounds = append(b.Rounds, r)
	}
	_, err := d.Ledger.Record("city", b)
	return err
}

// TestKillRounds kills a capturing process at random moments. A round exists exactly if the
// executions exist that open and end it, and no capture is lost or numbered twice.
func TestKillRounds(t *testing.T) {
	const seed, kills = 20261122, 20
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	most := uint64(0)
	for range kills {
		acknowledged := killOnce(t, "rounds", dir, random.IntN(8), time.Duration(random.IntN(12_000))*time.Microsecond)
		d := open(t, dir, Options{})
		check(t, d)
		most = max(most, expectRounds(t, d, acknowledged))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d slots", most)
}

func expectRounds(t *testing.T, d *DB, acknowledged uint64) uint64 {
	t.Helper()
	n, err := d.Ledger.Since("city", 0)
	if err != nil {
		t.Fatal(err)
	}
	last := n.Last.Number
	if last < acknowledged || acknowledged > 0 && last > acknowledged+1 {
		t.Fatalf("slot %d was acknowledged, %d is the last that is there", acknowledged, last)
	}
	if last == 0 {
		return 0
	}
	if len(n.Profiles) != 1 || n.Profiles[0].Rounds != last || len(n.Profiles[0].Open) != 1 {
		t.Fatalf("at slot %d: %+v", last, n.Profiles)
	}
	at := d.epoch.of(1)
	if x := n.Profiles[0].Open[0]; x.Number != last || x.Intervals[0].Done.Position.Seq != last || x.Trigger.Seq != last ||
		x.Intervals[1].Done != nil {
		t.Fatalf("at slot %d the open round is %+v (%s)", last, x, at)
	}
	s, err := d.Rounds.ProfileStatus("p_x")
	if err != nil {
		t.Fatal(err)
	}
	captured := uint64(0)
	for slot := uint64(2); slot <= last; slot++ {
		if slot%3 > 0 {
			captured++
		}
	}
	if s.Seq != captured || s.Seq+s.Expired != last-1 {
		t.Fatalf("at slot %d: %+v, want %d captures", last, s, captured)
	}
	from, err := d.Rounds.EndOf("p_x", registry.Position{Epoch: s.Epoch, Seq: captured})
	if captured > 0 && (err != nil || from == 0) {
		t.Fatalf("the last capture is not to be found: %v", err)
	}
	ends, _, err := d.Rounds.Rounds("p_x", registry.RoundCaptured, 0, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range ends { // the newest ones, which retention keeps
		if r.Position.Seq != captured-uint64(i) || r.Intervals[0].Done.Position.Seq != r.Number ||
			r.Intervals[1].Done.Position.Seq != r.Number+1 {
			t.Fatalf("round %d is capture %d of results %v and %v", r.Number, r.Position.Seq, r.Intervals[0].Done.Position,
				r.Intervals[1].Done.Position)
		}
	}
	return last
}
