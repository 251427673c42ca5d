package plan

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/proof"
)

// A follower is a planner of an endpoint with a feed.
type follower struct {
	Proofs
	state proof.Feed
	c     *item
	now   time.Time
}

func placeAt(n int64) feed.Place {
	return feed.Place{Topic: "t", Offset: n, Time: began.Add(time.Duration(n) * time.Second)}
}

// follows returns a planner with a query that has an answer at event 5, of 10 that were told.
func followsFeed(t *testing.T, told bool, edit func(*registry.Query)) *follower {
	return followsFeedBy(t, "rr", told, edit)
}

func followsFeedBy(t *testing.T, policies string, told bool, edit func(*registry.Query)) *follower {
	list := registered(1)
	q := &list[0].Query
	if edit != nil {
		edit(q)
	}
	p := planned(t, policies, list)
	f := &follower{Proofs: p.Proofs(), now: placeAt(10).Time, c: p.all[q.ID]}
	f.c.Stats.Executions = 1
	f.c.Stats.LastRun = policy.Run{At: f.now, Outcome: registry.Unchanged}
	f.state = proof.Feed{Source: "s", Members: map[string]uint64{"city": 1}, Base: placeAt(1), Silence: 5 * time.Minute}
	f.p().now = f.now
	f.tell(10, told)
	f.c.Stats.Before = f.view.Told(feed.Place{Offset: 5})
	f.touch(1)
	return f
}

func (f *follower) p() *Planner { return f.Planner }

func (f *follower) tell(head int64, told bool) {
	f.state.Head, f.state.Heard = placeAt(head), placeAt(head).Time
	e := registry.Endpoint{Name: "city", Feed: "wd", Position: "SELECT ?n {}"}
	now := f.now
	if f.state.Heard.After(now) {
		now = f.state.Heard
	}
	v := proof.NewView(e, f.state, 1, proof.Endpoint{}, now)
	v.Tell(20)
	f.Set(v, told, 10*time.Minute)
}

func (f *follower) touch(list ...int64) {
	t := proof.Touch{Feed: "wd"}
	if f.c.touch != nil {
		t = *f.c.touch
	}
	for _, n := range list {
		t.Add(&feed.Event{Place: placeAt(n)}, feed.Matched)
	}
	f.Touched(map[string]proof.Touch{f.c.Query.ID: t})
}

func (f *follower) position(n int64) {
	f.Positioned(f.now, f.view.Told(feed.Place{Offset: n}))
}

// Several events have matched a query, and the endpoint's data include the first: the query is due.
func TestTheFirstEventOfSeveralCounts(t *testing.T) {
	f := followsFeed(t, true, nil)
	if f.position(6); f.c.why != proved {
		t.Fatal(f.c.why)
	}
	f.now = placeAt(200).Time
	f.tell(200, true)
	f.touch(20, 200)
	if f.position(20); f.c.why != proved || !f.AwaitsPosition() {
		t.Error("the position includes none of them:", f.c.why)
	}
	if f.position(50); f.c.why == proved || f.AwaitsPosition() {
		t.Error("the position includes one of them:", f.c.why)
	}
	for n := range int64(50) { // too many to know which one is the first
		f.touch(100 + n)
	}
	if f.position(10); f.c.why == proved {
		t.Error("the position may include one of them")
	}
}

// Events are missing: a result is true as long as the endpoint's data lack them.
func TestAGapHoldsOnceThePositionReachesIt(t *testing.T) {
	f := followsFeed(t, true, nil)
	f.tell(10, true)
	b := feed.Batch{Gap: "retention", Events: []feed.Event{{Place: placeAt(100)}}}
	f.now = placeAt(100).Time
	f.state.Take(&b, f.now)
	f.tell(100, true)
	if f.position(7); f.c.why != proved || !f.AwaitsPosition() {
		t.Error("the position is before the gap:", f.c.why)
	}
	if f.position(12); f.c.why == proved {
		t.Error("the position is in the gap")
	}
	if f.position(101); f.c.why == proved {
		t.Error("the position is after the gap")
	}
	f.c.Stats.Before = f.view.Told(feed.Place{Offset: 12})
	if f.placeAgain(); f.c.why == proved {
		t.Error("an answer in the gap proves something")
	}
	f.c.Stats.Before = f.view.Told(feed.Place{Offset: 101})
	if f.placeAgain(); f.c.why != proved {
		t.Error("an answer after the gap proves nothing")
	}
}

