// Package scheduler decides which query runs when, runs it, and determines what
// follows from its answer.
//
// A Loop runs the slots of one endpoint; a Manager owns the loops. The Loop asks
// package plan, which decides what is due, what fits the budget and which query is
// next, by the order of a policy. Packages policy and hybrid hold the policies,
// package rounds follows profiles. These are pure: the Loop passes times, slots and
// results to them. It also decides what an answer means (observe).
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
// # Profiles
//
// A profile's rounds are complex execution intervals: one interval for each of
// its queries, in time or in slots. What opens rounds (a change, a prediction, a
// multiple of a period) is checked where it occurs: in the slot that finds the
// change, or when a slot begins. Any complete execution inside an interval
// captures it, whatever tier chose it. Under the policies sedf, mrsf and medf
// intervals claim executions. A missed interval ends its round.
// Everything that follows from an execution is recorded with it.
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
// The keys of rr, sjf, ljf, cr, dj and ttl do not change between two executions of
// a query, so the order is kept, and a slot costs what it executes and what becomes
// due: with 1,000,000 queries, 1,000 executions take 1.5 to 3 ms of processor time
// under each of the six, some 1,000 times less than ranking all by the formulas. The
// other policies rank every query that may run when a slot begins, O(n), and sort
// only those that the budget may reach: a slot of hybrid takes 1 to 3 ms with 10,000
// queries, 8 to 25 ms with 100,000 and 160 to 190 ms with 1,000,000, also when all
// of them are overdue. It allocates about twice per execution, however many queries
// there are. A query takes 1.2 to 1.5 KB in the planner, its text aside, while it
// has one execution to remember; all 63 take 2 to 4 KB more, and the state of the
// policy 8 bytes a number. BenchmarkRank and BenchmarkRankAll of package plan and
// BenchmarkSlot of package hybrid measure that.
package scheduler
