package rounds_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
	"github.com/freshet/freshet/scheduler/rounds/interval"
	"github.com/freshet/freshet/scheduler/update"
)

var noon = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// found has the statistics of queries. Other queries are not registered.
type found map[string]*policy.Stats

func (f found) stats(query string) *policy.Stats { return f[query] }

func slots(n uint64) registry.Span { return registry.Span{Slots: n} }

func load(t *rounds.Tracker, list ...registry.Profile) {
	var all []rounds.ProfileState
	for _, p := range list {
		all = append(all, rounds.ProfileState{Profile: p})
	}
	t.Load(all, nil, 1)
}

// ran returns a complete execution of one second in a slot of one minute.
func ran(query string, slot uint64, d *diff.Delta) rounds.Observation {
	at := noon.Add(time.Duration(slot) * time.Minute)
	return rounds.Observation{Query: query, Delta: d, Checked: at.Add(time.Second),
		Execution: rounds.Execution{Start: at, End: at.Add(time.Second), Slot: slot, Tier: "ranked"}}
}

func begin(t *rounds.Tracker, slot uint64) {
	t.BeginSlot(slot, noon.Add(time.Duration(slot)*time.Minute), 0)
}

func queries(list []rounds.Claim) (out []string) {
	for _, c := range list {
		out = append(out, c.Query)
	}
	return out
}

func states(list []registry.Round) (out []string) {
	for _, r := range list {
		out = append(out, fmt.Sprintf("%s %d %s", r.Profile, r.Number, r.State))
	}
	return out
}

// A change opens a round, its intervals claim their queries, and the executions
// of all of them capture it.
func TestRoundIsCaptured(t *testing.T) {
	tracker := rounds.New(found{}.stats)
	on := registry.When{Changed: "q_a"}
	load(tracker, registry.Profile{ID: "p", Window: slots(2), Budget: registry.Duration(2 * time.Second),
		Items: []registry.Item{{Query: "q_b", When: on}, {Query: "q_c", When: on}}})
	begin(tracker, 1)
	mrsf := interval.Ranking{Kind: interval.MRSF}
	if claims := tracker.Claims(mrsf); claims != nil || tracker.Stale() {
		t.Fatalf("claims before any change: %v", queries(claims))
	}
	if tracker.Observe(ran("q_a", 1, &diff.Delta{})) || !tracker.Stale() {
		t.Error("the change opens a round and captures none")
	}
	claims := tracker.Claims(mrsf)
	if !slices.Equal(queries(claims), []string{"q_b", "q_c"}) || tracker.Stale() {
		t.Fatalf("claims %v", queries(claims))
	}
	if why, ok := tracker.Wanted("q_b", noon.Add(2*time.Minute), 1); !ok || why != "round 1 of profile p wants it until slot 3" {
		t.Errorf("explained as %q", why)
	}
	tracker.Charge(claims[0], 1500*time.Millisecond)
	if left, bounded := claims[1].Left(); left != 500*time.Millisecond || !bounded || claims[1].Affords(time.Second) {
		t.Errorf("the profile has %s left", left)
	}
	begin(tracker, 2)
	if !claims[1].Affords(2 * time.Second) {
		t.Error("a slot does not begin with the profile's whole budget")
	}
	if tracker.Observe(ran("q_b", 2, nil)) || !tracker.Observe(ran("q_c", 2, nil)) {
		t.Error("the second execution ends the round")
	}
	u := tracker.Drain()
	if !slices.Equal(states(u.Rounds), []string{"p 1 captured"}) || !slices.Equal(u.Ended, []string{"p"}) || tracker.Drain().Rounds != nil {
		t.Errorf("to record: %v, ended %v", states(u.Rounds), u.Ended)
	}
}

// A round expires with the reason recorded in the last slot that could capture it.
func TestRoundExpires(t *testing.T) {
	tracker := rounds.New(found{}.stats)
	every := registry.When{Every: slots(4), Slack: slots(1)}
	made := noon.Add(24 * time.Hour) // by a clock that was ahead
	load(tracker, registry.Profile{ID: "p", CreatedAt: made, Items: []registry.Item{{Query: "q_a", When: every}}})
	for slot := uint64(4); slot <= 6; slot++ {
		begin(tracker, slot)
		tracker.EndSlot(noon.Add(time.Hour), func(string) string { return fmt.Sprint("missed in slot ", slot) })
	}
	u := tracker.Drain()
	if len(u.Rounds) != 1 || u.Rounds[0].State != registry.RoundExpired || u.Rounds[0].Reason != "q_a: missed in slot 5" ||
		u.Rounds[0].EndedSlot != 6 || !u.Rounds[0].ProfileCreatedAt.Equal(made) {
		t.Errorf("%+v", u.Rounds)
	}
}

// A round without a slot ends when its time is over. NextExpiry returns that time.
func TestExpireWithoutSlot(t *testing.T) {
	tracker := rounds.New(found{}.stats)
	on := registry.When{Changed: "q_a"}
	load(tracker, registry.Profile{ID: "p", Window: registry.Span{Time: time.Hour}, Items: []registry.Item{{Query: "q_b", When: on}}})
	if at := tracker.NextExpiry(); !at.IsZero() {
		t.Errorf("nothing is open and expires at %s", at)
	}
	x := ran("q_a", 1, &diff.Delta{})
	tracker.Observe(x)
	at := tracker.NextExpiry()
	if !at.Equal(x.End.Add(time.Hour)) {
		t.Errorf("expires at %s", at)
	}
	if tracker.Expire(at, 2); tracker.NextExpiry().IsZero() {
		t.Error("ended at its last moment")
	}
	if tracker.Expire(at.Add(1), 2); !tracker.NextExpiry().IsZero() {
		t.Error("open after its last moment")
	}
}

