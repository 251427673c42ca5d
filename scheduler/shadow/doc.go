// Package shadow estimates what other policies would have done at an endpoint, from
// the executions that are recorded. It asks no endpoint.
//
// The record says for every execution when the one before it was and whether
// something had changed in between, not when or how often. So Play samples a
// number of histories that fit the record, in which the recorded executions find
// what they found: results change in each slot with a probability of the query's
// own, which is drawn from what its record and those of the others make of it. In
// each history the planner plays the policy under the endpoint's rule from the same
// start, without debt. An execution takes what the recorded one of its query and
// slot took, or one of the two nearest. Estimates are means over the histories with
// their standard deviations.
//
// The queries keep their settings, such as weight, urgency, life, min_interval,
// max_staleness, from and until, as they are in force now; a query that is paused
// was wanted until then. Slots count as evenly spaced, one step of the grid apart.
// Each query is asked alone: merged requests are not estimated.
//
// The record cannot show whether a result changed and came back between two
// executions (it counts as unchanged), or rates that rose or fell (a query has
// one). Each query's record begins with its oldest remembered execution: the slots
// played are those that at least half of the queries remember, and before its own
// first one a query counts as unchanged.
//
// A Comparer does this for the policies that an endpoint's setting shadows lists,
// and keeps the last result.
package shadow
