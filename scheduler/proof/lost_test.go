package proof

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry/feed"
)

func sec(n int64) time.Time { return noon.Add(time.Duration(n) * time.Second) }

// patch log lost versions in the middle: verify gives Gap, Head={10}, no event. Event 10 (and 6..9) were never told.
func TestLostVersionsProveNothing(t *testing.T) {
	var f Feed
	f.Silence = DefaultSilence
	p := func(n, s int64) feed.Place { return feed.Place{Offset: n, Time: sec(s)} }
	f.Take(&feed.Batch{Events: []feed.Event{{Place: p(1, 1)}, {Place: p(5, 5)}}, Head: p(5, 5)}, sec(5))
	f.Take(&feed.Batch{Gap: "versions after 5 are missing", Head: p(10, 100)}, sec(101))
	v := view(city, f, Endpoint{})
	b := v.Told(offset(10)) // has no event 10
	b.Answered = sec(50)
	touch := Touch{Feed: "wd", Reached: p(1, 1)}
	if v.Holds(touch, b) {
		t.Errorf("proved: %+v", v.Proof(touch, b, ""))
	}
}

// a log restored from a backup: read to 10, answer with next=11; 9 and 10 are others now, and 11' is read with a gap.
func TestRestoredLogProvesNothing(t *testing.T) {
	var f Feed
	f.Silence = DefaultSilence
	p := func(n, s int64) feed.Place { return feed.Place{Offset: n, Time: sec(s)} }
	f.Take(&feed.Batch{Events: []feed.Event{{Place: p(1, 1)}, {Place: p(10, 5)}}, Head: p(10, 5)}, sec(5))
	f.Take(&feed.Batch{Gap: "the patch of version 11 follows 10', and not 10", Events: []feed.Event{{Place: p(11, 100)}},
		Head: p(11, 100)}, sec(100))
	v := view(city, f, Endpoint{})
	b := v.Told(offset(11))
	b.Answered = sec(50)
	touch := Touch{Feed: "wd", Reached: p(1, 1)}
	if v.Holds(touch, b) {
		t.Errorf("proved: %+v", v.Proof(touch, b, ""))
	}
}

// LDES: a page vanished between two walks: the gap has the time of the walk before.
func TestRemovedPageProvesNothing(t *testing.T) {
	var f Feed
	f.Silence = DefaultSilence
	tm := func(s int64) feed.Place { return feed.Place{Time: sec(s)} }
	f.Take(&feed.Batch{Head: tm(0)}, sec(1))
	f.Take(&feed.Batch{Head: tm(60)}, sec(61))
	// answer at 80 by an endpoint that tells it is complete until 80; member m at 90; page removed at 110; walk at 120
	f.Take(&feed.Batch{Gap: "the page was removed before it was read to its end", Head: tm(60)}, sec(121))
	f.Take(&feed.Batch{Head: tm(120)}, sec(122))
	v := view(city, f, Endpoint{})
	b := v.Told(feed.Place{Time: sec(80)})
	b.Answered = sec(81)
	touch := Touch{Feed: "wd", Reached: tm(0)}
	if v.Holds(touch, b) {
		t.Errorf("proved: %+v", v.Proof(touch, b, ""))
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