// A position that is a time may stay that of the last event: then the query is due, and so is one whose event came out
// of order. The endpoint may have no later event for long.
func TestThePositionIsTheTimeOfTheEvent(t *testing.T) {
	for position, want := range map[int64]bool{19: false, 20: true, 25: true, 40: true} {
		f := followsFeed(t, true, nil)
		f.state.Disorder = 10 * time.Second
		f.tell(10, true)
		f.Positioned(f.now, f.view.Told(feed.Place{Time: placeAt(15).Time}))
		f.c.Stats.Before = f.view.Told(feed.Place{Time: placeAt(15).Time})
		f.placeAgain()
		f.now = placeAt(200).Time
		f.tell(200, true)
		f.touch(20)
		now := f.view.Told(feed.Place{Time: placeAt(position).Time})
		if f.Positioned(f.now, now); (position <= 20) != (f.c.why == proved) {
			t.Errorf("an event at 20 s, the endpoint at %d s, which has just been told: %v", position, f.c.why)
		}
		f.Positioned(f.now.Add(standsAfter), now)
		if due := f.c.why != proved; due != want {
			t.Errorf("an event at 20 s, the endpoint at %d s: %v", position, f.c.why)
		}
		if f.Positioned(placeAt(20).Time.Add(f.lag+time.Second), now); f.c.why == proved {
			t.Errorf("an event at 20 s, the endpoint at %d s for as long as its data are behind: %v", position, f.c.why)
		}
	}
}

// Where several servers answer, the smallest of their positions is no reason to wait: another one may have the event.
func TestSeveralServersDoNotWaitForThePosition(t *testing.T) {
	f := followsFeed(t, true, nil)
	f.position(6)
	f.now = placeAt(200).Time
	f.tell(200, true)
	f.touch(200)
	if f.position(10); f.c.why != proved || !f.AwaitsPosition() || !f.NextArmed().IsZero() {
		t.Fatal("one server:", f.c.why)
	}
	if f.Change(func(e *proof.Endpoint) { e.Back = f.now }); f.c.why == proved || f.AwaitsPosition() || f.NextArmed().IsZero() {
		t.Error("several servers:", f.c.why, f.NextArmed())
	}
	if f.tell(201, true); !f.AwaitsPosition() {
		t.Error("one server again:", f.c.why)
	}
}

// What the position said holds for a while only, and until it is unknown.
func TestAnOldPositionProvesNothing(t *testing.T) {
	f := followsFeed(t, true, nil)
	f.tell(20, true)
	f.touch(20)
	if f.position(6); f.c.why != proved {
		t.Fatal(f.c.why)
	}
	f.p().now = f.now.Add(time.Minute)
	if f.Watch(f.now.Add(time.Minute)); f.c.why == proved {
		t.Error("proved by an old position")
	}
	if f.position(6); f.c.why != proved {
		t.Error("not proved by a new one:", f.c.why)
	}
	if f.Positioned(f.now, feed.Before{}); f.c.why == proved {
		t.Error("proved although the position is not known")
	}
}

