// Package sparql analyses the text of SPARQL queries: their form, whether their
// rows have an order, what makes them unsuitable for watching, and which texts are
// the same query.
//
// It is a lexer with brackets and clauses, not a parser of the whole grammar. It
// accepts SPARQL 1.0, 1.1 and 1.2 and what Virtuoso, Blazegraph and other dialects
// add. It refuses only what cannot be one read query; the endpoint refuses the
// rest.
//
// # Normal form
//
// Two texts with the same normal form are the same query at any endpoint. Texts
// with different normal forms may be the same query too. The normal form of a
// normal form is itself. It is a query text, but it is never sent. It consists of
// the tokens of the text, converted as follows, with one space between tokens,
// except before the @ and ^^ of a literal and after ^^:
//
//   - Comments, white space and a byte order mark are dropped.
//   - Keywords and built-in functions are written in upper case, true and
//     false in lower case. The keyword a, and words that SPARQL does not have,
//     stay unchanged.
//   - $x becomes ?x.
//   - Codepoint escapes (\u00E9) are decoded.
//   - Strings are written between double quotes, with the escapes
//     \" \\ \n \r \t \b \f and no others; all four quotings and all spellings
//     of a character thus become one. A string with an escape that SPARQL does
//     not have stays unchanged, quotes included: it belongs to a dialect.
//   - Prefixed names become IRIs in angle brackets, with the last declaration
//     of their prefix, the escapes of the local name (\,) removed and percent
//     encoding kept. PREFIX declarations are then dropped, used or not.
//   - A name and the declaration of its prefix stay if the prefix is declared as a
//     relative IRI or the expanded IRI would contain a segment "." or "..". These
//     are resolved in IRIs but not in names, so the expansion might be another
//     IRI. Names with undeclared prefixes stay too, since the endpoint may know
//     the prefix.
//   - BASE, VERSION and DEFINE stay, in their order, before the query; relative
//     IRIs are not resolved.
//
// Nothing else is touched: not numbers ("1", "01" and "1.0" differ, so do "-1"
// and "- 1"), not language tags, not the labels of blank nodes, not the names
// of variables, not optional words such as WHERE, not the order of anything.
//
// # Refusals beyond the grammar
//
// Some engines decode codepoint escapes before they parse, others after. An
// escape that would make them see two different queries (an escaped quote,
// backslash or line end inside a string, an escaped line end in a comment) is
// refused, so that what is analysed is what is run. So is a comment that ends
// with a carriage return alone, where Virtuoso reads on to the line feed. Texts, and normal forms,
// above MaxText bytes and brackets deeper than MaxDepth are refused too.
package sparql