// Opening more rounds than a profile may have ends the oldest.
func TestMostRounds(t *testing.T) {
	tracker := rounds.New(found{}.stats)
	load(tracker, registry.Profile{ID: "p", Window: slots(1000), Items: []registry.Item{{Query: "q_b", When: registry.When{Changed: "q_a"}}}})
	for slot := range uint64(257) {
		tracker.Observe(ran("q_a", slot+1, &diff.Delta{}))
	}
	var ended []registry.Round
	for _, r := range tracker.Drain().Rounds {
		if r.State != registry.RoundOpen {
			ended = append(ended, r)
		}
	}
	if len(ended) != 1 || ended[0].Number != 1 || ended[0].Reason != "q_b: too many rounds of the profile are open: the oldest is given up" {
		t.Errorf("ended: %+v", ended)
	}
}

// Without a grid a change is expected by the number of slots between changes. For a
// query that changes every 10 slots that is 6 slots after the last change.
func TestExpectationBySlots(t *testing.T) {
	f := found{"q_a": {ChangedAt: noon}}
	for slot := uint64(1); slot <= 60; slot++ {
		f["q_a"].Samples = append(f["q_a"].Samples, policy.Sample{Slot: slot, Changed: slot%10 == 0})
	}
	tracker := rounds.New(f.stats)
	when := registry.When{Predicted: true}
	load(tracker, registry.Profile{ID: "p", Window: slots(3), Items: []registry.Item{{Query: "q_a", When: when},
		{Query: "q_gone", When: when}}})
	var opened []uint64
	for slot := uint64(61); slot <= 80; slot++ {
		begin(tracker, slot)
		for _, r := range tracker.Drain().Rounds {
			if r.State == registry.RoundOpen {
				opened = append(opened, slot)
			}
		}
	}
	if !slices.Equal(opened, []uint64{66, 72, 78}) {
		t.Errorf("rounds opened in slots %v", opened)
	}
}

// On a grid the recorded model of hours determines when the next round opens.
func TestExpectationByHours(t *testing.T) {
	var week update.Week
	for day := range 60 { // it changes from noon to 15 o'clock
		for hour := range 24 {
			at := noon.Add(time.Duration(24*day+hour) * time.Hour)
			week.Learn(at, at.Add(time.Hour), hour < 3)
		}
	}
	tracker := rounds.New(found{"q_a": {ChangedAt: noon}}.stats)
	p := registry.Profile{ID: "p", Window: slots(3), Items: []registry.Item{{Query: "q_a", When: registry.When{Predicted: true}}}}
	tracker.Load([]rounds.ProfileState{{Profile: p}}, []rounds.Model{{Query: "q_a", Week: week}}, 1)
	if _, byPrediction := rounds.Next(&p, noon); !byPrediction || !tracker.NextPredicted("p", noon).IsZero() {
		t.Error("predicted without a grid")
	}
	tracker.BeginSlot(1, noon, time.Minute)
	if next := tracker.NextPredicted("p", noon); next.Hour() < 12 || next.Hour() > 14 {
		t.Errorf("the next round is announced for %s", next)
	}
	if u := tracker.Drain(); u.Models != nil {
		t.Error("a model is to be recorded that learnt nothing")
	}
	x := ran("q_a", 1, nil)
	x.Before = noon
	tracker.Observe(x)
	if u := tracker.Drain(); len(u.Models) != 1 || u.Models[0].Week.All.Watched <= week.All.Watched {
		t.Errorf("models to be recorded: %+v", u.Models)
	}
}

// A tracker resumes from the recorded state.
func TestLoad(t *testing.T) {
	p := registry.Profile{ID: "p", Window: slots(5), Items: []registry.Item{
		{Query: "q_b", When: registry.When{Changed: "q_a"}}, {Query: "q_c", When: registry.When{Changed: "q_a"}}}}
	first := rounds.New(found{}.stats)
	load(first, p)
	first.Observe(ran("q_a", 1, &diff.Delta{}))
	first.Observe(ran("q_b", 2, nil))
	s := rounds.ProfileState{Profile: p, Rounds: 1, Slot: 1}
	for _, r := range first.Drain().Rounds {
		s.Opened, s.Open = r.OpenedAt, append(s.Open, r)
	}
	second := rounds.New(found{}.stats)
	second.Load([]rounds.ProfileState{s}, nil, 3)
	begin(second, 3)
	if got := queries(second.Claims(interval.Ranking{Kind: interval.SEDF})); !slices.Equal(got, []string{"q_c"}) {
		t.Errorf("claims %v", got)
	}
	if !second.Observe(ran("q_c", 3, nil)) {
		t.Error("the round is not captured")
	}
	second.Observe(ran("q_a", 4, &diff.Delta{}))
	if got := states(second.Drain().Rounds); !slices.Equal(got, []string{"p 1 captured", "p 2 open"}) {
		t.Errorf("to record: %v", got)
	}
}
