package proof

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry/feed"
)

func sec(n int64) time.Time { return noon.Add(time.Duration(n) * time.Second) }

// What is missing at a gap may be anything until the gap is noticed, so no earlier answer is proved.
func TestGapsProveNothing(t *testing.T) {
	p := func(n, s int64) feed.Place { return feed.Place{Offset: n, Time: sec(s)} }
	tm := func(s int64) feed.Place { return feed.Place{Time: sec(s)} }
	events := func(places ...feed.Place) (list []feed.Event) {
		for _, at := range places {
			list = append(list, feed.Event{Place: at})
		}
		return list
	}
	type told struct {
		feed.Batch
		at int64 // in seconds
	}
	for name, c := range map[string]struct {
		batches []told
		answer  feed.Place // the position of the endpoint
		asked   int64
	}{
		"a log of patches has lost 6 to 9, and 10 was not told": {[]told{
			{feed.Batch{Events: events(p(1, 1), p(5, 5)), Head: p(5, 5)}, 5},
			{feed.Batch{Gap: "versions after 5 are missing", Head: p(10, 100)}, 101},
		}, offset(10), 50},
		"a log was restored to 8, and 9 and 10 are others now": {[]told{
			{feed.Batch{Events: events(p(1, 1), p(10, 5)), Head: p(10, 5)}, 5},
			{feed.Batch{Gap: "the patch of version 11 follows another 10", Events: events(p(11, 100)), Head: p(11, 100)}, 100},
		}, offset(11), 50},
		"a page had a member at 90, and was removed": {[]told{
			{feed.Batch{Head: tm(0)}, 1}, {feed.Batch{Head: tm(60)}, 61},
			{feed.Batch{Gap: "the page was removed before it was read to its end", Head: tm(60)}, 121}, {feed.Batch{Head: tm(120)}, 122},
		}, tm(80), 81},
	} {
		f := Feed{Silence: DefaultSilence}
		for _, b := range c.batches {
			f.Take(&b.Batch, sec(b.at))
		}
		v := view(city, f, Endpoint{})
		b := v.Told(c.answer)
		b.Answered = sec(c.asked)
		if touch := (Touch{Feed: "wd", Reached: c.batches[0].Head}); v.Holds(touch, b) {
			t.Errorf("%s: %+v", name, v.Proof(touch, b, ""))
		}
	}
}

// An event without a time may be as late as its arrival. It shows neither that all before was told nor disorder.
func TestEventWithoutATime(t *testing.T) {
	f := Feed{Silence: DefaultSilence}
	take := func(offset int64, at time.Time, now int64) Touch {
		e := feed.Event{Place: feed.Place{Offset: offset, Time: at}}
		b := feed.Batch{Events: []feed.Event{e}, Head: feed.Place{Offset: offset, Time: f.Head.Time}}
		if !at.IsZero() {
			b.Head.Time = at
		}
		f.Take(&b, sec(now))
		touch := Touch{Feed: "wd"}
		touch.Add(&b.Events[0], feed.Matched)
		return touch
	}
	take(1, sec(0), 60)
	take(2, sec(100), 160)
	touch := take(3, time.Time{}, 161)
	if !f.Head.Time.Equal(sec(100)) || !f.Complete().Equal(sec(100)) {
		t.Errorf("the head is %+v", f.Head)
	}
	take(4, sec(102), 162)
	if f.Disorder != 0 || !f.Head.Time.Equal(sec(102)) {
		t.Errorf("disorder %v, head %+v", f.Disorder, f.Head)
	}
	v := view(city, f, Endpoint{})
	for position, want := range map[int64]bool{101: false, 150: false, 162: true} {
		b := v.Told(feed.Place{Time: sec(position)})
		if v.Shows(touch, b) != want {
			t.Errorf("a position of %d s includes it: %v", position, !want)
		}
	}
}

