// Package shadow estimates what other policies would have done at an endpoint, from
// the executions that are recorded. It asks no endpoint.
//
// The record says for every execution when the one before it was and whether
// something had changed in between, not when or how often. So Play makes a few
// histories of the changes that are known: in one each comes right after the execution
// before the one that found it, in another right before that one, and in the others at any
// time between. In each history the planner plays the policy under the endpoint's rule from
// the same start, without debt. An execution takes what the recorded one of its query and
// slot took, or the last one before. A report has the smallest and the largest value of each
// figure.
//
// The queries keep their settings, such as weight, urgency, life, min_interval,
// max_staleness, from and until, as they are in force now; a query that is paused
// was wanted until then. Slots count as evenly spaced, one step of the grid apart.
// Each query is asked alone: merged requests are not estimated.
//
// The record cannot show whether a result changed several times between two
// executions (it counts as one change, or as none if it came back), nor what changed
// after the last one. Each query's record begins with its oldest remembered execution: the slots
// played are those that at least half of the queries remember, and before its own
// first one a query counts as unchanged.
//
// A Comparer does this for the policies that an endpoint's setting shadows lists,
// and keeps the last result.
package shadow
