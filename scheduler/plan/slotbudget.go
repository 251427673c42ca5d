package plan

import (
	"cmp"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
)

// A SlotBudget chooses the executions of one slot and applies the budget rule, as the comment
// of the package says.
type SlotBudget struct {
	account
	p          *Planner
	merging    Merging
	spare      *Execution // to be used again
	opener     *item
	begun      bool // an execution has started
	alone      bool // nothing else starts in this slot
	searches   []*search
	spoilers   []string
	everything bool // outside the grid: a hint is about all queries
}

// A Merging says how merged requests are made in a slot.
type Merging struct {
	Mode string // registry.Endpoint.Merge
	Rows int    // expected rows of a request at most, 0 = defaultRows
}

func (m Merging) rows() int { return cmp.Or(m.Rows, defaultRows) }

// An account holds the time that a slot has and has used, and its executions in
// progress. It knows what is left for another execution, and which have to be cut.
type account struct {
	rule     Rule
	claims   *claims
	width    int           // executions at a time
	serial   bool          // never more than one at a time
	timeout  time.Duration // of one execution
	start    time.Time     // when the slot began
	until    time.Time     // when it ends, if it is outside the grid; else zero
	repaid   time.Duration // of the debt, by this slot
	budget   time.Duration // the endpoint's budget less repaid
	share    time.Duration // of the budget, for refresh requests and new queries together
	owes     time.Duration // debt that remains after the repayment
	credit   time.Duration // how far running executions may exceed the budget
	lent     bool          // the ledger knows that they may
	charged  time.Duration // used by trial runs before the slot began
	used     time.Duration // by finished executions, charges included
	front    time.Duration // used by refresh requests and new queries
	onHints  time.Duration // used by hinted queries
	onClaims time.Duration // used by claimed queries
	onChecks time.Duration // used by queries that are asked again
	runs     []*Execution
}

// An Execution is one execution in progress.
type Execution struct {
	c       *item
	tier    string
	front   bool
	start   time.Time
	share   time.Duration // part of the budget that was available for it
	limit   time.Duration // what it may take: the share, or more on credit
	open    bool          // its cost is unknown; it may take all of its limit
	whole   bool          // its limit is the whole budget
	cut     bool          // told to stop
	served  uint64
	cause   string
	marked  bool         // by a hint; a complete execution removes the mark
	claim   rounds.Claim // if the tier is TierInterval
	bounded bool         // by the share of claims

	expected time.Duration // its own time, or that of the merged request
	kind     cohort.Kind   // of a merged request
	riders   []*Execution  // the other members
	ask      *LastAsk      // that was complete, of several members; nil if it was asked alone
	checks   bool          // it asks again
	again    bool          // for an audit that found a difference
	search   *search       // of which it is a part, or nil

	waits *clock.Waits // for the gap between its requests; nil if they count
}

func newSlotBudget(p *Planner, width int, timeout, charged time.Duration) *SlotBudget {
	s := &SlotBudget{p: p, account: account{
		rule: p.rule, claims: &p.claims, width: width, serial: width == 1, timeout: timeout, start: p.begun, repaid: repayment(p.debt, p.budget),
	}}
	s.budget = p.budget - s.repaid
	s.share = s.budget / 2
	s.charged = min(charged, s.budget)
	s.used = s.charged
	if s.owes = p.debt - s.repaid; s.owes == 0 {
		s.credit = p.rule.credit(timeout)
		s.opener = p.opener()
	}
	return s
}

// debt is what later slots have to repay.
func (s *account) debt() time.Duration {
	if !s.rule.fits() {
		return 0
	}
	return s.owes + s.excess()
}

// excess is by how much finished executions have exceeded the budget.
func (s *account) excess() time.Duration { return max(0, s.used-s.budget) }

// offGrid reports whether the executions run between two slots.
func (s *account) offGrid() bool { return !s.until.IsZero() }

// open reports whether the cost of a query is unknown: it never completed, or was
// cut after more than its median.
func (c *item) open() bool { return c.Stats.Executions == 0 || c.Stats.Floor > c.Median }

// Query is the executed query.
func (r *Execution) Query() *registry.Query { return &r.c.Query }

// Stats are the query's statistics, without this execution until Record.
func (r *Execution) Stats() policy.Stats { return r.c.Stats }

