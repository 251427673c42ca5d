// Package policy says how a policy orders an endpoint's queries, and holds the
// policies that look at one query at a time, with their formulas.
//
// A [Policy] gives every query a [Key] and keeps a few numbers for it. It is a pure
// value: what it knows of a query is the [Candidate] and its [Stats], what it
// remembers is returned and kept by its caller. [Ranker] and [Collective] are for
// policies that have to see all queries of an endpoint together.
//
// [Stats] are what executions teach about one query, whatever the policy. The live
// loop and the simulator update them by the same methods.
package policy
