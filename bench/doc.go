// Package bench plays scheduling policies over histories of query results and
// measures them against the whole truth.
//
// A trace (package bench/trace) holds the result of every query in every revision
// of a dataset, and the time of each execution. A simulation runs a policy over it
// with the planner of the live loop. The metrics come from the trace: a metric of the
// executed queries alone would reward a policy that starves the others.
//
// Policies, budget rules and metrics follow Knuth, Hartig, Sack, "Scheduling
// Refresh Queries for Keeping Results from a SPARQL Endpoint Up-to-Date" (2016),
// sections 4 and 5.4. The page web/docs/results.md shows results.
package bench