// two hours of patches are unread; the first one of them is read
func TestBacklogProvesNothingNew(t *testing.T) {
	var f Feed
	f.Silence = DefaultSilence
	p := func(n, s int64) feed.Place { return feed.Place{Offset: n, Time: sec(s)} }
	f.Take(&feed.Batch{Events: []feed.Event{{Place: p(1, 1)}, {Place: p(10, 5)}}, Head: p(10, 5)}, sec(5))
	f.Take(&feed.Batch{Events: []feed.Event{{Place: p(11, 7200)}}, Head: p(11, 7200), More: true}, sec(7200))
	v := view(city, f, Endpoint{})
	b := v.Told(offset(11))
	b.Answered = sec(6)
	touch := Touch{Feed: "wd", Reached: p(1, 1)}
	if pr := v.Proof(touch, b, ""); v.Holds(touch, b) && pr.Until.After(sec(7000)) {
		t.Errorf("proved until %v with 10000 patches unread", pr.Until)
	}
}

// Two servers are known; nothing was asked for longer than lag (all was proved, or slots are that far apart).
func TestIdleServersAreNotBelieved(t *testing.T) {
	var s Positions
	var e Endpoint
	lag := 10 * time.Minute
	m := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	for i := range 30 { // two servers, 5 apart
		s.Take(&e, offset(1000+int64(i)-5*int64(i%2)), m(i), lag)
	}
	got := s.Take(&e, offset(1100), m(100), lag) // the fast one answers; the slow one is at 1095
	if got.Offset > 1095 {
		t.Errorf("believed %+v from one server, although several=%v", got, e.several(m(100)))
	}
}

// The clock is set back by a few seconds: what was told until then was not told until later.
func TestNothingIsHeardBeforeTheClockIsThereAgain(t *testing.T) {
	at := func(s int64) feed.Place { return feed.Place{Offset: s, Time: sec(s)} }
	f := Feed{Silence: DefaultSilence}
	f.Take(&feed.Batch{Head: at(100)}, sec(100))
	v := view(city, f, Endpoint{})
	for now, want := range map[int64]bool{120: true, 100: true, 99: true, 97: false, 70: false} {
		if v.Now = sec(now); v.HeardUntil(sec(60)) != want {
			t.Errorf("heard at 100 s, and it is %d s: %v", now, !want)
		}
	}
	f.Take(&feed.Batch{Head: feed.Place{Offset: 101, Time: sec(97)}}, sec(97))
	v = view(city, f, Endpoint{})
	v.Now = sec(99)
	for answered, want := range map[int64]bool{95: true, 97: false, 98: false} {
		if v.HeardUntil(sec(answered)) != want {
			t.Errorf("the feed was heard at 97 s, and has told what happened until an answer of %d s: %v", answered, !want)
		}
	}
}

// The clock was an hour ahead and is set back while a backlog is unread: what was told until then was not told until that time.
func TestBacklogAfterTheClockIsSetBack(t *testing.T) {
	p := func(n, s int64) feed.Place { return feed.Place{Offset: n, Time: sec(s)} }
	for name, more := range map[string]bool{"it was read to its end before": false, "it was not": true} {
		f := Feed{Silence: DefaultSilence}
		f.Take(&feed.Batch{Events: []feed.Event{{Place: p(1, 3601)}}, Head: p(1, 3601), More: more}, sec(3601))
		f.Take(&feed.Batch{Events: []feed.Event{{Place: p(2, 10)}}, Head: p(2, 10), More: true}, sec(10))
		v := view(city, f, Endpoint{})
		b := v.Told(offset(2))
		b.Answered = sec(11)
		touch := Touch{Feed: "wd", Numbering: f.Numbering, Reached: p(1, 1)}
		if pr := v.Proof(touch, b, ""); pr.Position != (feed.Place{}) {
			t.Errorf("%s: an answer is proved until %+v", name, pr.Position)
		}
		f.Take(&feed.Batch{Events: []feed.Event{{Place: p(3, 30)}}, Head: p(3, 30)}, sec(30))
		if v := view(city, f, Endpoint{}); !v.HeardUntil(sec(20)) {
			t.Errorf("%s: once it is read to its end, %v is told", name, f.Complete())
		}
	}
}

