// Package policy defines how a policy orders an endpoint's queries. It contains the
// policies that rank each query on its own, with their formulas.
//
// A [Policy] gives every query a [Key] and keeps a few numbers for it. It is a pure
// value: it reads the [Candidate] and its [Stats], and returns new state for its
// caller to store. [Ranker] and [Collective] are for policies that need all queries
// of an endpoint together.
//
// [Stats] hold what executions teach about one query, whatever the policy. The live
// loop and the simulator update them by the same methods.
package policy
