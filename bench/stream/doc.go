// Package stream generates the change stream of a Wikibase and plays it with faults, to judge programs that
// follow one. A World draws edits of its entities; a Server sends them as server-sent events and drops, doubles,
// cuts and forgets messages; a Judge knows what was true at each position of an endpoint that applies the edits
// late, and finds results that were lost, false, doubled or wrongly proved.
//
// Everything but the times of messages follows from seeds.
package stream