// A query whose event the endpoint's position includes takes part in each slot that asks for the position, also if it is too
// expensive for the share of hints.
func TestAPositionDoesNotTakeAQueryOutOfItsSlot(t *testing.T) {
	for _, at := range []int64{21, 0} {
		f := followsFeedBy(t, "hybrid", true, nil)
		f.c.Estimate = 20 * time.Minute
		f.tell(20, true)
		f.touch(20)
		asked := false
		for range 3 {
			s := f.p().Begin(f.now, Terms{Lead: time.Minute, Width: 1, Timeout: time.Hour})
			if at == 0 {
				f.Positioned(f.now, feed.Before{})
			} else {
				f.position(at)
			}
			asked = asked || s.Next(f.now) != nil
			f.now = f.now.Add(time.Minute)
		}
		if !asked {
			t.Errorf("a query is never asked at position %d: %v", at, f.c.why)
		}
	}
}

// A query is asked because of a hint that came after its last answer.
func TestAnAnswerBeforeAHintIsNotInVain(t *testing.T) {
	f := followsFeed(t, true, nil)
	f.c.Stats.LastRun = policy.Run{At: f.now, Outcome: registry.Unchanged, Why: TierOffGrid, Slot: f.p().slot}
	f.c.vain, f.c.hinted = true, f.now.Add(time.Second)
	f.arm(f.c)
	f.Wake(f.NextArmed())
	if !f.p().hints.has(f.c) {
		t.Error("the hint has no effect")
	}
}

// A query that is paused waits for no position.
func TestPositionsAreAskedForIfAQueryWaits(t *testing.T) {
	f := followsFeed(t, true, nil)
	f.tell(20, true)
	f.touch(20)
	if !f.AwaitsPosition() {
		t.Error("no query waits")
	}
	if f.c.why = paused; f.AwaitsPosition() {
		t.Error("a paused query waits")
	}
}

// A query whose answer is newer than the feed was waits for no position once the feed has told all events before it.
func TestNoPositionIsAskedForIfNothingIsMissing(t *testing.T) {
	f := followsFeed(t, true, nil)
	f.tell(20, true)
	f.c.Stats.Before = f.view.Told(feed.Place{Offset: 25})
	f.touch(20)
	f.position(25)
	if f.tell(30, true); f.AwaitsPosition() {
		t.Error("a query waits for nothing")
	}
}

// A result that is proved until a time that is too long ago for max_staleness is asked for.
func TestMaxStalenessCountsFromTheLastEvent(t *testing.T) {
	f := followsFeed(t, true, nil)
	f.c.plain, f.c.Query.Holders = false, []registry.Holder{{Caller: "me", MaxStaleness: registry.Duration(time.Minute)}}
	if f.placeAgain(); f.c.why != proved {
		t.Fatal(f.c.why)
	}
	f.p().Advance(f.now.Add(2 * time.Minute))
	if f.c.why == proved {
		t.Error("still proved")
	}
}

// A hint by hand makes a proved query run, until an answer is known to be later than the hint.
func TestHintsReachProvedQueries(t *testing.T) {
	for _, all := range []bool{true, false} {
		f := followsFeed(t, true, nil)
		if f.placeAgain(); f.c.why != proved {
			t.Fatal(f.c.why)
		}
		f.Hint(registry.Hint{All: all, Touched: []string{"http://a"}}, f.now)
		if f.c.why == proved || f.p().cause(f.c) != proof.Hinted {
			t.Errorf("all %t: %v, %q", all, f.c.why, f.p().cause(f.c))
		}
		f.c.Stats.LastRun = policy.Run{At: f.now.Add(time.Minute), Outcome: registry.Unchanged}
		f.recordAnswer(f.c, false, true, f.now, f.now)
		if f.placeAgain(); f.c.why == proved {
			t.Errorf("all %t: an answer from before the end of lag used the hint up", all)
		}
		f.c.Stats.LastRun.At = f.now.Add(11 * time.Minute)
		f.recordAnswer(f.c, false, true, f.now, f.now)
		if f.placeAgain(); f.c.why != proved {
			t.Errorf("all %t: asked for ever: %v", all, f.c.why)
		}
	}
}

