package plan

import "time"

// Kinds of events.
const (
	Start      = "start"      // a process begins
	Ready      = "ready"      // the server serves
	Stopped    = "stopped"    // the server stopped as it was told to; Text is its error
	Failed     = "failed"     // the server ended by itself, or could not be opened; Text says why
	Checked    = "checked"    // the store was checked before the server opened it; Text is the error
	Registered = "registered" // Query got the id Text
	Ask        = "ask"        // the endpoint receives request N; Members are its queries
	Answer     = "answer"     // the endpoint ends request N; Text is the fault, Rows are by member, if it answered
	Snapshot   = "snapshot"   // follower Who has a whole result: Seq, Rows; Text is the reason
	Delta      = "delta"      // follower Who applied a change: Prev, Seq, Rows
	Moved      = "moved"      // the changes up to Seq cancelled out for follower Who
	Subscribed = "subscribed" // follower Who is connected; Text says whether it resumed
	Hooked     = "hooked"     // follower Who registered its webhook
	Message    = "message"    // follower Who received webhook message Text
	State      = "state"      // the history of Query at Seq; written at the end
	Now        = "now"        // the current result of Query; written at the end
	Problem    = "problem"    // an answer that should not be; Text says which
	End        = "end"        // the world is complete
)

// An Event is something that happened in the world, as the world saw it.
type Event struct {
	At      time.Duration `json:"at"`
	Kind    string        `json:"kind"`
	Who     int           `json:"who,omitempty"`
	Query   int           `json:"query,omitempty"`
	N       int           `json:"n,omitempty"`
	Members []int         `json:"members,omitempty"`
	Prev    uint64        `json:"prev,omitempty"`
	Seq     uint64        `json:"seq,omitempty"`
	Epoch   string        `json:"epoch,omitempty"`
	Rows    [][]int       `json:"rows,omitempty"`
	Text    string        `json:"text,omitempty"`
}
