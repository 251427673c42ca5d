package plan

import "time"

// Kinds of events.
const (
	Start      = "start"      // a process begins
	Ready      = "ready"      // the server serves
	Stopped    = "stopped"    // the server stopped as it was told to; Text is its error
	Failed     = "failed"     // the server ended by itself, or could not be opened; Text says why
	Restored   = "restored"   // the data directory has the backup only
	Joined     = "joined"     // node N of a cluster serves
	Left       = "left"       // node N was stopped
	Checked    = "checked"    // the store was checked before the server opened it; Text is the error
	Registered = "registered" // Query got the id Text
	Paused     = "paused"     // Query is paused
	Resuming   = "resuming"   // its holder resumes Query
	Removed    = "removed"    // Query is removed
	Ask        = "ask"        // the endpoint receives request N of node Who; Members are its queries
	Answer     = "answer"     // the endpoint ends request N; Text is the fault, Rows are by member, if it answered
	Closed     = "closed"     // the connection by which request N came to the endpoint is closed
	Snapshot   = "snapshot"   // follower Who has a whole result: Seq, Rows; Text is the reason
	Delta      = "delta"      // follower Who applied a change: Prev, Seq, Rows
	Moved      = "moved"      // the changes up to Seq cancelled out for follower Who
	Subscribed = "subscribed" // follower Who is connected; Text says whether it resumed
	Hooked     = "hooked"     // follower Who registered its webhook
	Message    = "message"    // follower Who received webhook message Text
	Content    = "content"    // follower Who received Rows of the whole result, without a number
	// Words: follower Who was told that Rows[0] were added and Rows[1] removed; N more are not listed;
	// Text is a message without rows.
	Words    = "words"
	Ruled    = "ruled"    // rule Who was made or, in later lives, found
	Fires    = "fires"    // the receiver of rule Who got message Text: alert N of value Value is firing at Seq
	Resolved = "resolved" // the same, resolved
	// Again: the receiver of rule Who, or follower Who if Value is 1, got message Text once more; Wall is
	// when it got it first.
	Again  = "again"
	Alerts = "alerts" // the receiver of rule Who has alerts for Rows[0] at the end
	Firing = "firing" // the server has alerts for Rows[0] of rule Who at the end
	Past   = "past"   // the server says that Query had Rows[0] at Seq, or at the time Wall
	Net    = "net"    // the server says that between Prev and Seq Rows[0] were added to Query and Rows[1] removed
	Hinted = "hinted" // the server took a hint about Members
	Used   = "used"   // what the server uses: N goroutines, Seq bytes of heap
	State  = "state"  // the history of Query at Seq; written at the end
	Now    = "now"    // the current result of Query; written at the end
	// Proved: the server says that the result of Query at Seq is true at version N of the log.
	Proved   = "proved"
	Unproved = "unproved" // the server says at the end that nothing is proved about Query; Text is why
	Gauge    = "gauge"    // the metrics say at the end that the result of Query has N rows
	Captures = "captures" // profile Who has N captured rounds at the end, and Value expired ones
	Flipped  = "flipped"  // a bit of the store's file is another one from now on; Text says which
	Mended   = "mended"   // it is as before
	Problem  = "problem"  // an answer that should not be; Text says which
	End      = "end"      // the world is complete
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
	Value   int           `json:"value,omitempty"`
	Wall    int64         `json:"wall,omitempty"` // a time of the machine's clock, in nanoseconds
	Text    string        `json:"text,omitempty"`
}
