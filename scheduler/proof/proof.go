package proof

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/registry/feed"
)

// An Endpoint is what is recorded about an endpoint that has a feed.
type Endpoint struct {
	// Off is until when nothing is proved, because of Wrong.
	Off   time.Time `json:"off,omitzero"`
	Wrong *Wrong    `json:"wrong,omitempty"`
	// Back is when its position last went back: several servers answer for it.
	Back time.Time `json:"back,omitzero"`
	// Lags are the delays after which events showed in an answer, the newest last.
	Lags []time.Duration `json:"lags,omitempty"`
	// Failing is why its position is not known.
	Failing string `json:"failing,omitempty"`
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

// DefaultLag is how far the data of an endpoint are behind its feed at most, unless it says otherwise.
const DefaultLag = 10 * time.Minute

// A View is what proofs at an endpoint depend on, besides the query.
type View struct {
	Name     string // of the feed
	Feed     Feed
	Member   bool // the endpoint's queries are compared with the events
	Endpoint Endpoint
	Now      time.Time
}

// Refusal is why nothing is proved at the endpoint now, empty if something can be.
func (v *View) Refusal() string {
	f := &v.Feed
	switch {
	case v.Endpoint.Off.After(v.Now):
		return fmt.Sprintf("a proof was wrong (%s), so nothing is proved until %s", wrongQuery(v.Endpoint.Wrong), when(v.Endpoint.Off))
	case !v.Member:
		return "the feed is not compared with the endpoint's queries yet"
	case f.Heard.IsZero() || f.Base == (feed.Place{}) && f.Missing == "":
		return "nothing was heard from the feed yet"
	case f.Base == (feed.Place{}):
		return "events are missing: " + f.Missing
	case v.Now.Sub(f.Heard) > f.Silence && f.Failing != "":
		return "the feed cannot be read: " + f.Failing
	case v.Now.Sub(f.Heard) > f.Silence:
		return "the feed has been silent since " + when(f.Heard)
	case v.Endpoint.Failing != "":
		return "the endpoint's position is not known: " + v.Endpoint.Failing
	}
	return ""
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
	case p == feed.Place{}:
		return true
	case b.Offset > 0:
		return !v.Feed.Mixed && v.Feed.Head.Offset > 0 && p.Offset < b.Offset
	case !b.Time.IsZero():
		return !p.Time.IsZero() && p.Time.Before(b.Time.Add(-v.Feed.Disorder))
	case b.Assumed.IsZero():
		return false
	}
	return !p.Time.After(b.Assumed)
}

// known reports whether every event is known that the answer may not include.
func (v *View) known(b feed.Before) bool {
	base := v.Feed.Base
	switch {
	case b.Offset > 0:
		return !v.Feed.Mixed && v.Feed.Head.Offset > 0 && base.Offset <= b.Offset
	case !b.Time.IsZero():
		return !base.Time.After(b.Time.Add(-v.Feed.Disorder))
	}
	return !base.Time.Add(v.Feed.Disorder).After(b.Assumed)
}

// Holds reports whether no event reached the query since its answer, as far as is known, so that
// it need not be asked.
func (v *View) Holds(t Touch, b feed.Before) bool { return v.Refusal() == "" && v.why(t, b) == "" }

// HoldsUntil reports whether the result is true for the endpoint's data as long as these do not
// include an event, which is the first one that reached the query after its answer.
func (v *View) HoldsUntil(first feed.Place, t Touch, b feed.Before) bool {
	return v.Refusal() == "" && t.Feed == v.Name && b.Known() && v.known(b) && !v.Includes(b, first) && first != feed.Place{}
}

// Armed reports whether an event has matched the query that no answer is known to include.
func (v *View) Armed(t Touch, b feed.Before) bool { return !v.Includes(b, t.Matched) }

// why is why a query is not proved, although something can be.
func (v *View) why(t Touch, b feed.Before) string {
	switch {
	case t.Feed != v.Name:
		return "it is new to the feed"
	case !b.Known():
		return "it has no answer since the feed is read"
	case b.Offset > 0 && v.Feed.Mixed:
		return "the endpoint's position is a number, and the feed has several topics: set topic of the feed"
	case b.Offset > 0 && v.Feed.Head.Offset == 0:
		return "the endpoint's position is a number, and the feed does not count its events"
	case v.Armed(t, b):
		return "an event has matched it, and no answer is known to include that"
	case !v.Includes(b, t.Reached):
		return "an event may have changed it, or it is new to the feed, and no answer is known to include that"
	case !v.known(b):
		if v.Feed.Missing != "" {
			return "events are missing: " + v.Feed.Missing
		}
		return "its answer may show data from before the feed was read"
	}
	return ""
}

// Proof says what is proved about a result. open is why the query cannot be proved at all, empty
// if it can; see sparql.Patterns.
func (v *View) Proof(t Touch, b feed.Before, open string) feed.Proof {
	p := feed.Proof{Feed: v.Name, Assumed: b.Offset == 0 && b.Time.IsZero() && b.Known()}
	if b.Known() && v.Armed(t, b) {
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
	// An answer may include events that were not heard yet, if they were published before it
	// ended. Once a later event was heard, all of these were, because they come before it.
	case !v.Feed.Head.Time.After(b.Answered):
		p.Unprovable = "the feed has not yet told what happened until the last answer"
	default:
		p.Until, p.Position = v.Feed.Head.Time, v.Feed.Head
	}
	return p
}

// Edits are the edits that matched the query and that an answer is not known to include.
func (v *View) Edits(t Touch, b feed.Before) (list []feed.Edit) {
	for _, e := range t.Edits {
		if !v.Includes(b, e.Place) {
			list = append(list, e.Edit)
		}
	}
	return list
}
