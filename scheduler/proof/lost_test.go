package proof

import (
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
