// Package proof decides which results are known to be true, from what feeds tell about the data
// and endpoints about their positions in a feed. It is pure: the caller passes times and events.
//
// Let N be the position of an endpoint before an answer. The answer shows the data at some
// position that is not before N. If no event after N reaches the query, the result is true at
// every position since N. So a query is proved as long as the last event that reached it comes
// before the position of its answer; see [View.Proof].
//
// A query that an event has matched is armed until an answer is known to include the event. Until
// then no answer ends the wait, whether it differs from the result or not; see [Wait].
//
// A [Matcher] finds the queries that an event reaches.
package proof
