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
// # What each part of hybrid is good for
//
// The policy "hybrid:d=256:h=4", as it is and with one part left out each, beside
// other policies: rule strict, 10 s a slot, the trace that
// "freshet bench generate --seed 1" makes, 15,256 changes. "Stale" adds up the
// slots for which results were not the true ones, "at most" is the longest of it.
//
//	freshet bench generate --seed 1 --out seed1.trace
//	freshet bench ablate --trace seed1.trace --budget 10s --rule strict
//
//	policy           executions   found    stale  at most
//	hybrid              193,051  11,334   40,970      249
//	  no-turn           159,836  11,005   51,684      248
//	  no-clock          192,454  10,783   42,654      198
//	  no-hazard         229,561  11,150   48,167      230
//	  no-kin            172,709  11,371   48,939      231
//	  no-guard          215,382  10,865   59,397    2,207
//	  myopic            398,229  10,570   34,942      253
//	rr                  867,326   2,688   47,159       48
//	cr:lambda=0          64,228   9,447  188,244      842
//	dj                   66,541   8,282  429,477    2,207
//	ttl:max=32:reset    626,227   6,041   34,147       47
//	ttl:max=256:half    161,747   9,031   91,064      257
//	sqrt                147,334   9,293   59,968      202
//	cv                   13,760  13,760    2,142        2
//
// Each part finds changes but for the neighbours, whose price is 37 of them and
// whose gain is a sixth of the delay. Where delay counts for more than changes,
// others win: ttl:max=32:reset has results stale for less time in all, and for 47
// slots at most, and finds half as many changes; the myopic index does so among
// the forms of hybrid. Where the budget is roomy, dj finds a little more: at 50 s
// under overrun 15,202 changes to hybrid's 15,182 (d=32:h=8), with twice the delay
// (1,995 slots to 1,071).
package bench
