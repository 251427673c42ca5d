package proof

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

// An Endpoint is what is recorded about an endpoint that has a feed.
type Endpoint struct {
	// Off is until when nothing is proved, because of Wrong.
	Off   time.Time `json:"off,omitzero"`
	Wrong *Wrong    `json:"wrong,omitempty"`
	// Back is when its position last went back: several servers answer for it.
	Back time.Time `json:"back,omitzero"`
	// Rebuilt counts how often its earlier positions have become worth nothing, so that earlier answers prove
	// nothing: a position was smaller than one that is older than its lag, so its data are other ones now, or
	// it was shown for the first time that several servers answer.
	Rebuilt uint64 `json:"rebuilt,omitempty"`
	// Lags are the delays after which events showed in an answer, the newest last.
	Lags []time.Duration `json:"lags,omitempty"`
	// Told is how many positions it has told, as far as that matters.
	Told int `json:"told,omitempty"`
	// ToldAt identifies its settings when it told them: after an edit it may be another server.
	ToldAt uint64 `json:"told_at,omitempty"`
	// Failing is why its position is not known, if it tells one.
	Failing string `json:"failing,omitempty"`
	// Suspects are results that have changed although they were proved.
	Suspects []Suspect `json:"suspects,omitempty"`
}

// A Suspect is a proof that was wrong if no event reached the query since Before, the position before the answer that was
// proved. That is known once the feed has brought all that came before the other answer.
type Suspect struct {
	Wrong
	Before feed.Before `json:"before"`
}

// A Wrong is a proof that was wrong: a result that differs although no event reached its query.
type Wrong struct {
	Query string    `json:"query"`
	At    time.Time `json:"at"`
	Feed  string    `json:"feed"`
	Was   string    `json:"was"` // the beginnings of both answers
	Now   string    `json:"now"`
}

// OffFor is how long nothing is proved at an endpoint after a proof that was wrong.
const OffFor = 24 * time.Hour

// A View is what proofs at an endpoint depend on, besides the query.
type View struct {
	Name     string // of the feed
	Feed     Feed
	Member   bool // the endpoint's queries are compared with the events
	Endpoint Endpoint
	Now      time.Time

	tells    bool   // the endpoint tells its position
	settings uint64 // of the endpoint
	of       uint64 // what positions belong to, see feed.Before
}

// NewView returns the view of an endpoint that has a feed. number is the endpoint's in the store, 0 if it has none.
func NewView(e registry.Endpoint, f Feed, number uint64, recorded Endpoint, now time.Time) *View {
	v := &View{Name: e.Feed, Feed: f, Member: number > 0 && f.Members[e.Name] == number, Endpoint: recorded, Now: now}
	h := fnv.New64a()
	v.tells = e.PositionQuery() != ""
	e = e.WithDefaults() // an error is one of encoding, which settings do not have
	json.NewEncoder(h).Encode([]any{e.RequestSettings(), e.Feed, e.PositionQuery(), e.Lag})
	v.settings = h.Sum64()
	v.identify()
	return v
}

func (v *View) identify() {
	h := fnv.New64a()
	fmt.Fprint(h, v.settings, " ", v.Feed.Source, " ", v.Feed.Numbering, " ", v.Endpoint.Rebuilt)
	v.of = h.Sum64()
}

// Change changes what is known about the endpoint.
func (v *View) Change(change func(*Endpoint)) {
	change(&v.Endpoint)
	v.identify()
}

// Told returns the position for answers from now on, zero if the endpoint's is not known.
func (v *View) Told(p feed.Place) feed.Before {
	if p == (feed.Place{}) {
		return feed.Before{}
	}
	return feed.Before{Place: p, Of: v.of}
}

// Assumed returns the position for answers from now on of an endpoint that tells none. Its data are behind the
// feed by lag at most. A clock that is ahead of the feed's must not make them seem newer.
func (v *View) Assumed(now time.Time, lag time.Duration) feed.Before {
	if v.Sent() { // its events have the times of this clock
		return feed.Before{Assumed: now.Add(-lag).UTC(), Of: v.of}
	}
	if v.Feed.Head.Time.IsZero() {
		return feed.Before{}
	}
	if heard := v.Feed.Told().Add(lag / 10); heard.Before(now) {
		now = heard
	}
	return feed.Before{Assumed: now.Add(-lag).UTC(), Of: v.of}
}

// Of is what the positions of answers belong to. Those of others say nothing.
func (v *View) Of() uint64 { return v.of }

