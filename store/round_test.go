package store

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

func addProfile(t *testing.T, d *DB, id, endpoint, name string, queries ...string) {
	t.Helper()
	_, err := d.Profiles.EditProfile(id, registry.Bounds{}, func(p *registry.Profile, _ bool) error {
		p.Endpoint, p.Name, p.Owner, p.CreatedAt = endpoint, name, "app", start
		for _, q := range queries {
			p.Items = append(p.Items, registry.Item{Query: q, When: registry.When{Changed: q}})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func endRound(t *testing.T, d *DB, id string, number uint64, state registry.RoundState) {
	t.Helper()
	at := start.Add(time.Duration(number) * time.Hour)
	r := registry.Round{Profile: id, Number: number, State: state, OpenedAt: at, EndedAt: at, Intervals: []registry.Interval{{Query: "q"}}}
	if _, err := d.Ledger.Record("city", scheduler.Batch{Rounds: []registry.Round{r}}); err != nil {
		t.Fatal(err)
	}
}

// The bounds of the change log apply to ended rounds. A log that does not reach back far
// enough says so.
func TestRoundRetention(t *testing.T) {
	now := start
	d := open(t, t.TempDir(), Options{Retention: Retention{Changes: 5, Age: 100 * time.Hour}, Now: func() time.Time { return now }})
	addProfile(t, d, "p_1", "city", "one", "q")
	for n := uint64(1); n <= 20; n++ {
		now = start.Add(time.Duration(n) * time.Hour)
		endRound(t, d, "p_1", n, []registry.RoundState{registry.RoundCaptured, registry.RoundExpired}[n%2])
	}
	check(t, d)
	s, err := d.Rounds.ProfileStatus("p_1")
	if err != nil || s.Seq != 10 || s.Expired != 10 || s.Rounds != 20 {
		t.Fatalf("%+v, %v", s, err)
	}
	list, next, err := d.Rounds.Rounds("p_1", "", 0, 3)
	if err != nil || len(list) != 3 || list[0].Number != 20 || next != 18 {
		t.Errorf("newest first: %v, next %d, %v", list, next, err)
	}
	if rest, next, _ := d.Rounds.Rounds("p_1", "", next, 10); len(rest) != 2 || rest[1].Number != 16 || next != 0 {
		t.Errorf("the rest: %v, next %d", rest, next)
	}
	var gap *registry.GapError
	for seq, reason := range map[uint64]string{0: registry.TooOld, 3: registry.TooOld, 11: registry.Ahead} {
		if _, err := d.Rounds.Captured("p_1", registry.Position{Epoch: s.Epoch, Seq: seq}, 10); !errors.As(err, &gap) || gap.Reason != reason {
			t.Errorf("after capture %d: %v, want %s", seq, err, reason)
		}
	}
	if _, err := d.Rounds.Captured("p_1", registry.Position{Epoch: "other", Seq: 1}, 10); !errors.As(err, &gap) ||
		gap.Reason != registry.OtherEpoch {
		t.Errorf("%v", err)
	}
	for seq, want := range map[uint64]int{7: 3, 8: 2, 10: 0} { // 7 was dropped, and all later ones are kept
		if list, err := d.Rounds.Captured("p_1", registry.Position{Epoch: s.Epoch, Seq: seq}, 10); err != nil || len(list) != want {
			t.Errorf("after capture %d: %d, %v", seq, len(list), err)
		}
	}
	now = start.Add(1000 * time.Hour) // the newest stays
	endRound(t, d, "p_1", 21, registry.RoundCaptured)
	if list, _, _ := d.Rounds.Rounds("p_1", "", 0, 10); len(list) != 1 || list[0].Position.Seq != 11 {
		t.Errorf("after a long time: %v", list)
	}
	check(t, d)
}

// Profiles can be found by name and owner, and are deleted with their endpoint.
func TestProfilesOfEndpoints(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	for _, name := range []string{"city", "coins"} {
		if _, err := d.Endpoints.EditEndpoint(name, func(c *registry.Configured, _ bool) error {
			c.Endpoint.URL = "http://x/"
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		addProfile(t, d, fmt.Sprint("p_", i), []string{"city", "coins"}[i%2], fmt.Sprint("Name ", i), "q")
	}
	endRound(t, d, "p_0", 1, registry.RoundCaptured)
	var seen []string
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := d.Rounds.ListProfiles(registry.ProfileFilter{Endpoint: "city"}, cursor, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page {
			seen = append(seen, x.Profile.ID)
		}
		cursor = next
	}
	if fmt.Sprint(seen) != "[p_0 p_2 p_4]" {
		t.Errorf("listed: %v", seen)
	}
	if list, _, _ := d.Rounds.ListProfiles(registry.ProfileFilter{Text: "NAME 3"}, "", 10); len(list) != 1 ||
		list[0].Profile.ID != "p_3" || len(list[0].Status.Missing) != 1 {
		t.Errorf("by text: %+v", list)
	}
	if list, err := d.Profiles.FindProfile("app", "Name 2", 2); err != nil || len(list) != 1 || list[0].ID != "p_2" {
		t.Errorf("by name: %v, %v", list, err)
	}
	if list, err := d.Profiles.FindProfile("other", "Name 2", 2); err != nil || len(list) > 0 {
		t.Errorf("of somebody else: %v, %v", list, err)
	}
	if _, err := d.Endpoints.EditEndpoint("city", func(c *registry.Configured, _ bool) error { c.Endpoint.URL = ""; return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Profiles.Profile("p_0"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("after its endpoint: %v", err)
	}
	addProfile(t, d, "p_2", "coins", "again", "q")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, Options{})
	for more := true; more; {
		var err error
		if more, err = purgeSome(d.boltFile); err != nil {
			t.Fatal(err)
		}
	}
	check(t, d)
	if list, _, _ := d.Rounds.ListProfiles(registry.ProfileFilter{}, "", 10); len(list) != 3 || list[1].Profile.Name != "again" ||
		list[1].Status.Rounds != 0 {
		t.Errorf("in the end: %+v", list)
	}
}

// For any order in which rounds open and end, and however often it is reopened, the store
// agrees with a list.
func TestRoundModel(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 9))
			dir := t.TempDir()
			d := open(t, dir, Options{})
			addProfile(t, d, "p_1", "city", "", "q")
			var ended []registry.Round
			waiting := map[uint64]bool{}
			number, captured := uint64(0), uint64(0)
			for step := range 60 {
				var b scheduler.Batch
				for range 1 + random.IntN(3) {
					number++
					b.Rounds = append(b.Rounds, registry.Round{Profile: "p_1", Number: number, State: registry.RoundOpen,
						OpenedAt: start.Add(time.Hour), Intervals: []registry.Interval{{Query: "q"}}})
					waiting[number] = true
				}
				for n := uint64(1); n <= number; n++ {
					if !waiting[n] || random.IntN(3) > 0 || n > number-uint64(len(b.Rounds)) && random.IntN(2) == 0 {
						continue
					}
					r := registry.Round{Profile: "p_1", Number: n, State: registry.RoundExpired, OpenedAt: start.Add(time.Hour),
						EndedAt: start.Add(time.Duration(step) * time.Hour), Intervals: []registry.Interval{{Query: "q"}}}
					if random.IntN(2) == 0 {
						r.State = registry.RoundCaptured
					}
					kept := b.Rounds[:0]
					for _, x := range b.Rounds { // one round occurs at most once
						if x.Number != n {
							kept = append(kept, x)
						}
					}
					b.Rounds = append(kept, r)
				}
				slices.SortFunc(b.Rounds, func(a, b registry.Round) int { return cmp.Compare(a.Number, b.Number) })
				for _, r := range b.Rounds {
					if r.State == registry.RoundOpen {
						continue
					}
					delete(waiting, r.Number)
					if r.State == registry.RoundCaptured {
						captured++
						r.Position.Seq = captured
					}
					ended = append(ended, r)
				}
				if _, err := d.Ledger.Record("city", b); err != nil {
					t.Fatal(err)
				}
				if random.IntN(10) == 0 {
					if err := d.Close(); err != nil {
						t.Fatal(err)
					}
					d = open(t, dir, Options{})
				}
			}
			check(t, d)
			s, err := d.Rounds.ProfileStatus("p_1")
			if err != nil || s.Seq != captured || s.Open != len(waiting) || int(s.Seq+s.Expired) != len(ended) {
				t.Fatalf("%+v, %v; want %d captures, %d open, %d ended", s, err, captured, len(waiting), len(ended))
			}
			got, err := d.Rounds.Ends("p_1", s.Epoch, 0, 10_000)
			if err != nil || len(got) != len(ended) {
				t.Fatalf("%d ends, want %d: %v", len(got), len(ended), err)
			}
			for i, e := range got {
				if e.Number != ended[i].Number || e.State != ended[i].State || e.Position.Seq != ended[i].Position.Seq || e.End != uint64(i+1) {
					t.Fatalf("end %d is round %d, %s, capture %d; want %+v", i+1, e.Number, e.State, e.Position.Seq, ended[i])
				}
			}
		})
	}
}
