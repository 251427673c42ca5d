package proof

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// at is the place of event n, which was published n seconds after noon.
func at(n int64) feed.Place {
	return feed.Place{Topic: "t", Offset: n, Time: noon.Add(time.Duration(n) * time.Second)}
}

func offset(n int64) feed.Place { return feed.Place{Offset: n} }

func take(f *Feed, gap string, places ...feed.Place) {
	b := feed.Batch{Gap: gap}
	now := noon
	if f.Heard.After(now) {
		now = f.Heard
	}
	for _, p := range places {
		b.Events = append(b.Events, feed.Event{Place: p})
		if p.Time.After(now) {
			now = p.Time
		}
	}
	f.Silence = DefaultSilence
	f.Take(&b, now)
}

// city is the endpoint whose number is 1 in the store.
var city = registry.Endpoint{Name: "city", URL: "http://a/", Feed: "wd", Position: "SELECT ?n {}", Lag: registry.DefaultLag}

func view(e registry.Endpoint, f Feed, recorded Endpoint) *View {
	f.Members = map[string]uint64{"city": 1}
	v := NewView(e, f, 1, recorded, f.Heard)
	v.Tell(trusted)
	return v
}

func holdsUntil(v *View, t Touch, b feed.Before) bool {
	t.Add(&feed.Event{Place: at(199)}, feed.Possible)
	first, ok := v.Until(t, b)
	return ok && first.Offset == 199
}

// What an answer proves ends if the endpoint's settings change, its data are replaced, the feed has another
// address, or its numbers begin again.
func TestAPositionBelongsToItsFeedAndEndpoint(t *testing.T) {
	var f Feed
	f.Source = "wikimedia http://feed/"
	take(&f, "", at(100), at(200))
	touch, moved := Touch{Feed: "wd", Reached: at(120)}, city
	v := view(city, f, Endpoint{})
	before := v.Told(offset(150))
	if !v.Holds(touch, before) {
		t.Fatal(v.Proof(touch, before, ""))
	}
	if !holdsUntil(v, touch, before) {
		t.Fatal(v.Until(touch, before))
	}
	for name, edit := range map[string]func(e *registry.Endpoint, f *Feed, recorded *Endpoint){
		"url":           func(e *registry.Endpoint, _ *Feed, _ *Endpoint) { e.URL = "http://b/" },
		"default graph": func(e *registry.Endpoint, _ *Feed, _ *Endpoint) { e.DefaultGraphURI = []string{"http://g/"} },
		"position":      func(e *registry.Endpoint, _ *Feed, _ *Endpoint) { e.Position = "SELECT ?m {}" },
		"lag":           func(e *registry.Endpoint, _ *Feed, _ *Endpoint) { e.Lag *= 2 },
		"data":          func(_ *registry.Endpoint, _ *Feed, recorded *Endpoint) { recorded.Rebuilt++ },
		"address":       func(_ *registry.Endpoint, f *Feed, _ *Endpoint) { f.Source = "wikimedia http://other/" },
		"numbers":       func(_ *registry.Endpoint, f *Feed, _ *Endpoint) { take(f, "begin again", at(5), at(300)) },
	} {
		e, g, recorded := moved, f, Endpoint{}
		edit(&e, &g, &recorded)
		v := view(e, g, recorded)
		if v.Holds(touch, before) || holdsUntil(v, touch, before) || v.Includes(before, at(1)) {
			t.Errorf("%s: %+v", name, v.Proof(touch, before, ""))
		}
	}
	e := city
	e.Policy, e.Slot, e.Budget = "rr", "@every 1h", registry.Duration(time.Hour)
	if v := view(e, f, Endpoint{}); !v.Holds(touch, before) {
		t.Error("an edit that concerns no answer ends proofs:", v.Proof(touch, before, ""))
	}
}

