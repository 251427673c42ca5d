// Package diff represents results of SPARQL queries in canonical form, compares
// them exactly, and computes and applies the deltas between them. It is pure: it
// uses no clock, disk or network, and imports no other package of Freshet.
//
// A canonical row is its canonical text. A document is a concatenation of rows, a
// delta is a selection of them, and nothing is encoded twice.
//
// # Terms
//
// Terms are compared by kind, value, datatype and language. Language tags are
// lower-case (ASCII letters only). The datatype xsd:string is the same as none.
// The datatype rdf:langString of a literal with a language is left out.
// "typed-literal" means "literal". Lexical forms and IRIs are never normalised.
//
// # SELECT
//
//	{"head":{"vars":["s","l"]},"results":{"bindings":[ROW,ROW]}}
//
// without white space. A ROW is a JSON object of the bound variables in the
// order of the head. A term is one of
//
//	{"type":"uri","value":"…"}
//	{"type":"bnode","value":"…"}
//	{"type":"literal","value":"…"}
//	{"type":"literal","value":"…","xml:lang":"…"}
//	{"type":"literal","value":"…","datatype":"…"}
//
// with its members in this order. Strings are UTF-8, escaped as ECMAScript's
// JSON.stringify does: \" \\ \b \t \n \f \r, any other character below U+0020
// as \u00xx with lower-case digits, and nothing else. The head keeps the
// endpoint's order of variables, unless Options.Vars names the same set in
// another order.
//
// Unordered results: rows are sorted by their bytes, and repeated rows are
// repeated. Ordered results: the sequence is kept, except that neighbouring rows
// with identical terms for all Options.OrderKeys are sorted by their bytes,
// because SPARQL leaves their order open. This requires all of the keys in the
// head.
//
// # ASK
//
//	{"head":{},"boolean":true}
//
// # CONSTRUCT and DESCRIBE
//
// A set of N-Triples lines, sorted by bytes, each followed by a line feed:
//
//	<s> <p> "o"@en .
//
// with one space between the terms and before the full stop. In strings \" \\
// \n \r \t \b \f are escaped like this, and other characters below U+0020 and
// U+007F as \u00XX with upper-case digits; nothing else is escaped. In IRIs only
// characters that an IRI must not contain (up to U+0020 and <>"{}|^`\) are
// escaped, as \u00XX.
//
// # Blank nodes
//
// Labels are canonical: they depend neither on the labels that the endpoint
// chose nor on the order of rows, and the label of a node with a unique hash does
// not depend on rows without the node. A label is meaningful within one result
// only. See blank.go for the algorithm, which generalises the W3C's RDFC-1.0 from
// quads to rows. Clients need not compute labels: they may use those they
// receive.
//
// # Hash
//
// The published hash is "sha256:" and the lower-case hexadecimal SHA-256 of
// the whole document.
//
// # Applying a delta
//
// Unordered results and graphs: delete each removed row once, insert the added
// rows, sort by bytes, and write the rows between head and tail. Ordered results:
// delete the rows at the indices removed_at of the old sequence, then insert the
// added rows so that they are at the indices added_at of the new one.
package diff
