// Package policy defines how a policy orders an endpoint's queries. It contains the
// policies that rank each query on its own, with their formulas.
//
// A [Policy] is a pure value, and [Stats] are updated by the same methods in the live loop
// and in simulations.
package policy
