package scheduler

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/proof"
	"github.com/freshet/freshet/scheduler/rounds"
)

// A Ledger stores, per endpoint, what a loop needs after a restart. Registration and
// scheduling exchange data only through it. Its methods may be called concurrently,
// including Record: a trial run can change the health while a slot runs.
type Ledger interface {
	// Since returns the entries of an endpoint whose registration was added,
	// edited or removed after revision rev; rev 0 returns all. Its cost grows with
	// the size of the answer. Stats are those last recorded.
	Since(endpoint string, rev uint64) (News, error)

	// Prepare computes what Record will write for a result and its delta, so that this
	// work is part of the execution. It calls stop now and then and returns the first
	// error of stop. It returns an error that wraps ErrTooLarge if Record could not write
	// them. It writes nothing.
	Prepare(stop func() error, r *diff.Result, d *diff.Delta) (Prepared, error)

	// Record commits a batch in one transaction: statistics, results, changes, index,
	// retention, slot and health. It numbers the changes and returns them in the order
	// of the outcomes. It skips queries that were removed meanwhile, and those that were
	// registered again since, as the epoch of their position shows. If Record returns an
	// error, nothing of the batch is in effect, except that a ledger that is shared by several
	// processes may have recorded it or its first outcomes. It returns the changes that it knows to
	// be recorded. After an error that wraps
	// registry.ErrReadOnly the loop waits. After one that wraps ErrFenced, the loop must end, and
	// after one that is registry.ErrUnusable the process. After any other error, and when the
	// ledger can be written again, the loop starts again from the recorded state, as after a
	// restart.
	Record(endpoint string, b Batch) ([]registry.Change, error)

	// Result returns the last complete result of a query, nil if there is none yet.
	Result(query string) (*diff.Result, error)
}

// A Known is what is recorded about the last complete answer to a query.
type Known struct {
	Before feed.Before  // the endpoint's position before it
	Touch  proof.Touch  // which events reached the query
	Result *diff.Result // nil if there is none
}

// ErrTooLarge means that the ledger has no room for a result.
var ErrTooLarge = errors.New("the result is too large to be recorded")

// ErrFenced means that this process no longer has the right to ask an endpoint, because another
// node of its cluster took it.
var ErrFenced = errors.New("another node of the cluster has the lease now")

// News is the answer of Ledger.Since.
type News struct {
	Revision uint64 // the argument of the next call
	Space    uint64 // identifies the endpoint until it is removed; another one of its name has another number
	Entries  []policy.Entry
	// Full means that the removals since that revision are no longer known. Entries
	// then holds every query of the endpoint, Removed is empty, and queries that are
	// not in Entries are gone.
	Full    bool
	Removed []string // ids of queries without holders
	Last    Slot     // as last recorded, zero if there is none
	Health  registry.Health
	Policy  PolicyState    // last recorded for the endpoint, zero if there is none
	Cohorts []cohort.State // last recorded, only if rev is 0
	// Edited is when the settings that executions depend on were last edited, zero if
	// never. Queries that back off because of an earlier execution may run again.
	Edited time.Time

	// Feeds are all that are recorded, by name.
	Feeds map[string]proof.Feed
	// Touched says which events of a feed reached queries last: those of Entries, and those that an
	// event reached after that revision.
	Touched map[string]proof.Touch
	Proof   proof.Endpoint // last recorded, zero if nothing is
	Beside  Beside         // last recorded, zero if nothing is

	// Profiles holds all profiles of the endpoint with their open rounds, if one was
	// added, edited or removed after that revision. Reprofiled is then true, and
	// profiles that are not in Profiles are gone.
	Profiles   []rounds.ProfileState
	Reprofiled bool
	Models     []rounds.Model // with Profiles: the recorded models of the queries that they predict
}

// A PolicyState is what a policy has learnt about an endpoint as a whole.
type PolicyState struct {
	Policy string    `json:"policy"` // spelling of the policy that State belongs to
	State  []float64 `json:"state"`
}

// A Batch is what the ledger commits after one or more executions or at a slot's end.
type Batch struct {
	Space    uint64 // of the endpoint; if another one has its name by now, nothing is recorded; 0: any
	Outcomes []Outcome
	Slot     *Slot            // the slot's summary so far; the last one recorded is final
	Health   *registry.Health // nil: unchanged
	Policy   *PolicyState     // nil: unchanged
	Proof    *proof.Endpoint  // nil: unchanged
	Beside   *Beside          // nil: unchanged
	// Cohorts each replace the previous state of their key. The states of
	// DroppedCohorts, which are keys, are deleted.
	Cohorts        []cohort.State
	DroppedCohorts []string
	// Rounds are the rounds that opened, advanced or ended, each whole and at most once,
	// those of one profile in the order of their numbers. The ledger skips rounds of
	// profiles that were removed meanwhile and never changes a recorded capture. It
	// numbers captures and fills in the positions, after this batch, of the queries
	// that captured an interval.
	Rounds []registry.Round
	Models []rounds.Model // each replaces the previous one of its query
}

// A FeedBatch is what the ledger commits after a batch of events of a feed.
type FeedBatch struct {
	Feed  string
	State proof.Feed // replaces the previous one
	// Touched is added to what is known of these queries. Those that have no holder are skipped.
	Touched map[string]proof.Touch
}

