// Package scheduler decides which query runs when, runs it, and says what
// follows from its answer.
//
// Its pure half knows statistics (Stats), policies (Policy, one file each and
// one line in Policies), the planner with its strict budget rule, and what an
// answer means (observe). Its shell is the Loop, one per endpoint, and the
// Manager, which owns the loops.
//
// # A slot
//
// The loop takes in what is new in the ledger, brings waiting queries into the
// order, and starts executions while the rule lets it, at most
// Endpoint.Concurrency at a time. An answer is compared and committed; a change
// at once, what did not change with the next change, after a second, or at the
// end of the slot. Followers are told after the commit. Slots whose grid time
// passes while another runs are skipped; they take no number.
//
// # The budget
//
// K bounds the execution seconds of a slot: finished executions plus the
// elapsed time of running ones. When that reaches K all running ones are cut.
// The order is: refresh requests and new queries, together at most K/2, hinted
// ones, at most K/4, what open intervals of profiles claim, at most their share
// while others wait, then ranked ones. A query starts when its estimate fits what is left, or else is
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
// Only rule strict is implemented.
package scheduler