// When the numbers of a feed begin again, events with small numbers come after those with large ones.
func TestNumbersBeginAgain(t *testing.T) {
	var f Feed
	take(&f, "", at(100), at(200))
	touch := Touch{Feed: "wd", Numbering: f.Numbering, Reached: at(199)}
	again := func(n, seconds int64) feed.Place { return feed.Place{Topic: "t", Offset: n, Time: at(seconds).Time} }
	take(&f, "the numbers begin again", again(5, 201))
	take(&f, "", again(6, 202))
	v := view(city, f, Endpoint{})
	before := v.Told(offset(7))
	if !v.Holds(touch, before) {
		t.Error("an answer later than what is known is not proved:", v.Proof(touch, before, ""))
	}
	if old := v.Told(offset(200)); v.Holds(touch, old) {
		t.Error("a position of the earlier numbers is believed")
	}
	touch.Join(Touch{Feed: "wd", Numbering: f.Numbering, Reached: again(6, 202), Matched: again(6, 202)})
	if before = v.Told(offset(6)); v.Holds(touch, before) || !v.Armed(touch, before) {
		t.Error("an event is lost:", touch, v.Proof(touch, before, ""))
	}
	if touch.Join(Touch{Feed: "wd", Reached: at(300)}); touch.Reached.Offset != 6 {
		t.Error("an event of the earlier numbers counts:", touch)
	}
}

// A query that is new to a feed without events is not proved.
func TestNothingIncludesNoPlace(t *testing.T) {
	var f Feed
	take(&f, "", at(100), at(200))
	v := view(city, f, Endpoint{})
	if v.Holds(Touch{Feed: "wd"}, v.Told(offset(150))) {
		t.Error("proved")
	}
}

// An endpoint whose position goes back behind one that is older than its lag has other data.
func TestDataAreReplaced(t *testing.T) {
	var s Positions
	var e Endpoint
	for i := range int64(30) {
		s.Take(&e, offset(1000+i), noon.Add(time.Duration(i)*time.Minute), 10*time.Minute)
	}
	s.Take(&e, offset(1025), noon.Add(30*time.Minute), 10*time.Minute) // another server
	if e.Back.IsZero() || e.Rebuilt != 1 {
		t.Errorf("%+v", e)
	}
	s.Take(&e, offset(3), noon.Add(31*time.Minute), 10*time.Minute)
	if e.Rebuilt != 2 {
		t.Errorf("%+v", e)
	}
	e = Endpoint{}
	s = Positions{}
	s.Take(&e, offset(1000), noon, time.Minute) // the slots are longer than the lag
	s.Take(&e, offset(1100), noon.Add(time.Hour), time.Minute)
	if s.Take(&e, offset(900), noon.Add(2*time.Hour), time.Minute); e.Back.IsZero() || e.Rebuilt == 0 {
		t.Errorf("%+v", e)
	}
}

// Times that cannot be true prove nothing.
func TestTimesAreBounded(t *testing.T) {
	var f Feed
	b := feed.Batch{Events: []feed.Event{{Place: at(1)}, {Place: feed.Place{Offset: 2, Time: noon.AddDate(4, 0, 0)}},
		{Place: feed.Place{Offset: 3, Time: time.Unix(0, 0)}}}, Head: feed.Place{Time: noon.AddDate(9, 0, 0)}}
	if f.Take(&b, at(10).Time); f.Head.Time.After(at(10).Time) || f.Disorder > time.Minute {
		t.Errorf("%+v", f)
	}
	f.Silence = DefaultSilence
	v := view(city, f, Endpoint{})
	for text, now := range map[string]time.Time{
		"":                       f.Heard.Add(time.Minute),
		"the feed is behind":     f.Heard.Add(10 * time.Minute),
		"the clock was set back": f.Heard.Add(-time.Hour),
	} {
		v.Feed.Heard = f.Heard
		if text == "the feed is behind" { // it is catching up
			v.Feed.Heard = now
		}
		if v.Now = now; text == "" && v.Refusal() != "" || !strings.HasPrefix(v.Refusal(), text) {
			t.Errorf("%q: %q", text, v.Refusal())
		}
	}
	lag := 10 * time.Minute
	if got := v.Assumed(f.Head.Time.Add(time.Hour), lag).Assumed; got.After(f.Head.Time.Add(time.Minute - lag)) {
		t.Error("the clock is ahead:", got)
	}
	if v.Feed.Head = (feed.Place{}); v.Assumed(noon, lag).Known() {
		t.Error("nothing was heard")
	}
}

// Why the position is not known is said before how often it was told, and only where one is asked for.
func TestAFailingPosition(t *testing.T) {
	var f Feed
	f.Source = "wikimedia http://feed/"
	take(&f, "", at(100), at(200))
	f.Members = map[string]uint64{"city": 1}
	recorded := Endpoint{Failing: "position: the answer has 0 rows"}
	if why := NewView(city, f, 1, recorded, f.Heard).Refusal(); !strings.Contains(why, "0 rows") {
		t.Error(why)
	}
	e := city
	e.Position = ""
	if why := NewView(e, f, 1, recorded, f.Heard).Refusal(); why != "" {
		t.Error(why)
	}
}