// An endpoint lags behind a hint, so a query is asked again until an answer is known to include it. The hint counts
// once: as false in the first slot, and as true if a later answer has changed.
func TestAHintCountsOnce(t *testing.T) {
	const again, late = policy.ShownAgain, policy.ShownLate
	for name, c := range map[string]struct {
		changed []bool // minute by minute, in one slot each, and at last after the lag
		want    []policy.Shown
	}{
		"true":  {[]bool{false, false, true, false, false}, []policy.Shown{0, again, late, again, again}},
		"early": {[]bool{true, false, true, false, false}, []policy.Shown{policy.ShownTrue, again, again, again, again}},
		"false": {[]bool{false, false, false, false, false}, []policy.Shown{0, again, again, again, again}},
	} {
		f := followsFeed(t, false, nil)
		f.c.touch = nil
		answer := func(after int, changed bool) policy.Shown {
			f.c.Stats.LastRun, f.c.Hinted = policy.Run{At: f.now.Add(time.Duration(after) * time.Minute), Outcome: registry.Unchanged}, true
			f.recordAnswer(f.c, changed, true, f.now, f.now)
			return f.c.Shown
		}
		slot := func() {
			f.c.Stats.Last, f.p().ran = f.p().slot-1, []*item{f.c}
			f.p().settleRan()
		}
		for range 2 { // the next hint counts again
			f.Hint(registry.Hint{Touched: []string{"http://a"}}, f.now)
			for i, changed := range c.changed {
				if i == len(c.changed)-1 {
					i += 10
				}
				if got, want := answer(1+i, changed), c.want[i%10]; got != want {
					t.Errorf("%s: answer %d shows %d, want %d", name, i+1, got, want)
				}
				slot()
			}
			f.now = f.now.Add(time.Hour)
		}
		f.Hint(registry.Hint{Touched: []string{"http://a"}}, f.now)
		if answer(1, true); answer(2, false) != policy.ShownTrue {
			t.Errorf("%s: an answer of the same slot that had changed is forgotten", name)
		}
	}
}

// A hint about everything is not used up by an answer that may be older than it.
func TestHintsAboutAllStay(t *testing.T) {
	f := followsFeed(t, false, nil)
	f.Hint(registry.Hint{All: true}, f.now)
	f.c.Stats.LastRun = policy.Run{At: f.now.Add(time.Minute), Outcome: registry.Unchanged}
	if f.recordAnswer(f.c, false, false, time.Time{}, f.now); f.NextArmed().IsZero() {
		t.Error("the query is not asked again")
	}
	f.c.Stats.LastRun.At = f.now.Add(11 * time.Minute)
	if f.recordAnswer(f.c, false, true, f.now, f.now); !f.NextArmed().IsZero() {
		t.Error("the query is asked again for ever")
	}
}

// A query that was armed while the clock was ahead is asked soon after it was set back.
func TestTheClockIsSetBack(t *testing.T) {
	f := followsFeed(t, false, nil)
	ahead := f.now.Add(24 * time.Hour)
	f.p().now = ahead
	f.state.Head.Time, f.state.Heard = ahead, ahead
	f.tell(20, false)
	touch := proof.Touch{Feed: "wd"}
	touch.Add(&feed.Event{Place: feed.Place{Topic: "t", Offset: 20, Time: ahead}}, feed.Matched)
	f.Touched(map[string]proof.Touch{f.c.Query.ID: touch})
	if at := f.NextArmed(); at.Before(ahead) {
		t.Fatal(at)
	}
	f.Wake(f.now)
	if at := f.NextArmed(); at.Before(f.now) || at.After(f.now.Add(10*time.Minute)) {
		t.Errorf("it is asked at %v, and now it is %v", at, f.now)
	}
}

