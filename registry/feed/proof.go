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
