package ui

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web"
)

// Intervals in slots are drawn at the times of their slots, past and future.
func TestSlotClock(t *testing.T) {
	t0 := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	every2s, err := scheduler.ParseSlot("@every 2s")
	if err != nil {
		t.Fatal(err)
	}
	never, err := scheduler.ParseSlot("never")
	if err != nil {
		t.Fatal(err)
	}
	c := &slotClock{began: map[uint64]time.Time{450: t0, 451: t0.Add(2 * time.Second), 452: t0.Add(4 * time.Second)}, last: 452,
		schedule: every2s, next: t0.Add(6 * time.Second)}
	for _, x := range []struct {
		first, last uint64
		from, until time.Duration
	}{{450, 452, 0, 6 * time.Second}, {451, 451, 2 * time.Second, 4 * time.Second}, {452, 454, 4 * time.Second, 10 * time.Second},
		{453, 453, 6 * time.Second, 8 * time.Second}, {1452, 1452, 2004 * time.Second, 2006 * time.Second}} {
		s, ok := c.stretch(&registry.Interval{First: x.first, Last: x.last})
		if !ok || s.Endless || !s.From.Equal(t0.Add(x.from)) || !s.Until.Equal(t0.Add(x.until)) {
			t.Errorf("slots %d to %d lie from %s to %s, %v", x.first, x.last, s.From.Sub(t0), s.Until.Sub(t0), ok)
		}
	}
	change := t0.Add(2500 * time.Millisecond)
	if s, ok := c.stretch(&registry.Interval{From: change, First: 451, Last: 453}); !ok || !s.From.Equal(change) ||
		!s.Until.Equal(t0.Add(8*time.Second)) || s.First != 451 || s.Last != 453 {
		t.Errorf("an interval that opens with a change and ends with a slot: %+v, %v", s, ok)
	}
	if s, ok := c.stretch(&registry.Interval{From: change, First: 3, Last: 4}); !ok || !s.From.Equal(change) ||
		!s.Until.Equal(change) || s.Endless {
		t.Errorf("an interval that opened with a change in a forgotten slot: %+v, %v", s, ok)
	}
	if s, ok := c.stretch(&registry.Interval{From: t0, Until: change}); !ok || !s.From.Equal(t0) || !s.Until.Equal(change) {
		t.Errorf("an interval of times: %+v, %v", s, ok)
	}
	if _, ok := c.stretch(&registry.Interval{First: 3, Last: 4}); ok {
		t.Error("a forgotten slot has a place")
	}
	done := t0.Add(-time.Hour)
	if s, ok := c.stretch(&registry.Interval{First: 3, Last: 4, Done: &registry.Execution{At: done}}); !ok || !s.From.Equal(done) {
		t.Error("a capture in a forgotten slot has no place")
	}
	if s, ok := c.coming(registry.When{Every: registry.Span{Slots: 10}, Slack: registry.Span{Slots: 1}}, t0); !ok ||
		!s.From.Equal(t0.Add(20*time.Second)) || !s.Until.Equal(t0.Add(24*time.Second)) {
		t.Errorf("the next of each tenth slot: %+v, %v", s, ok)
	}
	if s, ok := c.coming(registry.When{Every: registry.Span{Time: time.Minute}, Slack: registry.Span{Time: 10 * time.Second}},
		t0); !ok || !s.From.Equal(t0.Add(time.Minute)) || s.Until.Sub(s.From) != 10*time.Second {
		t.Errorf("the next of each minute: %+v, %v", s, ok)
	}
	byHand := &slotClock{began: c.began, last: 452, schedule: never}
	if s, ok := byHand.stretch(&registry.Interval{First: 452, Last: 455}); !ok || !s.Endless {
		t.Errorf("an interval whose end is unknown: %+v, %v", s, ok)
	}
	if _, ok := byHand.stretch(&registry.Interval{First: 453, Last: 455}); ok {
		t.Error("an interval whose beginning is unknown has a place")
	}
}

var marks = regexp.MustCompile(`<rect class="(captured|expired|open|coming)" x="([0-9.]+)%" width="([0-9.]+)%"`)

