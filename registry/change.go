package registry

import (
	"time"

	"github.com/freshet/freshet/diff"
)

// An Outcome is how an execution ended.
type Outcome string

const (
	Unchanged Outcome = "unchanged"
	Changed   Outcome = "changed"
	Partial   Outcome = "partial"   // the answer may be incomplete: never compared
	Failed    Outcome = "error"     // the endpoint failed, or its answer is invalid
	Timeout   Outcome = "timeout"   // the endpoint's time limit for one execution passed
	Throttled Outcome = "throttled" // the endpoint asked Freshet to wait
	Rejected  Outcome = "rejected"  // the endpoint refuses this query
	Cut       Outcome = "cut"       // the slot's budget was used up: neither a failure nor a sample
	Outdated  Outcome = "outdated"  // the answer is older, by its Age, than the known result: ignored
	Dropped   Outcome = "dropped"   // the endpoint's settings were edited during the execution: the answer is ignored
)

// Complete reports whether the execution brought a complete result.
func (o Outcome) Complete() bool { return o == Unchanged || o == Changed }

// A Change is one step of a query's result. It is immutable once committed.
type Change struct {
	Query     string
	Endpoint  string
	Epoch     string
	Prev, Seq uint64 // from Prev to Seq; Prev is Seq-1 in the log, less in a folded change
	Offset    uint64 // position in the log of all queries, counted from 1
	Time      time.Time
	CheckedAt time.Time // when the endpoint's answer was true
	Slot      uint64
	Baseline  bool // the first complete result: Delta starts from the empty result
	Delta     *diff.Delta
	// Edits are those in a feed that may have caused the change, at most ten.
	Edits []DataEdit
}

// A DataEdit is what a feed says about an edit of the data.
type DataEdit struct {
	Text string `json:"text"`           // such as "revision 2145 of Q42"
	Link string `json:"link,omitempty"` // a page about it
}

// Position is the position after the change.
func (c *Change) Position() Position { return Position{c.Epoch, c.Seq} }

// Updates are messages for a client that several queries have moved on. They do not say what changed.
type Updates struct {
	First, Last []byte // the data of the first event, and of the last one unless the client leaves
	Topics      []UpdatesTopic
}

// An UpdatesTopic is one query of Updates.
type UpdatesTopic struct {
	Query   string
	After   *Position     // what the client knows; nil: nothing
	Message func() []byte // returns the data of the event
}