// The clock was an hour ahead and is set back: times of before are later than those of what happens now.
func TestClockIsSetBack(t *testing.T) {
	at := func(s int64) feed.Place { return feed.Place{Time: sec(s)} }
	var f Feed
	f.Silence = DefaultSilence
	for s := int64(-7200); s <= 7200; s += 60 { // a stream without times of its own
		f.Take(&feed.Batch{Head: at(s)}, sec(s))
	}
	e := city
	e.Position = ""
	v := view(e, f, Endpoint{})
	b := v.Assumed(sec(7200), 10*time.Minute)
	b.Answered = sec(7201)
	touch := Touch{Feed: "wd", Reached: at(3600)}
	v.Now = sec(7202)
	if !v.Holds(touch, b) {
		t.Fatalf("%+v", v.Proof(touch, b, ""))
	}
	set := v // the clock alone, before the feed is heard
	set.Now = sec(3660)
	hit := touch
	hit.Add(&feed.Event{Place: at(3660)}, feed.Matched)
	if set.Holds(hit, b) || !set.Armed(hit, b) {
		t.Errorf("an answer from the future includes an event: %+v", set.Proof(hit, b, ""))
	}
	later := touch
	event := feed.Batch{Events: []feed.Event{{Place: at(3660)}}, Head: at(3660)}
	f.Take(&event, sec(3660))
	later.Join(Touch{Feed: "wd", Numbering: f.Numbering, Reached: at(3660), Matched: at(3660)})
	for s := int64(3720); s <= 9000; s += 60 {
		f.Take(&feed.Batch{Head: at(s)}, sec(s))
		v := view(e, f, Endpoint{})
		if v.Now = sec(s); v.Holds(later, b) {
			t.Fatalf("after %d s: an answer from before the event proves: %+v", s, v.Proof(later, b, ""))
		}
	}
	after := view(e, f, Endpoint{})
	b = after.Assumed(sec(9000), 10*time.Minute)
	if b.Answered = sec(8990); !after.Holds(later, b) {
		t.Errorf("a later answer proves nothing: %+v", after.Proof(later, b, ""))
	}
}

// The clock is set back by half a minute, which is longer than the lag: an event after that is earlier than an answer from before.
func TestClockIsSetBackByLittle(t *testing.T) {
	at := func(s int64) feed.Place { return feed.Place{Time: sec(s)} }
	f := Feed{Silence: DefaultSilence}
	for s := int64(0); s <= 7200; s += 10 {
		f.Take(&feed.Batch{Head: at(s)}, sec(s))
	}
	e := city
	e.Position = ""
	v := view(e, f, Endpoint{})
	b := v.Assumed(sec(7200), 10*time.Second)
	b.Answered = sec(7201)
	touch := Touch{Feed: "wd", Reached: at(3600)}
	v.Now = sec(7202)
	if !v.Holds(touch, b) {
		t.Fatalf("%+v", v.Proof(touch, b, ""))
	}
	f.Take(&feed.Batch{Events: []feed.Event{{Place: at(7172)}}, Head: at(7172)}, sec(7172))
	touch.Join(Touch{Feed: "wd", Numbering: f.Numbering, Reached: at(7172), Matched: at(7172)})
	for s := int64(7180); s <= 9000; s += 10 {
		f.Take(&feed.Batch{Head: at(s)}, sec(s))
		v := view(e, f, Endpoint{})
		if v.Now = sec(s); v.Holds(touch, b) {
			t.Fatalf("after %d s: an answer from before the event proves: %+v", s, v.Proof(touch, b, ""))
		}
	}
}