// A query that events match all the time is asked in each slot and no more, until it changes.
func TestAskedInVain(t *testing.T) {
	f := followsFeed(t, true, nil)
	marked := func() bool {
		f.touch(f.state.Head.Offset)
		clear(f.p().ownHints().marked)
		f.position(f.state.Head.Offset + 1)
		_, is := f.p().ownHints().marked[f.c]
		return is
	}
	answer := func(why string, changed bool) {
		event, armed := f.p().isArmed(f.c)
		f.c.Stats.LastRun = policy.Run{At: f.now, Slot: f.p().slot, Outcome: registry.Unchanged, Why: why}
		f.c.Stats.Before = f.view.Told(feed.Place{Offset: f.state.Head.Offset + 1})
		f.recordAnswer(f.c, changed, armed, event, f.now)
	}
	if f.tell(20, true); !marked() {
		t.Fatal("an event does not mark the query")
	}
	answer(TierOffGrid, false)
	if f.tell(30, true); marked() {
		t.Error("it is asked again before the next slot")
	}
	f.p().slot++
	answer(TierRanked, false)
	if f.tell(40, true); marked() {
		t.Error("it is asked again after its turn in a slot")
	}
	answer(TierRanked, true)
	if f.tell(50, true); !marked() {
		t.Error("it has changed, and is not asked at once")
	}
	answer(TierRanked, false)
	f.p().slot += 2
	if f.tell(60, true); !marked() {
		t.Error("it was not asked for a slot, and is not asked at once")
	}
	f.c.touch = nil
	f.touch(1)
	answer(TierRanked, false) // as polling does: nothing has matched it
	if f.tell(70, true); !marked() {
		t.Error("it was asked for no event, and is not asked at once")
	}
}

// Where slots are rarer than the lag, a query that was asked in vain does not wait for the next one.
func TestAskedInVainBeforeARareSlot(t *testing.T) {
	f := followsFeed(t, true, nil)
	f.p().lead = time.Hour
	f.tell(20, true)
	f.touch(20)
	f.c.Stats.LastRun = policy.Run{At: f.now, Slot: f.p().slot, Outcome: registry.Unchanged, Why: TierOffGrid}
	f.recordAnswer(f.c, false, true, f.now, f.now)
	if !f.p().askedInVain(f.c) {
		t.Error("it is asked again at once")
	}
	f.p().now = f.now.Add(3 * time.Minute)
	if f.p().askedInVain(f.c) {
		t.Error("after 3 of 10 minutes it is not asked")
	}
}

// Where the endpoint tells no position, the answers in slots may be from before the event.
func TestAskedTooEarly(t *testing.T) {
	f := followsFeed(t, false, nil)
	f.tell(20, false)
	f.touch(20)
	ask := func(why string) {
		f.c.Stats.LastRun = policy.Run{At: f.now, Slot: f.p().slot, Outcome: registry.Unchanged, Why: why}
		f.recordAnswer(f.c, false, true, f.now, f.now)
	}
	marked := func() bool {
		clear(f.p().ownHints().marked)
		f.p().armed[f.c] = f.now
		f.Wake(f.now)
		_, is := f.p().ownHints().marked[f.c]
		return is
	}
	if ask(TierRanked); !marked() {
		t.Error("its turn in a slot uses up the event")
	}
	if ask(TierOffGrid); marked() {
		t.Error("it is asked twice between two slots")
	}
}

// A result has changed although it was proved. The answer may include an event that was published before it ended by a
// clock that is ahead of this machine's, and that was not heard yet.
func TestAChangeWithoutAnEventWaitsForTheFeed(t *testing.T) {
	f := followsFeed(t, true, nil)
	for ahead, want := range map[time.Duration]int64{0: 11, 5 * time.Second: 16} {
		f.state.Ahead = ahead
		for head := int64(10); head < 20; head++ {
			f.tell(head, true)
			reached, told := f.Reached(f.c.Query.ID, f.c.Stats.Before, placeAt(10).Time)
			if reached || told != (head > want) {
				t.Errorf("events come from %s in the future, and the last one %d s after the answer: told %t", ahead, head-10, told)
			}
		}
	}
}
