// Package scheduler decides which query runs when, runs it, and determines what
// follows from its answer.
//
// A Loop runs the slots of one endpoint; a Manager owns the loops. The Loop asks
// package plan, which decides what is due, what fits the budget and which query is
// next, by the order of a policy. Packages policy and hybrid hold the policies,
// package rounds follows profiles. These are pure: the Loop passes times, slots and
// results to them. It also decides what an answer means (observe).
//
// # Parts of a loop
//
// A Loop composes parts that meet only in what they share (type loopData), which one lock
// guards. The methods of loopData need the lock; the parts acquire it and never hold it
// while they ask the endpoint or write to the ledger.
//
//	pacer      what comes next: a slot, executions for hints, the end of rounds
//	runner     one slot: starts executions, handles their answers, commits
//	comparer   compares an answer with the last result; without the lock
//	trials     trial runs, beside slots
//	account    what ran outside slots and is still to be paid
//	calendar   when slots come; a value
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
// # Hints
//
// A hint marks the queries that it may affect. If the last slot has left some of its
// budget, they run at once, between two slots. These executions count for the slot that
// ended last, and the next slot is charged with their time, so no sequence of hints makes
// a slot, or the time from the end of one slot to the end of the next, take more than a
// budget. The ledger knows what they may use before they use it. Policies count slots and
// see at most one sample of a query in each.
//
// # Merged requests
//
// A query that starts brings others along that differ from it in constants only, and one
// request asks for all of them. A complete answer only confirms results: a query that it
// does not confirm, or that has none, is asked alone. So no fault in how an endpoint
// answers merged requests leads to a change that was never true. Package cohort learns
// what pays; web/docs/merging.md describes requests, void answers and audits.
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
//	hybrid                   worth per second from learnt rates, and a price for waiting
//	cv edf                   clairvoyant: yardsticks of simulations, refused elsewhere
//	rates fresh              know how often each result changes: more yardsticks
//	bayes                    knows how many change how often, not which ones
//	signals                  also hears noisy signals of changes
//	sedf:p mrsf:p medf:p     intervals of profiles first, by their end, by what their
//	                         round lacks, by the time that it has left; the endpoint's
//	                         second policy orders the rest
//
// A policy is an order and a fold over one query's executions; hybrid also learns
// about the endpoint as a whole. The ledger stores both. After a change of policy, the
// new one learns from the last 63 executions of each query. Package shadow compares
// other policies with an endpoint's own over the recorded executions.
//
// # Cost
//
// Under rr, sjf, ljf, cr, dj and ttl, the key of a query changes only when the query is
// executed, so a slot costs what it executes and what becomes due. The other policies rank
// all eligible queries when a slot begins. BenchmarkRank, BenchmarkRankAll,
// BenchmarkForecastOfNew and BenchmarkMark of package plan and BenchmarkSlot of package
// hybrid measure this; web/docs/sizing.md has figures.
package scheduler
