// Package feed has the words of change feeds: sources of events about the data behind one or
// several endpoints. Polling guesses whether a result changed; a feed tells what changed.
//
// A feed never decides what is true. It saves requests and time: a query that no event
// reaches needs no execution, and one that an event reaches runs soon. Package endpoint/feed
// reads feeds; package scheduler draws the conclusions.
package feed

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

// A Place is the position of an event in its feed.
type Place struct {
	// Topic names the stream that Offset counts. It is empty for a feed with one stream.
	Topic string `json:"topic,omitempty"`
	// Offset is the number of the event in its stream, 0 if the feed does not count. Events with
	// a smaller offset come before. Numbers may be left out.
	Offset int64 `json:"offset,omitempty"`
	// Time is when the event was published. Events of different entities may be out of order.
	Time time.Time `json:"time,omitzero"`
}

// An Event says what changed in the data. A triple that is in none of Added, Removed, Loose and
// All is as it was.
type Event struct {
	Place
	// Entity is the IRI of the thing whose data changed, empty if the feed names none.
	Entity string
	// Added and Removed are whole triples. Blank nodes are "_". IRIs that stand for them stay, because a query
	// may name them.
	Added, Removed []sparql.Pattern
	// Loose says what the event may have changed besides, without showing the triples.
	Loose []Loose
	// All means that the event may have changed anything.
	All bool
	// Edit says who did it, where the feed names the edit.
	Edit Edit
}

// An Edit is what a feed says about the edit behind an event.
type Edit = registry.DataEdit

// A Loose describes triples that an event may have added or removed: those with one of these
// subjects, and those of other nodes that belong to the same document.
type Loose struct {
	Subjects []string // "<IRI>", the subjects that are known to be touched
	// Things is the beginning of the IRIs of things that have documents of their own: a subject
	// that begins with it and is not in Subjects is untouched. Any other subject may be touched.
	// If Things is empty, only Subjects and blank nodes are touched.
	Things string
	// Apart, if there is one, reports whether a subject is a thing with a document of its own, which is untouched
	// unless it is in Subjects. Any other subject may be touched.
	Apart     func(subject string) bool `json:"-"`
	Predicate string                    // "<IRI>" of all these triples, empty if any
	Gone      bool                      // they were removed, and none was added
	Owner     string                    // "<IRI>" of the entity whose data they are part of, empty if it is unknown; see sparql.Pattern
}

// Touches reports whether a triple that the pattern matches may be among those of l.
func (l Loose) Touches(p sparql.Pattern) bool {
	if l.Predicate != "" && p.Predicate != "" && p.Predicate != l.Predicate || l.Owner != "" && p.Owner != "" && p.Owner != l.Owner {
		return false
	}
	switch {
	case p.Subject == "" || slices.Contains(l.Subjects, p.Subject):
		return true
	case l.Apart != nil:
		return !l.Apart(p.Subject)
	case l.Things == "":
		return false
	}
	return !strings.HasPrefix(p.Subject, "<"+l.Things)
}

// A Reach says how an event touches a query.
type Reach uint8

const (
	None     Reach = iota // the event cannot change the result
	Possible              // it may: the event does not show all that it changed
	Matched               // a triple pattern of the query matches a triple of the event
)

// Reach returns how an event touches a query with these patterns (see sparql.Patterns). It is
// the definition; the index of the scheduler finds the same queries faster.
func (e *Event) Reach(patterns []sparql.Pattern) Reach { return e.ReachNarrowed(patterns, patterns) }

// ReachNarrowed is Reach if the query has some patterns for triples that are added, and others for those that are
// removed, because its result narrows them; see sparql.Narrow.
func (e *Event) ReachNarrowed(added, removed []sparql.Pattern) Reach {
	reach := None
	if e.All {
		reach = Possible
	}
	for _, p := range added {
		if slices.ContainsFunc(e.Added, p.Matches) {
			return Matched
		}
		if slices.ContainsFunc(e.Loose, func(l Loose) bool { return !l.Gone && l.Touches(p) }) {
			reach = Possible
		}
	}
	for _, p := range removed {
		if slices.ContainsFunc(e.Removed, p.Matches) {
			return Matched
		}
		if slices.ContainsFunc(e.Loose, func(l Loose) bool { return l.Touches(p) }) {
			reach = Possible
		}
	}
	return reach
}

// A Batch is what a source delivers at once.
type Batch struct {
	Events []Event
	// Cursor is where the source continues after this batch, opaque to all but the source.
	Cursor string
	// Head is the last place up to which the feed is known: nothing before it is still to come,
	// except what order within an entity allows. A batch without events with a new Head is a
	// heartbeat.
	Head Place
	// Gap says why events before this batch may be missing, empty if none is. Then all that was
	// concluded from the feed ends.
	Gap string
	// Renumbered means that from this batch on, the numbers are those of other events. The publisher has restored the
	// log from a backup, for example. It comes with a Gap.
	Renumbered bool
	// Partial means that events before Head, or before the last event of the batch, may have been left out, because the
	// source begins with a part of them. That is no gap: what is known begins here.
	Partial bool
	// More means that later events may be waiting to be read, although Head is new.
	More bool
	// Duplicates counts events that the source left out because it had delivered them before.
	Duplicates int
}

// A Source reads the events of one feed.
type Source interface {
	// Follow delivers the events after a cursor, in order, until ctx or the connection ends. An
	// empty cursor means that nothing was read before: the source begins where its definition
	// says, without a gap. take returns once everything that follows from the batch is durable; its
	// error ends Follow. Follow returns nil if the server ended the connection in order, and a
	// *Wait if it wants to be left alone for a while. Follow may be called again.
	Follow(ctx context.Context, cursor string, take func(Batch) error) error
}

// A Wait is an error of a source after which the next attempt waits.
type Wait struct {
	For time.Duration // at least
	Err error
}

func (w *Wait) Error() string { return w.Err.Error() }

func (w *Wait) Unwrap() error { return w.Err }