// While the clock is an hour ahead, each event seems to come an hour late. Once it is set back, that is forgotten.
func TestEventsAreNotLateOnceTheClockIsSetBack(t *testing.T) {
	f := Feed{Silence: DefaultSilence}
	tell := func(s int64, here time.Time) {
		e := feed.Event{Place: feed.Place{Offset: s, Time: sec(s)}}
		f.Take(&feed.Batch{Events: []feed.Event{e}, Head: feed.Place{Offset: s, Time: here}}, here)
	}
	for s := int64(60); s <= 600; s += 60 {
		tell(s, sec(s).Add(time.Hour))
	}
	if f.Disorder < 50*time.Minute {
		t.Fatalf("the events are %s late", f.Disorder)
	}
	for s := int64(660); s <= 900; s += 60 {
		tell(s, sec(s))
	}
	v := view(city, f, Endpoint{})
	b := v.Told(offset(845))
	b.Answered = sec(850)
	touch := Touch{Feed: "wd", Reached: feed.Place{Offset: 660, Time: sec(660)}}
	if p := v.Proof(touch, b, ""); p.Until.IsZero() {
		t.Errorf("%+v", p)
	}
}

// The clock here is behind: an answer may include events that come from the future, as far as is known here.
func TestClockIsBehind(t *testing.T) {
	for ahead, want := range map[time.Duration]bool{0: true, 40 * time.Second: false, 2 * time.Hour: false} {
		f := Feed{Silence: DefaultSilence}
		tell := func(n, here int64) {
			p := at(n)
			p.Time = sec(here).Add(ahead - 200*time.Millisecond)
			f.Take(&feed.Batch{Events: []feed.Event{{Place: p}}, Head: p}, sec(here))
		}
		tell(100, 100)
		tell(110, 110)
		v := view(city, f, Endpoint{})
		b := v.Told(offset(105))
		b.Answered = sec(112) // includes event 113, which comes later
		tell(112, 114)
		v = view(city, f, Endpoint{})
		p := v.Proof(Touch{Feed: "wd", Reached: at(100)}, b, "")
		if got := !p.Until.IsZero(); got != want || ahead > time.Minute && !strings.Contains(p.Unprovable, "clock seems to be 2h0m0s behind") {
			t.Errorf("%s behind: %+v", ahead, p)
		}
		ahead = 0 // it is set
		for n := int64(8000); n < 8010; n++ {
			tell(n, n)
		}
		v = view(city, f, Endpoint{})
		b = v.Told(offset(8003))
		b.Answered = sec(8004)
		if p := v.Proof(Touch{Feed: "wd", Reached: at(100)}, b, ""); p.Until.IsZero() {
			t.Errorf("an hour after it was set: %+v", p)
		}
	}
}

// What may have changed anything is noted once, and reaches all queries.
func TestWhatReachesAll(t *testing.T) {
	f := Feed{Silence: DefaultSilence}
	take(&f, "", at(100), at(200))
	v := view(city, f, Endpoint{})
	touch, before := Touch{Feed: "wd", Reached: at(120), Grew: at(120)}, v.Told(offset(150))
	if !v.Holds(touch, before) || !v.Bounds(touch, before) {
		t.Fatal(v.Proof(touch, before, ""))
	}
	f.Reach(&feed.Event{Place: at(140), All: true})
	if v = view(city, f, Endpoint{}); !v.Holds(touch, before) {
		t.Error("an answer that includes it ends")
	}
	f.Reach(&feed.Event{Place: at(160), All: true})
	v = view(city, f, Endpoint{})
	if v.Holds(touch, before) || v.Bounds(touch, before) || v.Armed(touch, before) || v.Cause(touch, before) != Possible {
		t.Errorf("it holds although anything may have changed: %q", v.Cause(touch, before))
	}
	if first, ok := v.Until(touch, before); !ok || first.Offset != 160 {
		t.Errorf("it holds until %+v, %v", first, ok)
	}
	if late := v.Told(offset(161)); !v.Holds(touch, late) {
		t.Error("an answer that is later proves nothing")
	}
	for n := range int64(20) {
		f.Reach(&feed.Event{Place: at(170 + n), All: true})
	}
	if v = view(city, f, Endpoint{}); len(f.Any.Recent) > maxRecent {
		t.Errorf("%d places are remembered", len(f.Any.Recent))
	}
	if _, ok := v.Until(touch, before); ok {
		t.Error("the first one is known although it was dropped")
	}
	take(&f, "", feed.Place{Topic: "t", Offset: 5, Time: noon.Add(300 * time.Second)}) // begins again
	if f.Any.Reached != (feed.Place{}) {
		t.Error("numbers of before count")
	}
}

