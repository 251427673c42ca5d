// Package diff knows what the result of a SPARQL query is, when two results
// are the same, how far apart they are and how to get from one to the other.
// It is pure: no clock, no disk, no network, and it imports no other package
// of Freshet.
//
// A canonical row is its canonical text, so a document is a concatenation of
// rows, a delta is a selection of them, and nothing is ever encoded twice.
//
// # Terms
//
// Terms are compared by kind, value, datatype and language. Language tags are
// lower-case (ASCII letters only). The datatype xsd:string is the same as none;
// beside a language the datatype rdf:langString is left out. "typed-literal"
// means "literal". Lexical forms and IRIs are never normalised.
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
// Unordered: rows are sorted by their bytes, and a row that stands twice is
// there twice. Ordered: the sequence is kept, except that neighbouring rows
// with identical terms for all Options.OrderKeys are sorted by their bytes
// among themselves, as SPARQL leaves their order open. This needs all of the
// keys to be in the head.
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
// \n \r \t \b \f are written so, other characters below U+0020 and U+007F as
// \u00XX with upper-case digits, nothing else is escaped. In IRIs only the
// characters that cannot stand in one (up to U+0020 and <>"{}|^`\) are, in the
// same way.
//
// # Blank nodes
//
// Labels are canonical: they depend neither on the labels that the endpoint
// chose nor on the order of rows, and one that is unlike all others does not
// change with rows that do not mention it. A label has a meaning within one
// result only. See blank.go for the algorithm, which generalises the W3C's
// RDFC-1.0 from quads to rows. A client need not compute labels: it may take
// those it is sent as they are.
//
// # Hash
//
// The published hash is "sha256:" and the lower-case hexadecimal SHA-256 of
// the whole document.
//
// # Applying a delta
//
// Unordered results and graphs: take away the removed rows (once each), put in
// the added ones, sort by bytes, write between head and tail. Ordered results:
// delete the rows at the indices removed_at of the old sequence, then insert
// the added rows so that they end up at the indices added_at of the new one.
package diff
