package scheduler

import (
	"context"
	"math"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
)

// A Ledger keeps, per endpoint, what the loop must still know after a restart.
// Registration and scheduling exchange data only through it. Methods may be called
// concurrently, including Record: a trial run can change the health while a slot
// runs.
type Ledger interface {
	// Since returns the entries of an endpoint whose registration was added,
	// edited or removed after revision rev; rev 0 returns all. Its cost grows
	// with what it returns. Stats are those last recorded.
	Since(endpoint string, rev uint64) (News, error)

	// Prepare makes of a result and the delta to it what Record will write, as part
	// of the execution that brought the result. It asks stop now and then, and ends
	// with the first error that stop returns. It writes nothing.
	Prepare(stop func() error, r *diff.Result, d *diff.Delta) (Prepared, error)

	// Record commits a batch in ONE transaction: statistics, results, changes,
	// index, retention, slot and health. It numbers the changes and returns
	// them in the order of the outcomes. A query that was removed meanwhile is
	// passed over in silence, and so is one that was registered again since, as the
	// epoch of its position shows. When Record returns an error nothing of the batch
	// is in effect. One that wraps registry.ErrReadOnly lets the loop wait and begin again
	// from what is recorded, as after a restart; after any other the process must end: the
	// disk can no longer be trusted.
	Record(endpoint string, b Batch) ([]registry.Change, error)

	// Result is the last complete result of a query and its position; nil with
	// no error when there is none yet.
	Result(query string) (*diff.Result, error)
}

// News is what Since brings.
type News struct {
	Revision uint64 // to ask from next time
	Entries  []policy.Entry
	// Full says that removals since the revision asked for are no longer known:
	// Entries holds every query of the endpoint, as for revision 0, and whatever
	// is not among them is gone. Removed is empty then.
	Full    bool
	Removed []string // ids of queries without holders
	Last    Slot     // as last recorded, zero when none
	Health  registry.Health
	Policy  PolicyState // last recorded for the endpoint, zero when none
	// Edited is when the settings that executions depend on were edited last, zero
	// when never. What backs off because of an execution from before may run.
	Edited time.Time

	// Profiles holds every profile of the endpoint, with its open rounds, when one
	// was added, edited or removed after the revision asked for: then Reprofiled
	// is true, and whatever is not among them is gone.
	Profiles   []rounds.ProfileState
	Reprofiled bool
	Models     []rounds.Model // with Profiles: those recorded of queries that they predict
}

// A PolicyState is what a policy has learnt of an endpoint as a whole.
type PolicyState struct {
	Policy string    `json:"policy"` // spelling of the policy that State belongs to
	State  []float64 `json:"state"`
}

// A Batch is what follows from one or more executions, or from a slot's end.
type Batch struct {
	Outcomes []Outcome
	Slot     *Slot            // the slot's summary so far; the last one recorded is final
	Health   *registry.Health // nil: as before
	Policy   *PolicyState     // nil: as before
	// Rounds are the complete rounds that opened, advanced or ended, each at most
	// once, and those of one profile in the order of their numbers. The ledger
	// skips rounds of profiles that were removed meanwhile, and never changes a
	// recorded capture. It numbers captures and fills in the positions of the
	// queries that captured an interval: those after this batch.
	Rounds []registry.Round
	Models []rounds.Model // each replaces the one before of its query
}

// An Outcome is one finished execution and everything that follows from it, or
// what a query's policy has learnt of it from the executions of others: then
// only Stats.State is new.
type Outcome struct {
	Query   string
	Stats   policy.Stats // the new statistics, whole
	Result  *diff.Result // the new result, only when it differs from the one kept
	Delta   *diff.Delta  // how to get there; nil together with Result
	Checked time.Time    // when the answer was true
	At      time.Time    // when the execution ended
	// Prepared is both as the ledger will write them; nil lets Record prepare them.
	Prepared Prepared
}

// Prepared is what a ledger's Prepare returned. Only that ledger looks inside.
type Prepared any

// A Slot sums up one run of an endpoint's schedule.
type Slot struct {
	Endpoint       string    `json:"endpoint"`
	Number         uint64    `json:"slot"`
	Started        time.Time `json:"started"`
	Finished       time.Time `json:"finished,omitzero"`
	Tick           bool      `json:"tick,omitempty"` // run on request, not by the grid
	Planned        int       `json:"planned"`        // executions that the plan held
	PlannedSeconds float64   `json:"planned_seconds"`
	Run            int       `json:"run"` // executions started
	Complete       int       `json:"complete"`
	Changed        int       `json:"changed"`
	Failed         int       `json:"failed"`
	Cut            int       `json:"cut"`
	Skipped        int       `json:"skipped"` // eligible but passed over: the budget was too small
	Used           float64   `json:"used_seconds"`
	Budget         float64   `json:"budget_seconds"`            // the endpoint's, with what is repaid
	Repaid         float64   `json:"repaid_seconds,omitempty"`  // of it, for what earlier slots took beyond theirs
	Debt           float64   `json:"debt_seconds,omitempty"`    // that later slots have to repay
	Lent           float64   `json:"lent_seconds,omitempty"`    // by how much it may grow until the slot is finished
	Claimed        int       `json:"claimed,omitempty"`         // of those started, chosen by intervals of profiles
	ClaimedSeconds float64   `json:"claimed_seconds,omitempty"` // what these took
	Captured       int       `json:"captured,omitempty"`        // rounds of profiles that ended captured
	Expired        int       `json:"expired,omitempty"`         // and those that expired
	Stretch        float64   `json:"stretch,omitempty"`         // the policy's deadlines could not all be met and count as this many times as long
	Error          string    `json:"error,omitempty"`           // why nothing could run, or nothing more
	Throttled      bool      `json:"throttled,omitempty"`       // that is: the endpoint asked us to wait
}

// Owes is the debt that later slots have to repay, as far as this record tells.
// One that was not finished owes all that it might still have taken: nothing
// records for how long the endpoint went on with what was being executed.
func (s Slot) Owes() time.Duration { return exactly(s.Debt) + exactly(s.Lent) }

// exactly is the duration of which these are the seconds.
func exactly(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// A Clock tells the time and waits. The live one is the system's; a replay's
// advances only by executing.
type Clock interface {
	Now() time.Time
	// Sleep waits until t, or returns ctx's error.
	Sleep(ctx context.Context, until time.Time) error
}

// An Executor asks an endpoint one query. limit bounds the execution; it is a
// parameter because context deadlines ignore virtual clocks. When ctx is
// cancelled before an answer is complete, the outcome is Cut.
type Executor interface {
	Execute(ctx context.Context, q *registry.Query, m Memory, limit time.Duration) Answer
	// Health says whether requests may be sent now.
	Health() registry.Health
}

// What an Executor is asked with and answers.
type (
	Memory = registry.AnswerMemory
	Answer = registry.Answer
)