// Rows of an answer that is worth nothing hide what reached the query.
func TestWorthlessRowsHide(t *testing.T) {
	var f Feed
	take(&f, "", at(100), at(200))
	v := view(city, f, Endpoint{})
	before := v.Told(offset(150))
	touch := Touch{Feed: "wd", Reached: at(120), By: v.Of()}
	if !v.Holds(touch, before) {
		t.Fatal(v.Proof(touch, before, ""))
	}
	v.Change(func(e *Endpoint) { e.Rebuilt++ })
	before = v.Told(offset(150)) // of a new answer
	if _, ok := v.Until(touch, before); ok || v.Holds(touch, before) || v.Bounds(touch, before) || v.Cause(touch, before) != Unplaced {
		t.Errorf("%+v", v.Proof(touch, before, ""))
	}
	touch.Join(Touch{Feed: "wd", Reached: at(140)})
	if !v.Holds(touch, before) {
		t.Errorf("after it was told again: %+v", v.Proof(touch, before, ""))
	}
}

// Several servers answer, all within lag: an answer may come from the slowest.
func TestTheSlowestServerCounts(t *testing.T) {
	var s Positions
	var e Endpoint
	lag := 10 * time.Minute
	for i := range int64(60) { // every 20 seconds, one of three servers
		now := noon.Add(time.Duration(i) * 20 * time.Second)
		got := s.Take(&e, offset(1000+i-10*(i%3)), now, lag)
		if i < 35 {
			continue
		}
		slowest := int64(math.MaxInt64)
		for j := i - 30; j <= i; j++ {
			slowest = min(slowest, 1000+j-10*(j%3))
		}
		if got.Offset == 0 || got.Offset > slowest {
			t.Errorf("position %d is believed, and one server told %d", got.Offset, slowest)
		}
	}
}

// Of a feed with several topics, the numbers of one say nothing about those of another, so no number begins again.
func TestNumbersOfSeveralTopics(t *testing.T) {
	p := func(topic string, n, s int64) feed.Place { return feed.Place{Topic: topic, Offset: n, Time: sec(s)} }
	f := Feed{Silence: DefaultSilence}
	f.Take(&feed.Batch{Events: []feed.Event{{Place: p("a", 1000, 1)}, {Place: p("b", 9000, 2)}}}, sec(3))
	f.Take(&feed.Batch{Gap: "b lacks some", Events: []feed.Event{{Place: p("b", 9100, 30)}}}, sec(40))
	base := f.Base.Time
	f.Take(&feed.Batch{Events: []feed.Event{{Place: p("a", 1001, 5)}}}, sec(41))
	if f.Numbering != 0 || !f.Base.Time.Equal(base) {
		t.Errorf("an event of a after a gap in b: %+v, and events were known from %v on", f, base)
	}
}

// Touches are recorded before the state whose numbers they have: until then they prove nothing.
func TestTouchOfNewerNumbers(t *testing.T) {
	var f Feed
	take(&f, "", at(100), at(200))
	v := view(city, f, Endpoint{})
	before, touch := v.Told(offset(150)), Touch{Feed: "wd", Reached: at(24)}
	if !v.Holds(touch, before) || !holdsUntil(v, touch, before) {
		t.Fatal(v.Proof(touch, before, ""))
	}
	if touch.Numbering = 1; v.Holds(touch, before) || holdsUntil(v, touch, before) || v.Bounds(touch, before) {
		t.Errorf("proved: %+v", v.Proof(touch, before, ""))
	}
}

// The clock was 40 days ahead when several servers answered: that is believed for a day, and not for 41.
func TestServersWhileTheClockWasAhead(t *testing.T) {
	var s Positions
	e := Endpoint{Back: noon.Add(40 * 24 * time.Hour)}
	s.Take(&e, offset(1), noon, time.Minute)
	if !e.several(noon.Add(backFor-time.Minute)) || e.several(noon.Add(backFor+time.Minute)) {
		t.Errorf("several servers since %v", e.Back)
	}
}

