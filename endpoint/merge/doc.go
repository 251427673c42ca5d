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
//   - a constant elsewhere (predicates, classes after a, FILTER, BIND, VALUES,
//     EXISTS, MINUS, SERVICE, sub-selects, names of graphs) stays part of the
//     template;
//   - so does an end of a path with * + ? or !, a string at an end of any path
//     that is not one predicate, and the argument of a predicate that is a search
//     function of an engine;
//   - so does a constant that occurs in an OPTIONAL inside another group,
//     unless the required part of that group contains it too. There a variable
//     would change which solutions have no match.
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
// Why it is exact: for a pattern P with a parameter c, the solutions of P with a
// variable p in place of c that are compatible with p = c are the solutions of
// P, extended by p. This holds for triple patterns, joins, unions, filters
// without p, and for the right side of OPTIONAL where the left side binds p. The
// VALUES block comes first, so that the outermost group always binds p. The rules
// above and the reasons of Refusal exclude everything else.
//
// The same answer comes from a UNION of the members' patterns:
//
//	SELECT ?i <projection> WHERE {
//	  { <pattern with c0> BIND( 0 AS ?i ) } UNION { <pattern with c1> BIND( 1 AS ?i ) } …
//	}
//
// Endpoints compile it longer, but some plan a join with VALUES so badly that it takes
// a thousand times as long.
//
// # The probe
//
// A probe asks for one row per member: the number of rows, and sums over a hash
// of each row. Equal numbers mean that the member did not change, up to
// collisions of 51 bits.
package merge