// An Outcome is a finished execution and everything that follows from it. It may also
// be what a policy has learnt about a query from the executions of others; then only
// Stats.State is new.
type Outcome struct {
	Query   string
	Stats   policy.Stats        // the complete new statistics
	Result  *diff.Result        // the new result, nil unless it differs from the stored one
	Delta   *diff.Delta         // from the stored result to Result; nil together with Result
	Checked time.Time           // when the answer was true
	At      time.Time           // when the execution ended
	Edits   []registry.DataEdit // that may have caused the change, as a feed tells
	Turned  bool                // the query's status is another one, so followers are woken
	// Prepared is what Ledger.Prepare returned for both. If nil, Record prepares them.
	Prepared Prepared
}

// Prepared is what Ledger.Prepare returned. It is opaque to all but that ledger.
type Prepared any

// A Slot is the summary of one slot of an endpoint.
type Slot struct {
	Endpoint       string    `json:"endpoint"`
	Number         uint64    `json:"slot"`
	Started        time.Time `json:"started"`
	Finished       time.Time `json:"finished,omitzero"`
	Tick           bool      `json:"tick,omitempty"`  // run on request, not on the grid
	Early          bool      `json:"early,omitempty"` // run before its time for a new query; the next slot pays for it
	Planned        int       `json:"planned"`         // executions in the plan
	PlannedSeconds float64   `json:"planned_seconds"`
	Run            int       `json:"run"`                   // executions started, each of one query
	Asks           int       `json:"asks,omitempty"`        // requests sent; a merged one is for several queries
	Void           int       `json:"void,omitempty"`        // those for several queries whose answer said nothing about them
	VoidReason     string    `json:"void_reason,omitempty"` // of the last of them
	Complete       int       `json:"complete"`
	Changed        int       `json:"changed"`
	Failed         int       `json:"failed"`
	Cut            int       `json:"cut"`
	Proved         int       `json:"proved,omitempty"` // not asked, because a feed proves their results
	Skipped        int       `json:"skipped"`          // eligible but passed over: the budget was too small
	Used           float64   `json:"used_seconds"`
	Budget         float64   `json:"budget_seconds"`            // the endpoint's budget, including what is repaid
	Repaid         float64   `json:"repaid_seconds,omitempty"`  // the part of it that repays debt of earlier slots
	Debt           float64   `json:"debt_seconds,omitempty"`    // what later slots must repay
	Lent           float64   `json:"lent_seconds,omitempty"`    // by how much the debt may grow until the slot is finished
	Claimed        int       `json:"claimed,omitempty"`         // executions started for intervals of profiles
	ClaimedSeconds float64   `json:"claimed_seconds,omitempty"` // their execution time
	Captured       int       `json:"captured,omitempty"`        // rounds of profiles that ended captured
	Expired        int       `json:"expired,omitempty"`         // rounds of profiles that expired
	// Stretch is the factor by which the policy stretched its deadlines because it could not meet them all.
	Stretch   float64 `json:"stretch,omitempty"`
	Error     string  `json:"error,omitempty"`     // why nothing could run, or why the slot stopped early
	Throttled bool    `json:"throttled,omitempty"` // the reason is that the endpoint asked us to wait
	// Charged is the part of Used that trial runs, and executions for hints, took before the slot.
	Charged float64 `json:"charged_seconds,omitempty"`
	OffGrid OffGrid `json:"off_grid,omitzero"` // what ran after the slot, because of hints
}

// Owes returns the debt that later slots must repay. A slot that was not finished owes
// everything that it could still have used, because nothing records how long its last
// executions took.
func (s Slot) Owes() time.Duration { return exactly(s.Debt) + exactly(s.Lent) }

// Found counts the changes that the slot found, and those that were found after it
// because of hints.
func (s Slot) Found() int { return s.Changed + s.OffGrid.Changed }

// An OffGrid is the part of a slot that runs after it, before the next one begins: the
// executions that hints asked for.
type OffGrid struct {
	Run      int     `json:"run"` // executions started
	Complete int     `json:"complete"`
	Changed  int     `json:"changed"`
	Failed   int     `json:"failed"`
	Cut      int     `json:"cut"`
	Used     float64 `json:"used_seconds"`           // of the slot's budget; the next slot is charged as much
	Lent     float64 `json:"lent_seconds,omitempty"` // what may be added before the ledger is written again
}

// total is what the executions may have used, for a reader of the ledger.
func (g OffGrid) total() time.Duration { return exactly(g.Used) + exactly(g.Lent) }

// count counts an outcome outside the grid.
func (g *OffGrid) count(o registry.Outcome, changed bool) {
	switch {
	case o.Complete():
		g.Complete++
		if changed {
			g.Changed++
		}
	case o == registry.Cut:
		g.Cut++
	case o != registry.Dropped:
		g.Failed++
	}
}

// exactly converts seconds to a duration, rounded to the nanosecond.
func exactly(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// A Clock tells the time and waits. A live loop uses a clock.Clock; the clock of a
// replay advances only by executions.
type Clock interface {
	Now() time.Time
	// Sleep waits until t, or returns ctx's error.
	Sleep(ctx context.Context, until time.Time) error
}

// An Executor executes queries at an endpoint. limit bounds the execution; it is a
// parameter because context deadlines ignore virtual clocks. If ctx is cancelled
// before the answer is complete, the outcome is Cut. What an execution waits for between two
// requests, it adds to the clock.Waits of ctx.
type Executor interface {
	Execute(ctx context.Context, q *registry.Query, m Memory, limit time.Duration) Answer
	// Health reports whether requests may be sent now.
	Health() registry.Health
}

// Memory and Answer are the input and output of an Executor.
type (
	Memory = registry.AnswerMemory
	Answer = registry.Answer
)