// Tier is the tier that brought the query into the slot.
func (r *Execution) Tier() string { return r.tier }

// Served is the number of refresh requests for the query when the execution began.
func (r *Execution) Served() uint64 { return r.served }

// Cause is why the query is asked although its endpoint has a feed, one of the causes of proof, empty if it has none.
func (r *Execution) Cause() string { return r.cause }

// Elapsed is how long the execution has been running, without its waits for the gap.
func (r *Execution) Elapsed(now time.Time) time.Duration {
	return max(0, now.Sub(r.start)-r.waits.Total())
}

// SetWaits says where the execution's waits for the gap are added up. Without it they count.
func (r *Execution) SetWaits(w *clock.Waits) { r.waits = w }

// reserve is the least time that the execution is now expected to take in total.
func (r *Execution) reserve(now time.Time) time.Duration {
	if r.open && r.c.Estimate > 0 {
		return max(r.share, r.Elapsed(now))
	}
	return max(r.expected, r.Elapsed(now))
}

// left is the rest of the budget, and of the share of the front tiers, after what
// running executions have taken so far.
func (s *account) left(now time.Time) (all, front time.Duration) {
	all, front = s.budget-s.used, s.share-s.front
	for _, r := range s.runs {
		all -= r.Elapsed(now)
		if r.front {
			front -= r.Elapsed(now)
		}
	}
	return all, min(front, all)
}

// grant is the limit of an execution that may use part of the budget.
func (s *account) grant(part time.Duration, now time.Time) time.Duration {
	if s.credit == 0 {
		return part
	}
	return s.reach(now)
}

// reach is the rest of budget and credit.
func (s *account) reach(now time.Time) time.Duration {
	all := s.budget + s.credit - s.used
	for _, r := range s.runs {
		all -= r.Elapsed(now)
	}
	return all
}

// spent reports whether finished executions leave nothing of the budget.
func (s *account) spent() bool {
	left := s.budget - s.used
	if s.credit > 0 {
		left += max(0, s.front-s.share)
	}
	return left <= 0
}

// room is the time that the estimate of another execution has to fit. What the front
// tiers take on credit is borrowed from later slots, not from the other tiers.
func (s *account) room(now time.Time) (ranked, front time.Duration) {
	ranked, front = s.budget-s.used, s.share-s.front
	var inFront time.Duration
	unknown := false
	for _, r := range s.runs {
		if !r.front {
			ranked -= r.reserve(now)
			continue
		}
		inFront += r.reserve(now)
		unknown = unknown || r.open
	}
	frontRoom := min(front-inFront, ranked-inFront)
	if unknown { // may take all of the share
		inFront = max(inFront, front)
	}
	if s.credit > 0 { // the excess over the share is borrowed
		inFront = min(inFront, front)
	}
	return ranked - inFront, frontRoom
}

// SetWidth sets how many executions may run at a time from now on.
func (s *account) SetWidth(n int) { s.width = n }

func (s *SlotBudget) begin(c *item, now time.Time, part time.Duration, front bool) *Execution {
	r := s.spare
	if s.spare = nil; r == nil {
		r = &Execution{}
	}
	*r = Execution{
		c: c, tier: c.tier, front: front, start: now, share: part, limit: s.grant(part, now), expected: c.Estimate, open: c.open(),
		served: c.asked, marked: s.p.hints.has(c), cause: s.p.cause(c),
	}
	s.p.pick(c)
	s.begun = true
	s.runs = append(s.runs, r)
	return r
}

// Limit is how long an execution may take: its part of the budget, at most the
// timeout.
func (s *account) Limit(r *Execution) time.Duration { return min(r.limit, s.timeout) }

// Totals are the sums of a slot.
type Totals struct {
	Used    time.Duration // by finished executions, including Charged
	Charged time.Duration // by trial runs before the slot
	Repaid  time.Duration // of earlier slots' debt
	Claimed time.Duration // used by claimed queries
	Debt    time.Duration // that later slots have to repay
}

// Totals returns the sums so far.
func (s *account) Totals() Totals {
	return Totals{Used: s.used, Charged: s.charged, Repaid: s.repaid, Claimed: s.onClaims, Debt: s.debt()}
}
