package feed

import "time"

// A Proof says what a feed tells about one result. It is part of the resource of a query.
type Proof struct {
	Feed string `json:"feed"`
	// Until is the publication time up to which the result is known to be true, zero if it is not proved.
	Until    time.Time `json:"until,omitzero"`
	Position Place     `json:"position,omitzero"` // the same as a position in the feed
	// Assumed means that the endpoint tells no position: the proof holds if its data are never
	// older than the setting lag.
	Assumed bool `json:"assumed,omitempty"`
	// Unprovable is why the result is not proved now, empty if it is.
	Unprovable string `json:"unprovable,omitempty"`
	// Armed is the publication time of the event that matched the query and that no answer is
	// known to include, zero if there is none.
	Armed time.Time `json:"armed,omitzero"`
	// Edits are the edits that matched the query since its last answer, at most ten.
	Edits []Edit `json:"edits,omitempty"`
}

// A Before is what was known about the position of an endpoint when it was asked: its answer
// includes at least the events before that.
type Before struct {
	// Place is the position as the endpoint told it: Offset is that of the first event that may be
	// missing, or Time is that up to which all is included. Both are zero if it told none.
	Place
	// Assumed is that time if the endpoint tells no position: when it was asked, less the setting lag.
	Assumed time.Time `json:"assumed,omitzero"`
	// Answered is when the answer ended. The answer includes no event that was published later.
	Answered time.Time `json:"answered,omitzero"`
	// Of identifies what the position belongs to: the feed, the numbering of its events, and the
	// settings of the endpoint. One of something else says nothing.
	Of uint64 `json:"of,omitempty"`
}

// Known reports whether anything is known.
func (b Before) Known() bool { return b.Offset > 0 || !b.Time.IsZero() || !b.Assumed.IsZero() }