// An interval of three slots is three slots wide, an open interval extends to its end, and the next
// one is in the future.
func TestIntervalsAreAsWideAsTheirSlots(t *testing.T) {
	r := managed(t)
	r.endpoint("city")
	q := r.register("city", "trams", selectText)
	if _, _, err := r.reg.CreateProfile(admin, registry.ProfileRequest{Name: "board",
		Items: []registry.Item{{Query: q.ID, When: registry.When{Every: registry.Span{Slots: 6}, Slack: registry.Span{Slots: 2}}}}}); err != nil {
		t.Fatal(err)
	}
	for range 13 {
		r.tick("city")
	}
	if _, err := r.reg.UpdateEndpoint(admin, "city", func(e *registry.Endpoint) error {
		e.Slot, e.Budget = "@every 1h", registry.Duration(time.Second)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	page := r.get("/profiles").status(200).has("slots 12 to 14", "to come")
	last := map[string]float64{}
	for _, m := range marks.FindAllStringSubmatch(page.body, -1) {
		last[m[1]], _ = strconv.ParseFloat(m[3], 64)
	}
	if len(last) < 2 || last["coming"] < 20 {
		t.Errorf("widths in per cent: %v", last)
	}
	for _, l := range regexp.MustCompile(`text-anchor="(?:start|end)">([0-9:, A-Za-z]+)</text>.*?text-anchor="end">([0-9:, `+
		`A-Za-z]+)</text>`).FindAllStringSubmatch(page.body, -1) {
		if l[1] == l[2] {
			t.Errorf("the axis reads %s to %s", l[1], l[2])
		}
	}
}

// countedProfiles counts the reads of profiles by pages.
type countedProfiles struct {
	web.Profiles
	lists, rounds *atomic.Int64
}

func (c countedProfiles) ListProfiles(f registry.ProfileFilter, cursor string, limit int) ([]registry.ListedProfile, string, error) {
	c.lists.Add(1)
	return c.Profiles.ListProfiles(f, cursor, limit)
}

func (c countedProfiles) Rounds(id string, state registry.RoundState, before uint64, limit int) ([]registry.Round, uint64, error) {
	c.rounds.Add(1)
	return c.Profiles.Rounds(id, state, before, limit)
}

// manyProfiles returns a server with many profiles of one query.
func manyProfiles(t *testing.T, n int) (r *rig, lists, rounds *atomic.Int64) {
	t.Helper()
	lists, rounds = new(atomic.Int64), new(atomic.Int64)
	now := time.Now()
	r = newRigWith(t, func(r *rig, c *Config) {
		c.Profiles = countedProfiles{r.store.Rounds, lists, rounds}
		c.Now = func() time.Time { return now }
	})
	r.endpoint("city")
	q := r.register("city", "trams", selectText)
	for i := range n {
		if _, _, err := r.reg.CreateProfile(admin, registry.ProfileRequest{Name: fmt.Sprintf("board %03d", i),
			Items: []registry.Item{{Query: q.ID, When: registry.When{Every: registry.Span{Slots: uint64(2 + i%3)},
				Slack: registry.Span{Slots: 1}}}}, Window: registry.Span{Slots: uint64(1 + i)}}); err != nil {
			t.Fatal(err)
		}
	}
	return r, lists, rounds
}

// A long list can be searched and sorted. Its summary covers all profiles, and each
// profile has its own page.
func TestManyProfiles(t *testing.T) {
	r, _, _ := manyProfiles(t, 60)
	for range 7 {
		r.tick("city")
	}
	page := r.get("/profiles").status(200).has("1 to 25 of 60", `<span class="n">60</span>`, `href="/profiles/p_`, "all captured")
	all := 0
	for cursor := ""; ; {
		items, next, err := r.store.Rounds.ListProfiles(registry.ProfileFilter{}, cursor, 500)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			all += int(it.Status.Seq)
		}
		if cursor = next; next == "" {
			break
		}
	}
	want := "All " + count(all) + " rounds that ended were captured."
	page.has(want)
	r.get("/profiles?page=3").has(want, "51 to 60 of 60").lacks(`rel="next"`)
	r.get("/profiles?sort=name").has("board 000", "board 024").lacks("board 025")
	r.get("/profiles?sort=name&page=2").has("board 025").lacks("board 000")
	r.get("/profiles?q=board+04").has("1 to 10 of 10", `value="board 04"`, "board 047").lacks("board 050")
	r.get("/profiles?q=nothing").has("No profile matches", want)
	link := regexp.MustCompile(`href="(/profiles/p_[a-z0-9]+)"`).FindStringSubmatch(r.get("/profiles?q=board+042&sort=name").has(
		"board 042").body)
	if link == nil {
		t.Fatal("no link to a profile")
	}
	r.get(link[1]).status(200).has("<h1>board 042</h1>", "Rounds", "captures as JSON", "every ").lacks("board 041")
	r.get("/profiles/board%20042").status(200).has("<h1>board 042</h1>")
	r.get("/profiles/none").status(404)
}

// Profiles with problems come first, whatever their id.
func TestProfilesInTroubleComeFirst(t *testing.T) {
	list := []profileDigest{{ID: "a", Captured: 9}, {ID: "b", Captured: 9, Expired: 1}, {ID: "c", Captured: 1, Expired: 1},
		{ID: "d", Captured: 5, Broken: true}, {ID: "e"}}
	s := &profileSnapshot{endpoints: map[string]int{}}
	for _, d := range list {
		s.add(d)
	}
	var got []string
	for _, d := range (&profileSnapshot{List: sorted(s.List)}).find("", "", "") {
		got = append(got, d.ID)
	}
	if order := strings.Join(got, ""); order != "dcbae" {
		t.Errorf("the order is %s", order)
	}
	if s.Captured != 24 || s.Expired != 2 || s.Losing != 2 || s.Broken != 1 {
		t.Errorf("summed up as %+v", s)
	}
}

func sorted(list []profileDigest) []profileDigest {
	return slices.SortedFunc(slices.Values(list), byLosses)
}

// A page reads only the rounds of the profiles that it shows, however many profiles there are. The
// index is read once while nothing changes.
func TestCostOfProfilesPage(t *testing.T) {
	cost := map[int]int64{}
	for _, n := range []int{30, 120} {
		r, lists, rounds := manyProfiles(t, n)
		view := func() {
			a := r.browserGet("/profiles")
			a.status(200)
		}
		view()
		lists.Store(0)
		rounds.Store(0)
		view()
		if lists.Load() != 0 {
			t.Errorf("%d profiles: the index was read again %d times", n, lists.Load())
		}
		cost[n] = rounds.Load()
	}
	if cost[30] != shownProfiles || cost[120] != shownProfiles {
		t.Errorf("a page reads the rounds of so many profiles: %v", cost)
	}
}

// browserGet is get without invalidating the indexes.
func (r *rig) browserGet(path string) *response {
	r.t.Helper()
	r.quiet = true
	defer func() { r.quiet = false }()
	return r.get(path)
}