// A source says what was told until it asked. Events that it has read since then do not come out of order, and others that
// happened since then may be unread, or lost.
func TestEventsReadSinceTheSourceAsked(t *testing.T) {
	tm := func(s int64) feed.Place { return feed.Place{Time: sec(s)} }
	f := Feed{Silence: DefaultSilence}
	f.Take(&feed.Batch{Head: tm(0)}, sec(0))
	for s := int64(600); s <= 3600; s += 600 { // a backlog, which was asked for at 10 s
		f.Take(&feed.Batch{Events: []feed.Event{{Place: tm(s)}}, Head: tm(s), More: true}, sec(s))
	}
	f.Take(&feed.Batch{Head: tm(10)}, sec(3610))
	if !f.Complete().Equal(sec(10)) {
		t.Errorf("after the backlog, it is complete until %v", f.Complete())
	}
	lost := f
	lost.Take(&feed.Batch{Gap: "some are missing", Head: tm(3620)}, sec(3620))
	if end := lost.Earlier[0].End.Time; !end.Equal(sec(10)) {
		t.Errorf("events may be missing from %v on", end)
	}
	f.Take(&feed.Batch{Head: tm(3620)}, sec(3620))
	if !f.Complete().Equal(sec(3620)) {
		t.Errorf("once it was asked again, it is complete until %v", f.Complete())
	}
	f.Take(&feed.Batch{Head: tm(3600)}, sec(3630)) // a cache answers, with what was told before
	if !f.Complete().Equal(sec(3620)) {
		t.Errorf("after an older answer, it is complete until %v", f.Complete())
	}
}

// Numbers begin again at 0, which counts as none: no position of before includes that event, or what came before it and is missing.
func TestNumbersBeginAgainAtZero(t *testing.T) {
	for _, gap := range []string{"", "the topic was made again"} {
		f := Feed{Silence: DefaultSilence}
		take(&f, "", at(100), at(200))
		touch := Touch{Feed: "wd", Reached: at(120)}
		v := view(city, f, Endpoint{})
		before := v.Told(offset(201))
		if !v.Holds(touch, before) {
			t.Fatal(v.Proof(touch, before, ""))
		}
		b := feed.Batch{Gap: gap, Events: []feed.Event{{Place: feed.Place{Topic: "t", Time: sec(201)}}}}
		f.Take(&b, sec(201))
		reached := touch
		reached.Join(Touch{Feed: "wd", Numbering: f.Numbering, Reached: b.Events[0].Place})
		v = view(city, f, Endpoint{})
		if v.Holds(reached, before) {
			t.Errorf("an answer of before includes event 0: %+v", v.Proof(reached, before, ""))
		}
		if v.Holds(touch, before) != (gap == "") {
			t.Errorf("of a query that it does not reach, with the gap %q: %+v", gap, v.Proof(touch, before, ""))
		}
		take(&f, "", feed.Place{Topic: "t", Offset: 1, Time: sec(202)})
		if v = view(city, f, Endpoint{}); !v.Holds(reached, v.Told(offset(2))) {
			t.Errorf("an answer that includes event 1 proves nothing: %+v", v.Proof(reached, v.Told(offset(2)), ""))
		}
	}
}

// A feed that has told no event yet has no lag of its last event.
func TestNoLagBeforeAnEvent(t *testing.T) {
	d, now := feed.Definition{Name: "wd", Kind: feed.Wikimedia}, noon
	var f Feed
	f.Take(&feed.Batch{Head: feed.Place{Time: now}}, now)
	if s := f.Status(d, now); s.LagSeconds != nil {
		t.Errorf("without an event: the lag is %v s", *s.LagSeconds)
	}
	f.Take(&feed.Batch{Events: []feed.Event{{Place: feed.Place{Time: now.Add(-2 * time.Second)}}}}, now)
	if s := f.Status(d, now); s.LagSeconds == nil || *s.LagSeconds != 2 {
		t.Errorf("after an event: %+v", s)
	}
}