// Why a feed cannot be read is said also before it was ever read, and of an endpoint that joins it meanwhile.
func TestAFeedThatWasNeverRead(t *testing.T) {
	f := Feed{Source: "wikimedia http://feed/", Failing: "403 Forbidden"}
	if why := NewView(city, f, 1, Endpoint{}, noon).Refusal(); why != "the feed cannot be read: 403 Forbidden" {
		t.Error(why)
	}
	take(&f, "", at(100), at(200))
	f.Failing = "403 Forbidden"
	if why := NewView(city, f, 1, Endpoint{}, f.Heard).Refusal(); why != "the feed cannot be read: 403 Forbidden" {
		t.Error(why)
	}
	f.Members = map[string]uint64{"city": 1}
	f.Silence = DefaultSilence
	v := view(city, f, Endpoint{})
	if v.Now = f.Heard; v.Refusal() != "" { // what it told is believed until Silence is over
		t.Error(v.Refusal())
	}
}

// Where events come out of order, one that was published before the last one may still come.
func TestProofsLeaveTimeForDisorder(t *testing.T) {
	var f Feed
	take(&f, "", at(100), at(200))
	place := feed.Place{Topic: "u", Offset: 3, Time: at(170).Time}
	take(&f, "", place)
	f.Members = map[string]uint64{"city": 1}
	e := city
	e.Position = ""
	touch := Touch{Feed: "wd", Reached: at(100)}
	for answered, want := range map[int64]time.Time{169: at(170).Time, 175: {}} {
		v := NewView(e, f, 1, Endpoint{}, at(210).Time)
		b := feed.Before{Assumed: at(160).Time, Answered: at(answered).Time.Add(-clockError), Of: v.Of()}
		if p := v.Proof(touch, b, ""); !p.Until.Equal(want) || !want.IsZero() && !p.Position.Time.Equal(want) {
			t.Errorf("answered at %d s: %+v", answered, p)
		}
	}
	var uncounted Feed
	take(&uncounted, "", feed.Place{Time: at(100).Time}, feed.Place{Time: at(200).Time}, feed.Place{Time: at(170).Time})
	uncounted.Members = f.Members
	v := NewView(e, uncounted, 1, Endpoint{}, at(210).Time)
	b := feed.Before{Assumed: at(160).Time, Answered: at(165).Time, Of: v.Of()}
	if p := v.Proof(touch, b, ""); !p.Until.Equal(at(170).Time) || !p.Position.Time.Equal(p.Until) {
		t.Errorf("a feed without numbers: %+v", p)
	}
}

// With several topics, the position that is shown is a time: the largest number may be one of another topic.
func TestPositionOfSeveralTopics(t *testing.T) {
	var f Feed
	take(&f, "", at(100))
	if p := f.Position(); p != at(100) {
		t.Error(p)
	}
	take(&f, "", feed.Place{Topic: "u", Offset: 7000, Time: noon.Add(time.Hour)})
	if p := f.Position(); p != (feed.Place{Time: noon.Add(time.Hour)}) {
		t.Error(p)
	}
}

// A query that an event reached is asked at growing gaps, also if the event takes longer to show than any before.
func TestWaitsGrow(t *testing.T) {
	const lag = 10 * time.Minute
	for name, c := range map[string]struct {
		lags []time.Duration
		want []time.Duration
	}{
		"nothing is learnt": {nil, []time.Duration{lag / 64, lag / 16, lag / 4, lag, lag + lag/4}},
		"events show at once": {[]time.Duration{time.Millisecond, 2 * time.Millisecond},
			[]time.Duration{time.Millisecond, 2 * time.Millisecond, lag / 64, lag / 16, lag / 4, lag}},
		"events show late": {[]time.Duration{3 * time.Minute, 4 * time.Minute},
			[]time.Duration{3 * time.Minute, 4 * time.Minute, lag}},
	} {
		e, now, got := Endpoint{Lags: c.lags}, noon, []time.Duration{}
		for range c.want {
			now = e.Wait(noon, now, lag)
			got = append(got, now.Sub(noon))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