// Knows reports whether anything is known about the position before an answer.
func (v *View) Knows(b feed.Before) bool { return b.Known() && b.Of == v.of && !v.future(b) }

// future reports whether an answer is from before the clock was set back.
func (v *View) future(b feed.Before) bool { return b.Answered.After(v.Now.Add(clockSet)) }

// Sent reports whether the feed has no positions, because its events are sent here.
func (v *View) Sent() bool { return strings.HasPrefix(v.Feed.Source, string(feed.Deltas)+" ") }

// Dated reports whether the events of the feed have times of publication, and not those at which they were read.
func (v *View) Dated() bool {
	kind, _, _ := strings.Cut(v.Feed.Source, " ")
	return feed.Kind(kind).Dated()
}

// Refusal is why nothing is proved at the endpoint now, empty if something can be.
func (v *View) Refusal() string {
	f := &v.Feed
	switch {
	case v.Endpoint.Off.After(v.Now):
		return fmt.Sprintf("a proof was wrong (%s), so nothing is proved until %s", wrongQuery(v.Endpoint.Wrong), when(v.Endpoint.Off))
	case v.Sent():
		return "deltas have no positions: they make queries run, and prove nothing"
	case f.Failing != "" && (f.Heard.IsZero() || !v.Member): // queries are compared once it is read
		return "the feed cannot be read: " + f.Failing
	case !v.Member:
		return "the feed is not compared with the endpoint's queries yet"
	case f.Heard.IsZero() || f.Base == (feed.Place{}) && f.Missing == "":
		return "nothing was heard from the feed yet"
	case f.Heard.After(v.Now.Add(time.Minute)):
		return "the clock was set back: the feed was last heard at " + when(f.Heard)
	case f.Base == (feed.Place{}):
		return "events are missing: " + f.Missing
	case v.Now.Sub(f.Heard) > f.Silence && f.Failing != "":
		return "the feed cannot be read: " + f.Failing
	case v.Now.Sub(f.Heard) > f.Silence:
		return "the feed has been silent since " + when(f.Heard)
	case v.Now.Sub(f.Told()) > f.Silence:
		return "the feed is behind: what it tells ends at " + when(f.Told())
	case v.tells && v.Endpoint.Failing != "":
		return "the endpoint's position is not known: " + v.Endpoint.Failing
	case v.Untrusted():
		return fmt.Sprintf("the endpoint has told its position %d times: after %d it is known whether several servers answer",
			v.Endpoint.Told, trusted)
	}
	return ""
}

// Untrusted reports whether the endpoint has to tell its position more often before it is believed.
func (v *View) Untrusted() bool {
	return v.tells && (v.Endpoint.Told < trusted || v.Endpoint.ToldAt != v.settings)
}

// Tell counts positions that the endpoint has told.
func (v *View) Tell(n int) {
	e := &v.Endpoint
	if e.ToldAt != v.settings {
		e.Told, e.ToldAt = 0, v.settings
	}
	e.Told = min(e.Told+n, trusted)
}

func wrongQuery(w *Wrong) string {
	if w == nil {
		return "of a query that is gone"
	}
	return "of the query " + w.Query
}

