// Package merge combines queries that differ in constants only into one query,
// and splits its answer into the answers of the single queries. It is pure: it
// uses no clock, disk or network.
//
// # Templates
//
// A template is a query's normal form without its parameters. A parameter is an
// IRI or a string without a language in subject or object position of a triple
// pattern. Equal constants are one parameter.
// Parse decides which constants are parameters:
//
//   - a constant elsewhere (predicates, classes after a, FILTER, EXISTS, BIND, VALUES,
//     names of graphs) stays part of the template;
//   - so does an end of a path with * + ? ! or |, and the argument of a predicate that is a
//     search function of an engine. Virtuoso 7 makes a union of | and crashes, or drops rows,
//     where another union uses the parameter, too;
//   - so does a constant that occurs only in OPTIONAL or in some alternatives of a
//     UNION, so that triple patterns always bind a parameter.
//
// Queries with equal templates can be merged if their endpoint, dataset and
// credentials are equal too.
//
// # The merged query
//
//	SELECT ?i <projection> WHERE {
//	  VALUES ( ?i ?p0 ) { ( 0 <c0> ) ( 1 <c1> ) … }
//	  <pattern with ?p0>
//	}
//
// The number ?i makes splitting independent of how an endpoint spells terms. A
// member without rows has the empty result.
//
// # Which queries can be merged
//
// For a pattern P with a parameter c, the solutions of P with a variable p in place of c
// that are compatible with p = c are the solutions of P, extended by p. This holds for
// triple patterns, joins, unions, filters without p, and for the right side of OPTIONAL
// where the left side binds p. The VALUES block comes first, so that the outermost group
// always binds p. In an inner group it does not, and a sub-select or MINUS has a scope of
// its own.
//
// That is what SPARQL defines. Endpoints err: Virtuoso 7 drops conditions and rows of
// patterns that are correct but unusual, sometimes in the query alone and sometimes in the
// merged one. So the rules are stricter than the definition. They permit the patterns that
// people write, and each has a reason:
//
//   - Nested: the outermost group consists of triple patterns, FILTER, BIND, VALUES,
//     OPTIONAL, GRAPH and UNION, and groups inside it of triple patterns and FILTER. Other
//     groups are evaluated on their own before they are joined, where p is not bound.
//   - Unbound: a variable that two parts of a group share is always bound by the first of
//     them, a condition uses variables of its own group, and the result uses variables of
//     the pattern. Joins and conditions with unbound variables are where engines differ.
//   - Disconnected: all triple patterns are connected by variables, or by constants that may
//     be parameters. Others form a cross product, which people hardly ever mean, and which
//     takes an endpoint long for many members.
//   - Repeated: no triple pattern has a variable or parameter twice. Virtuoso ignores the
//     equality if the predicate is a path.
//   - Limit, Order, Aggregate, Modifiers, Columns: what applies to all rows of a query
//     cannot apply to the rows of one member, or has no certain result for it.
//   - Trivial: each condition depends on the solution. Where none has a solution, Oxigraph
//     answers an aggregate without GROUP BY with no row instead of one.
//   - Path: engines differ in how often a path of any length repeats a row, and in paths
//     from a literal, which is the subject of no triple. Where a parameter is near such a path,
//     Virtuoso misses solutions even if rows are distinct.
//   - Describe, Reduced, Dynamic, BlankTemplate, Dialect: the result is up to the endpoint,
//     or differs between two executions.
//
// The tests ask random queries and queries of logs one by one and merged, at an
// embedded engine and at Virtuoso, and compare all rows:
//
//	go test ./endpoint/merge -run 'TestLongExact$' -v -merge.answers 100000 -merge.seed 1
//	go test -tags virtuoso ./endpoint/merge -run Virtuoso -v -merge.seed 1
//
// # The probe
//
// A probe asks for one row per member: the number of rows, and sums over a hash
// of each row. Equal numbers mean that the member did not change, up to
// collisions of 51 bits.
package merge
