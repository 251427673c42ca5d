// Package plan decides which query of an endpoint runs next: which queries are due,
// which fit the budget, in which order they run, and why a query was passed over. It
// is pure: the caller passes times, slots and results.
//
// A Planner holds the queries. [Planner.Update] brings it up to date with the
// registrations, [Planner.Begin] begins a slot, and [SlotBudget.Next] returns one
// execution after the other. [SlotBudget.Finish] books what an execution took,
// [SlotBudget.Record] updates the plan with what follows from its answer, and
// [Planner.End] ends the slot. Between slots [Proofs.Hint] marks queries that may have
// changed, [Planner.Forecast] predicts when a query runs, and [Planner.Explain] says
// why.
//
// Between two slots, [Planner.BeginOffGrid] begins executions of queries that hints have
// marked, within what the last slot has left of its budget.
//
// A Replay plays the slots of an endpoint whose answers are known.
//
// # Merged requests
//
// [Planner.Classify] puts queries that differ in constants only into a cohort. An
// execution that begins brings others of its cohort along, its riders. For the budget the
// request is one execution. [SlotBudget.Answered] divides the time of a complete request,
// and each member is recorded for itself. [SlotBudget.Void] returns the members of any
// other request to their places; the first of them is asked alone next. Queries that an
// answer has not confirmed, and those that are audited, are asked alone before hinted
// queries, in at most half of the budget.
//
// # The budget
//
// K bounds the execution seconds of a slot: those of finished executions plus the
// elapsed time of running ones. When the sum reaches K, all running executions are cut
// (under the rule strict, see below).
//
// The tiers of a slot are, in order:
//
//   - refresh requests and new queries, together at most K/2. New queries that failed
//     go behind those that were never tried.
//   - hinted queries, at most K/4.
//   - queries that open intervals of profiles claim, at most the share of claims while
//     others wait.
//   - ranked queries.
//
// A query starts if its estimate fits what is left of the budget; otherwise it is
// passed over. The first ranked query always starts, alone if its estimate exceeds K.
// With several executions at a time, the expected time of the running ones is
// subtracted first: the larger of estimate and elapsed time, or the whole limit of a
// query that was cut before. If an endpoint requires a gap between requests, its
// executions run one at a time.
//
// If refresh requests and new queries leave too little for the first ranked query, that
// query begins one of the next two slots. So neither side can starve the other.
//
// # Rules
//
// Under strict, an execution that reaches the end of the budget is cut. It uses what
// was left, and only shows that the query takes at least that long. A query that was
// cut with a whole budget n times since it was last complete is left out of the next
// 2^n − 1 slots, n at most 8.
//
// Under debt, a started execution may finish within its timeout. Estimates still have
// to fit. What a slot takes beyond its budget is a debt. Each later slot repays
// r = min(debt, K/2) of it and has its budget less r. While debt remains after that,
// the slot is strict. A first query that does not fit then waits until the debt is
// repaid instead of being cut, so it always runs. A slot may borrow at most one
// timeout. It follows that consecutive slots use at most their budgets plus one
// timeout, and that a debt is repaid after 2·timeout/K slots.
//
// With several executions at a time, the credit is for the one that began first. The
// others are cut when, without it, the budget is used up. Refresh requests and new
// queries that exceed their half borrow from later slots, not from ranked queries. A
// refresh request that needs more than K/4 goes first among the ranked queries, because
// the front tiers of a slot that repays may have no more. Before executions exceed the
// budget, the ledger records that they may: after a crash all that they might have
// taken is owed. A debt outlives restarts, pauses, and a change of rule or budget.
//
// Replays also support overrun, the rule of Knuth, Hartig and Sack: in order, a query
// starts while any budget is left, and the last one takes what it takes. The rule
// exceeds the budget and never repays, so it is not available for live endpoints.
package plan