func when(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Includes reports whether an answer is known to include an event.
func (v *View) Includes(b feed.Before, p feed.Place) bool {
	switch {
	case p == feed.Place{} || b.Of != v.of || v.future(b):
		return false
	case b.Offset > 0:
		return !v.Feed.Mixed && p.Offset > 0 && p.Offset < b.Offset
	case !b.Time.IsZero():
		return !p.Time.IsZero() && p.Time.Before(b.Time.Add(-v.Feed.Disorder))
	case b.Assumed.IsZero():
		return false
	}
	return !p.Time.After(b.Assumed)
}

// Lacks reports whether the data at a position of the endpoint may well lack an event, so that it is too early to ask.
// An event from before a position that is a time may still be lacking where events come out of order, and most are not.
func (v *View) Lacks(b feed.Before, p feed.Place) bool {
	return !v.Includes(b, p) && (b.Time.IsZero() || !p.Time.Before(b.Time))
}

// known reports whether every event is known that the answer may not include.
func (v *View) known(b feed.Before) bool {
	base := v.Feed.Base
	switch {
	case b.Offset > 0:
		return !v.Feed.Mixed && base.Offset > 0 && base.Offset <= b.Offset && b.Offset <= v.Feed.Head.Offset+1
	case !b.Time.IsZero():
		return !base.Time.After(b.Time.Add(-v.Feed.Disorder))
	}
	return !base.Time.Add(v.Feed.Disorder).After(b.Assumed)
}

// gapAfter returns the place from which on events are not known that an answer may not include: that is where
// the first gap after it begins. It is zero if none is missing. ok is false if it is not known which are missing.
func (v *View) gapAfter(b feed.Before) (gap feed.Place, ok bool) {
	if v.known(b) {
		return gap, true
	}
	for _, s := range v.Feed.Earlier {
		w := *v
		w.Feed.Base, w.Feed.Head = s.Base, s.End
		w.Feed.Head.Offset--
		if w.known(b) && !v.Includes(b, s.End) {
			return s.End, true
		}
	}
	return gap, false
}

// Until returns the first event that an answer is not known to include and that reached the query, or that is
// missing: the result is true for the endpoint's data as long as these do not include it. It is zero if there is
// none. ok is false if it is not known which is the first.
func (v *View) Until(t Touch, b feed.Before) (first feed.Place, ok bool) {
	if v.Refusal() != "" || !v.has(t) || t.Open || !v.Knows(b) {
		return first, false
	}
	if first, ok = v.gapAfter(b); !ok || v.hides(t) {
		return feed.Place{}, false
	}
	found := v.Shows(t, b)
	for _, x := range [2]*Touch{&t, &v.Feed.Any} {
		if x.Dropped != (feed.Place{}) && !v.showsPlace(*x, b, x.Dropped) {
			return feed.Place{}, false
		}
		for _, p := range x.Recent {
			if v.showsPlace(*x, b, p) {
				continue
			}
			if found = true; first == (feed.Place{}) || earlier(p, first) {
				first = p
			}
		}
	}
	return first, found
}

// has reports whether a touch is of the feed, and has no numbers that are newer than those of its state.
func (v *View) has(t Touch) bool { return t.Feed == v.Name && t.Numbering <= v.Feed.Numbering }

// hides reports whether events that reached a query may be left out, because the answer whose rows narrowed which
// ones did is worth nothing any more.
func (v *View) hides(t Touch) bool { return t.By != 0 && t.By != v.of }

// earlier reports whether a place is before another one of the same numbers.
func earlier(a, b feed.Place) bool {
	if a.Offset > 0 && b.Offset > 0 {
		return a.Offset < b.Offset
	}
	return a.Time.Before(b.Time)
}

// Holds reports whether no event reached the query since its answer, as far as is known, so that
// it need not be asked.
func (v *View) Holds(t Touch, b feed.Before) bool { return v.Refusal() == "" && v.why(t, b) == "" }

// Settled reports whether no event reached the query since its answer, if the feed can be believed.
func (v *View) Settled(t Touch, b feed.Before) bool { return v.why(t, b) == "" }

// Bounds reports whether all rows of the result that is true of the data at the feed's head are known by the columns
// that sparql.Narrow names: events have at most removed some since the answer.
func (v *View) Bounds(t Touch, b feed.Before) bool {
	return v.Refusal() == "" && v.has(t) && !t.Open && v.Knows(b) && v.known(b) && v.showsPlace(t, b, t.Grew) &&
		!v.hides(t) && v.showsAny(b)
}

// Armed reports whether an event has matched the query that no answer is known to include.
func (v *View) Armed(t Touch, b feed.Before) bool {
	return t.Matched != feed.Place{} && !v.showsPlace(t, b, t.Matched)
}

// Shows reports whether an answer is known to include all events that reached the query.
func (v *View) Shows(t Touch, b feed.Before) bool {
	return v.showsPlace(t, b, t.Reached) && !v.hides(t) && v.showsAny(b)
}

// showsAny is Shows for the events that reached every query.
func (v *View) showsAny(b feed.Before) bool {
	p := v.Feed.Any.Reached
	return p == feed.Place{} || v.Includes(b, p)
}

// showsPlace is Includes for a place of a touch. What came before the numbers of a feed began again, it came
// before the first event that is known.
func (v *View) showsPlace(t Touch, b feed.Before, p feed.Place) bool {
	return v.Includes(b, p) || t.Feed == v.Name && t.Numbering < v.Feed.Numbering && v.Knows(b) && v.known(b)
}

// The causes for which an endpoint with a feed is asked for a query.
const (
	First     = "first"     // it has no answer
	Refresh   = "refresh"   // somebody wants one
	Audit     = "audit"     // it is proved, and asked to check that
	Refused   = "refused"   // nothing is proved at the endpoint, see View.Refusal
	Unplaced  = "unplaced"  // the position before its answer is not known, or is of other data
	Matched   = "matched"   // an event matched it
	Possible  = "possible"  // an event may have changed it
	Open      = "open"      // its result can change without an event
	Missing   = "missing"   // its answer may be from before a gap of the feed
	Hinted    = "hinted"    // it is proved, and a hint by hand says that it may have changed
	Staleness = "staleness" // the feed ends before its max_staleness
)

// Cause is why a query is not proved, one of these causes, empty if it is.
func (v *View) Cause(t Touch, b feed.Before) string {
	if v.Refusal() != "" {
		return Refused
	}
	cause, _ := v.reason(t, b)
	return cause
}

// why is why a query is not proved, although something can be.
func (v *View) why(t Touch, b feed.Before) string {
	_, why := v.reason(t, b)
	return why
}

func (v *View) reason(t Touch, b feed.Before) (cause, why string) {
	switch {
	case !v.has(t):
		return Unplaced, "it is new to the feed"
	case !b.Known():
		return Unplaced, "it has no answer since the feed is read"
	case t.Open:
		return Open, "its result can change without an event"
	case b.Of != v.of:
		return Unplaced, "its answer is from before the endpoint was edited, its data were replaced, or the feed began again"
	case v.future(b):
		return Unplaced, "the clock was set back: its answer is from " + when(b.Answered)
	case v.hides(t):
		return Unplaced, "its rows narrowed which events matter, and that answer is worth nothing any more; it is new to the feed again"
	case b.Offset > 0 && v.Feed.Mixed:
		return Refused, "the endpoint's position is a number, and the feed has several topics: set topic of the feed"
	case b.Offset > 0 && v.Feed.Head.Offset == 0:
		return Refused, "the endpoint's position is a number, and the feed does not count its events"
	case v.Armed(t, b):
		return Matched, "an event has matched it, and no answer is known to include that"
	case !v.Shows(t, b):
		return Possible, "an event may have changed it, or it is new to the feed, and no answer is known to include that"
	case !v.known(b):
		if b.Offset > v.Feed.Head.Offset+1 {
			return Missing, "the endpoint's position is beyond the last event that the feed has told"
		}
		if v.Feed.Missing != "" {
			return Missing, "events are missing: " + v.Feed.Missing
		}
		return Missing, "its answer may show data from before the feed was read"
	}
	return "", ""
}

// Proof says what is proved about a result. open is why the query cannot be proved at all, empty
// if it can; see sparql.Unprovable.
func (v *View) Proof(t Touch, b feed.Before, open string) feed.Proof {
	p := feed.Proof{Feed: v.Name, Assumed: b.Offset == 0 && b.Time.IsZero() && v.Knows(b)}
	if v.Knows(b) && v.Armed(t, b) {
		p.Armed = t.Matched.Time
	}
	p.Edits = v.Edits(t, b)
	switch {
	case open != "":
		p.Unprovable = "this query cannot be proved, because " + open
	case v.Refusal() != "":
		p.Unprovable = v.Refusal()
	case v.why(t, b) != "":
		p.Unprovable = v.why(t, b)
	case !v.HeardUntil(b.Answered):
		p.Unprovable = "the feed has not yet told what happened until the last answer"
		if v.Feed.Ahead > clockSet {
			p.Unprovable += fmt.Sprintf("; this machine's clock seems to be %s behind the feed's", v.Feed.Ahead.Round(time.Second))
		}
	default:
		p.Until, p.Position = v.Feed.Complete(), v.Feed.Position()
		if p.Position.Offset == 0 { // it is a time only
			p.Position.Time = p.Until
		}
	}
	return p
}

// HeardUntil reports whether all events were heard that an answer can include which ended at a time. It may include
// some that were not heard yet, if they were published before it ended. Once a later event was heard, all of these
// were, because they come before it. Times of this machine are compared with the feed's here, and its clock may be
// behind. Once it was set back, nothing was heard until the feed is heard again.
func (v *View) HeardUntil(answered time.Time) bool {
	return !v.Feed.Heard.After(v.Now.Add(clockError)) && v.Feed.Complete().After(answered.Add(v.Feed.Ahead+clockError))
}

// clockError is by how much this machine's clock may be behind, although no event is from the future.
const clockError = time.Second

// Edits are the edits that matched the query and that an answer is not known to include.
func (v *View) Edits(t Touch, b feed.Before) (list []feed.Edit) {
	if !v.Knows(b) {
		return nil
	}
	for _, e := range t.Edits {
		if !v.showsPlace(t, b, e.Place) {
			list = append(list, e.Edit)
		}
	}
	return list
}
