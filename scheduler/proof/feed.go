package proof

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry/feed"
)

// A Feed is what is recorded about a feed.
type Feed struct {
	// Source is the address that Cursor belongs to. At another address all begins again.
	Source string `json:"source"`
	Cursor string `json:"cursor,omitempty"`
	// Head is the last place that was heard of: the largest offset and the largest time.
	Head feed.Place `json:"head,omitzero"`
	// Numbering counts the addresses and numberings of events that there were before. Places of another
	// one do not compare.
	Numbering uint64 `json:"numbering,omitempty"`
	// Base is from where on every event is known, zero if that is not known yet.
	Base feed.Place `json:"base,omitzero"`
	// Mixed means that the feed has had events of several topics, so offsets do not compare.
	Mixed bool `json:"mixed,omitempty"`
	// Disorder is by how much an event was published before one that came earlier, at most.
	Disorder time.Duration `json:"disorder,omitempty"`
	// Members are the endpoints whose queries are compared with the events, and their numbers in the
	// store: an endpoint of the same name that was added later is another one.
	Members map[string]uint64 `json:"members,omitempty"`
	// Silence is how long the feed may send nothing at all and still be believed.
	Silence time.Duration `json:"silence,omitempty"`
	// Earlier are stretches of the feed before Base in which every event is known, the newest last.
	Earlier []Stretch `json:"earlier,omitempty"`
	// Missing is why events before Base are missing.
	Missing string `json:"missing,omitempty"`

	// Any says which events may have changed anything, so that they reached every query.
	Any Touch `json:"any,omitzero"`
	// Ahead is by how much events said lately, at AheadAt, that they are from the future: this machine's clock is
	// behind by that at least.
	Ahead   time.Duration `json:"ahead,omitempty"`
	AheadAt time.Time     `json:"ahead_at,omitzero"`

	// Unread is until when every event was told, if that is before Head: later ones may be waiting to be read.
	Unread time.Time `json:"unread,omitzero"`

	Heard      time.Time     `json:"heard,omitzero"`
	Lag        time.Duration `json:"lag"` // from the publication of the last event to its arrival
	Events     uint64        `json:"events"`
	Matched    uint64        `json:"matched"`
	Possible   uint64        `json:"possible"`
	Gaps       uint64        `json:"gaps"`
	Duplicates uint64        `json:"duplicates"`
	// Failing is why the feed cannot be read, since Since.
	Failing string    `json:"failing,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// A Stretch is a part of a feed between two gaps.
type Stretch struct {
	Base feed.Place `json:"base"`
	// End is before the first event that is missing.
	End feed.Place `json:"end"`
}

// maxEarlier is how many stretches are remembered: those that the data of an endpoint may not have reached the
// end of.
const maxEarlier = 8

// SourceOf is the address of a feed, as Feed.Source.
func SourceOf(d feed.Definition) string {
	return strings.Join([]string{string(d.Kind), d.URL, d.Topic}, " ")
}

const (
	// clockSet is by how much a time of before must be in the future to show that the clock was set back.
	clockSet = time.Minute
	// stepBack is the same for the time that the feed was heard last. The clocks of a cluster differ by less.
	stepBack = 5 * time.Second
	// aheadFor is how long an event that is from the future is believed to show that the clock is behind.
	aheadFor = time.Hour
)

// longestDisorder is by how much an event can have been published before one that came earlier. One that says
// more counts as published with that one.
const longestDisorder = 24 * time.Hour

// Take adds what a batch says to the state of a feed. Events without a time, and those that say they are from
// the future, get that of their arrival. One without a time does not move the head: events from before it may still come.
func (f *Feed) Take(b *feed.Batch, now time.Time) {
	setBack := f.Heard.After(now.Add(stepBack)) // what has times of the clock before it was set does not compare
	if setBack {
		f.Disorder, f.Ahead = 0, 0
	}
	if b.Renumbered || setBack {
		f.begin()
		f.Unread = time.Time{}
	}
	for _, t := range []*time.Time{&f.Head.Time, &f.Unread} { // what was told until a time of a clock that was ahead
		if t.After(now) {
			*t = now
		}
	}
	if b.Gap != "" {
		if f.Base != (feed.Place{}) && !b.Partial {
			f.Earlier = append(slices.Clone(f.Earlier), Stretch{f.Base, f.Next()})
			f.Earlier = f.Earlier[max(0, len(f.Earlier)-maxEarlier):]
		}
		f.Base, f.Missing = feed.Place{}, b.Gap
		f.Gaps++
	}
	told := f.Told()
	switch {
	case !b.More:
		f.Unread = time.Time{}
	case f.Unread.IsZero():
		if f.Unread = f.Head.Time; f.Unread.IsZero() { // nothing was told yet
			f.Unread = time.Unix(0, 0).UTC()
		}
	}
	if now.Sub(f.AheadAt) > aheadFor {
		f.Ahead = 0
	}
	for i := range b.Events {
		e := &b.Events[i]
		if ahead := e.Time.Sub(now); ahead > f.Ahead {
			f.Ahead, f.AheadAt = min(ahead, longestDisorder), now
		}
		dated := !e.Time.IsZero()
		if !dated || e.Time.After(now) {
			e.Time = now
		}
		if f.Head.Time.Sub(e.Time) > longestDisorder {
			e.Time = f.Head.Time
		}
		if e.Offset == 0 && f.Head.Offset > 0 { // no position of before the next number includes it
			e.Offset = f.Head.Offset + 1
		}
		if !dated && !f.Head.Time.IsZero() {
			f.advance(feed.Place{Topic: e.Topic, Offset: e.Offset, Time: f.Head.Time})
			continue
		}
		last, numbering := f.Head.Time, f.Numbering
		if f.advance(e.Place); f.Numbering == numbering {
			f.Disorder = max(f.Disorder, last.Sub(e.Time))
		}
		f.Lag = max(0, now.Sub(e.Time))
	}
	f.Events += uint64(len(b.Events))
	f.Duplicates += uint64(max(0, b.Duplicates))
	if b.Head.Time.After(now) {
		b.Head.Time = now
	}
	if b.Head != (feed.Place{}) {
		begins, numbering := f.Base == (feed.Place{}), f.Numbering
		f.advance(b.Head)
		// Events up to the head may exist that were not compared, or with other numbers.
		if (begins || f.Numbering > numbering) && b.Gap == "" && !b.Partial {
			f.Base = f.Next()
			f.Base.Time = now
		}
	}
	if !b.More && !b.Head.Time.IsZero() { // it may be from before the events that were read meanwhile
		if b.Head.Time.After(told) {
			told = b.Head.Time
		}
		if told.Before(f.Head.Time) {
			f.Unread = told
		}
	}
	if b.Partial {
		f.Base = f.Head
	}
	if b.Gap != "" { // what is missing may be anything until now
		f.Base = f.Next()
		f.Base.Time = now
	}
	f.Cursor, f.Heard = b.Cursor, now
	if f.Failing != "" {
		f.Failing, f.Since = "", now
	}
}

// advance moves the head.
func (f *Feed) advance(p feed.Place) {
	least := min(f.Base.Offset, f.Head.Offset) // after a gap, it is the head
	if f.Base == (feed.Place{}) {              // after a gap
		least = f.Head.Offset + 1
	}
	if !f.Mixed && 0 < p.Offset && p.Offset < least && f.Head.Offset > 0 && (p.Topic == f.Head.Topic || p.Topic == "") {
		f.begin()
	}
	switch {
	case f.Head.Topic == "":
		f.Head.Topic = p.Topic
	case p.Topic != "" && p.Topic != f.Head.Topic:
		f.Mixed = true
	}
	f.Head = latest(f.Head, p)
	if f.Base == (feed.Place{}) { // events before this one are not known
		f.Base = p
		f.Base.Time = f.Head.Time
	}
	if f.Base.Offset == 0 { // what came before had no number
		f.Base.Offset = p.Offset
	}
}

// begin begins other numbers.
func (f *Feed) begin() {
	f.Numbering++
	f.Head, f.Base, f.Earlier, f.Any = feed.Place{}, feed.Place{}, nil, Touch{}
}

// Reach notes that an event may have changed anything.
func (f *Feed) Reach(e *feed.Event) { f.Any.Add(e, feed.Possible) }

// Position is the place of the last event, for people. With several topics, the largest number says nothing.
func (f *Feed) Position() feed.Place {
	if f.Mixed {
		return feed.Place{Time: f.Complete()}
	}
	return f.Head
}

// Told is until when every event was told.
func (f *Feed) Told() time.Time {
	if !f.Unread.IsZero() {
		return f.Unread
	}
	return f.Head.Time
}

// Complete is until when no event is missing: later ones that were published before the last one may still come, as they
// did before.
func (f *Feed) Complete() time.Time { return f.Told().Add(-f.Disorder) }

// Next is before all events that were not told yet.
func (f *Feed) Next() feed.Place {
	p := f.Head
	p.Time = f.Complete()
	if p.Offset > 0 {
		p.Offset++
	}
	return p
}

// latest returns the largest offset and the largest time of two places.
func latest(a, b feed.Place) feed.Place {
	a.Offset = max(a.Offset, b.Offset)
	if b.Time.After(a.Time) {
		a.Time = b.Time
	}
	if a.Topic == "" {
		a.Topic = b.Topic
	}
	return a
}

// DefaultSilence is how long a feed may be silent if its definition does not say.
const DefaultSilence = 5 * time.Minute

// Silence is how long a feed may send nothing at all and still be believed.
func Silence(d feed.Definition) time.Duration {
	if d.Silence > 0 {
		return time.Duration(d.Silence)
	}
	return max(DefaultSilence, 3*time.Duration(d.Every))
}

// Status describes a feed.
func (f *Feed) Status(d feed.Definition, now time.Time) feed.Status {
	s := feed.Status{
		Definition: d, State: feed.Live, Since: f.Since, Position: f.Position(), Heard: f.Heard,
		Events: f.Events, Matched: f.Matched, Possible: f.Possible, Gaps: f.Gaps, Duplicates: f.Duplicates,
	}
	if d.Kind.Dated() && f.Events > 0 {
		lag := f.Lag.Seconds()
		s.LagSeconds = &lag
	}
	silence := cmp.Or(f.Silence, Silence(d))
	switch {
	case f.Failing != "":
		s.State, s.Error = feed.Failing, f.Failing
	case f.Heard.IsZero(), f.Base == feed.Place{} && f.Missing == "":
		s.State = feed.Behind
	case now.Sub(f.Heard) > silence:
		s.State = feed.Silent
	case f.Base == feed.Place{}, f.Missing != "" && !f.Head.Time.After(f.Base.Time):
		s.State, s.Error = feed.Gap, f.Missing
	case f.Lag > silence, !f.Unread.IsZero() && now.Sub(f.Unread) > silence:
		s.State = feed.Behind
	}
	return s
}

// A Touch says which events reached a query last.
type Touch struct {
	Feed string `json:"feed"`
	// Numbering is the feed's, which the places belong to.
	Numbering uint64 `json:"numbering,omitempty"`
	// Reached has the largest offset and the largest time of all events that reached it. A query
	// that is new to the feed counts as reached by all that came before.
	Reached feed.Place `json:"reached,omitzero"`
	Matched feed.Place `json:"matched,omitzero"` // the same for events that matched it
	// Grew is the same for events that may have added rows, or that may have changed others than they named; see
	// sparql.Narrow.
	Grew feed.Place `json:"grew,omitzero"`
	// Recent are the last events that reached it, the newest last, and Dropped has the largest offset and the
	// largest time of those before.
	Recent  []feed.Place `json:"recent,omitempty"`
	Dropped feed.Place   `json:"dropped,omitzero"`
	Edits   []Edit       `json:"edits,omitempty"` // that matched it, the newest last
	// By is what the answer belongs to, see View.Of, whose rows narrow which events reach the query, 0 if none does. To
	// other answers, events may matter that are not in here.
	By uint64 `json:"by,omitempty"`
	// Open means that its result can also change otherwise, so that events arm it and prove nothing; see
	// sparql.Unprovable.
	Open bool `json:"open,omitempty"`
}

// An Edit is an edit at its place.
type Edit struct {
	feed.Edit
	Place feed.Place `json:"place"`
}

// maxRecent is how many places are remembered of a query.
const maxRecent = 8

// add adds the places of later events.
func (t *Touch) add(list ...feed.Place) {
	t.Recent = append(slices.Clip(t.Recent), list...)
	over := max(0, len(t.Recent)-maxRecent)
	for _, p := range t.Recent[:over] {
		t.Dropped = latest(t.Dropped, p)
	}
	t.Recent = t.Recent[over:]
}

// maxEdits is the number of edits that are kept for a query.
const maxEdits = 10

// Add adds an event that reached the query.
func (t *Touch) Add(e *feed.Event, how feed.Reach) {
	if how == feed.None {
		return
	}
	t.Reached, t.Grew = latest(t.Reached, e.Place), latest(t.Grew, e.Place)
	place := e.Place
	place.Topic = ""
	t.add(place)
	if how != feed.Matched {
		return
	}
	t.Matched = latest(t.Matched, e.Place)
	if e.Edit.Text != "" {
		t.Edits = append(slices.Clip(t.Edits), Edit{e.Edit, e.Place})
		t.Edits = t.Edits[max(0, len(t.Edits)-maxEdits):]
	}
}

// Join adds a later touch of the same query, which may have been added before. That of another
// feed, or with other numbers, replaces it.
func (t *Touch) Join(later Touch) {
	switch {
	case t.Feed != later.Feed || t.Numbering < later.Numbering:
		*t = later
		return
	case t.Numbering > later.Numbering:
		return
	}
	t.Open, t.By, t.Grew = later.Open, later.By, latest(t.Grew, later.Grew)
	t.Reached, t.Matched = latest(t.Reached, later.Reached), latest(t.Matched, later.Matched)
	if later.Dropped != (feed.Place{}) { // those before are older than it
		t.Dropped = latest(t.Dropped, later.Dropped)
	}
	t.add(later.Recent...)
	t.Edits = slices.Clip(t.Edits)
	for _, e := range later.Edits {
		if !slices.Contains(t.Edits, e) {
			t.Edits = append(t.Edits, e)
		}
	}
	t.Edits = t.Edits[max(0, len(t.Edits)-maxEdits):]
}
