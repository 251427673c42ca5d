// Package bench plays scheduling policies over recorded or generated histories
// of query results, and measures them against the whole truth.
//
// A Trace says what every query would have answered in every revision of a
// dataset and how long that would have taken. Simulate runs policies over it
// with the planner, the budget rules and the statistics of the live loop; what
// they are given differs, not what they do with it. A Tally measures what was
// chosen against the trace: a metric that saw only executed queries would
// reward starving the others.
//
// Definitions of policies, budget rules and metrics follow Knuth, Hartig, Sack,
// "Scheduling Refresh Queries for Keeping Results from a SPARQL Endpoint
// Up-to-Date" (2016), sections 4 and 5.4.
//
// Traces come from Generate (synthetic, calibrated to the statistics published
// there), from Record (a real endpoint whose changes are replayed), and from
// files: the exchange format in JSON (ReadJSON, WriteJSON) and a compact one
// (ReadCompact, Writer), which Load tells apart by their first bytes.
//
// The page web/docs/results.md shows results.
package bench
