// Package plan decides which query of an endpoint is next: what is due, what fits the
// budget, in which order, and why a query was passed over. It is pure: the caller
// passes times, slots and results.
//
// A Planner holds the queries. [Planner.Merge] brings it up to date with the
// registrations, [Planner.Begin] begins a slot, and [SlotBudget.Next] returns one
// execution after the other. [SlotBudget.Finish] books what an execution took,
// [SlotBudget.Record] takes in what follows from its answer, and [Planner.End] ends the
// slot. Between slots [Planner.Hint] marks queries that may have changed,
// [Planner.Forecast] predicts when a query runs, and [Planner.Explain] says why.
//
// A Replay plays slots of an endpoint whose answers are known.
//
// # The budget
//
// K bounds the execution seconds of a slot: finished executions plus the
// elapsed time of running ones. When that reaches K all running ones are cut
// (under the rule strict, see below).
// The order is: refresh requests and new queries, together at most K/2, hinted
// ones, at most K/4, what open intervals of profiles claim, at most their share
// while others wait, then ranked ones. New queries that failed go behind those
// never tried. A query starts when its estimate fits what is left, or else is
// passed over; the first ranked one always starts, alone when its estimate
// exceeds K. With several executions at a time what is left is counted after
// what the running ones are expected to take: the larger of estimate and
// elapsed time, or all of its limit for one that was cut before. The gap that
// an endpoint wants between the end of one request and the start of the next
// makes its executions one at a time.
//
// Where refresh requests and new queries leave too little for the first ranked
// query, it is remembered and begins the next slot but one at the latest, so
// that neither side can starve the other.
//
// # Rules
//
// strict is as above: a run that reaches the end of the budget is cut there, uses
// what was left, and tells nothing but that it takes at least that long. Cut with
// a whole budget for the n-th time since it was last complete, a query is left out
// of the next 2^n − 1 slots, n at most 8.
//
// debt lets what has started finish within its timeout. Estimates have to fit all
// the same, and what a slot takes beyond its budget is a debt: each later one has
// its budget less r = min(debt, K/2), and the debt is less by r. While some of it
// remains after that, the slot is strict, and a first query that exceeds what is
// left waits for its end instead of being cut, so that it always comes. One
// timeout is all that a slot may borrow. Hence any slots in a row use at most
// their budgets and one timeout, and after 2·timeout/K slots nothing is owed. With
// several executions at a time the timeout is for the one that began first; the
// others are cut when, without it, the budget is used up. Refresh requests and new
// queries that exceed their half take it from later slots, not from ranked ones;
// one that needs more than K/4 is ranked first of all, for a slot that repays has
// no more for sure. Before executions go beyond the budget the ledger knows that
// they may: after a crash all that they might have taken is owed. A debt outlives
// restarts, pauses, and a change of rule or budget.
//
// Replays know overrun besides, the rule of Knuth, Hartig and Sack: in order, a
// query starts while anything is left, and the last one takes what it takes. It
// exceeds the budget and never repays, so no endpoint is asked like that.
package plan
