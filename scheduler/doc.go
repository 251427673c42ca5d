// Package scheduler decides which query runs when, runs it, and determines what
// follows from its answer.
//
// Its pure half knows statistics (Stats), policies (Policy, one file each and
// one line in policy.Definitions), the planner with its budget rule, and what an
// answer means (observe). Its shell is the Loop, one per endpoint, and the
// Manager, which owns the loops.
//
// # A slot
//
// The loop reads the ledger's news, moves waiting queries into the order, and
// starts executions as long as the budget rule allows it, at most
// Endpoint.Concurrency at a time. An answer is compared and committed. A change is
// committed at once when no other execution is in progress, and otherwise together
// with those of the next 10 ms, or of up to 80 ms while changes keep coming, 64 at
// most. Unchanged outcomes are committed with the next change, after a second, or at
// the end of the slot. Followers are notified after the commit. Slots whose grid time
// passes while another runs are skipped; they take no number.
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
// # Profiles
//
// A profile's rounds are complex execution intervals: one interval for each of
// its queries, in time or in slots. What opens rounds (a change, a prediction, a
// multiple of a period) is looked at where it happens: in the slot that finds the
// change, or when a slot begins. Any complete execution inside an interval
// captures it, whatever tier chose it; the endpoint's policy, if it is sedf, mrsf
// or medf, lets intervals claim executions. A missed interval ends its round.
// Everything that follows from an execution is recorded with it.
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
//
// # Policies
//
// These policies order the ranked tier, spelled here with their defaults. The type
// of each documents its formula and source.
//
//	rr                       executed longest ago first
//	sjf:lambda=0.5           shortest median time first, e^(−λ·age) times it
//	ljf:lambda=0.5           longest first, likewise
//	cr:lambda=0              change rate: +1 for each change found, −1 for none, faded
//	dj                       dynamics: Jaccard distances of the changes found, faded
//	ttl:max=32:reset         due after a time to live that doubles without a change
//	sqrt                     as often as √(weight·rate) says, spread over the day
//	wic:urgency=uniform:life=overwrite
//	                         what an execution now captures, by probability of change
//	sup:x=1:life=overwrite   the fewest that report every x-th update while it is alive
//	fbsup:x=1:life=overwrite the same, corrected by what executions find
//	hybrid                   worth per second from learnt rates, and a deadline for all
//	cv                       clairvoyant: a yardstick of simulations, refused elsewhere
//	sedf:p mrsf:p medf:p     intervals of profiles first, by their end, by what their
//	                         round lacks, by the time that it has left; the endpoint's
//	                         second policy orders the rest
//
// A policy is an order and a fold over one query's executions; hybrid learns of
// the endpoint as a whole besides. The ledger keeps both. Another policy begins
// with what the last 63 executions of each query teach it. Package shadow
// compares other policies with an endpoint's own over the recorded executions.
//
// # Cost
//
// The keys of rr, sjf, ljf, cr, dj and ttl stay as they are between two
// executions of a query, so the order is kept, and a slot costs what it executes
// and what becomes due: of a million queries a thousand take 1.7 to 2.6 ms of
// processor time, some 1,000 times less than ranking all of them by the formulas.
// All others rank every query that may run when a slot begins, O(n), and put in
// order only those that the budget may reach: hybrid takes 1 to 3 ms with 10,000
// queries, 8 to 40 ms with 100,000 and 160 to 190 ms with 1,000,000, also when all
// of them are overdue. A query takes 1.2 to 1.5 KB in the planner, its text
// aside, while it has one execution to remember; all 63 take 2 to 4 KB more, and
// the state of the policy 8 bytes a number. BenchmarkRank, BenchmarkRankAll and
// BenchmarkSlot of package hybrid measure that.
package scheduler
