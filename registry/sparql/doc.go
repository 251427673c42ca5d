// Package sparql analyses the text of SPARQL queries: their form, whether their
// rows have an order, what makes them unsuitable for watching, and which texts are
// the same query.
//
// It is a lexer with brackets and clauses, not a parser of the whole grammar. It
// accepts SPARQL 1.0, 1.1 and 1.2 and the extensions of Virtuoso, Blazegraph and
// other dialects. It refuses only what cannot be one read query; the endpoint
// refuses the rest.
//
// # Normal form
//
// Two texts with the same normal form are the same query at any endpoint. Texts
// with different normal forms may be the same query too. The normal form of a
// normal form is itself. It is a query text, but it is never sent. It consists of
// the tokens of the text, converted as follows, with one space between tokens,
// except before the @ and ^^ of a literal and after ^^:
//
//   - Comments, white space and a byte order mark are dropped, but comments that
//     begin with "pragma" stay: Stardog takes options by them.
//   - Keywords and built-in functions are written in upper case, true and
//     false in lower case. The keyword a, and words that SPARQL does not have,
//     stay unchanged.
//   - $x becomes ?x.
//   - Codepoint escapes (\u00E9) are decoded.
//   - Strings are written between double quotes, with the escapes
//     \" \\ \n \r \t \b \f and no others, so that all four quotings and all
//     spellings of a character become one. A string with an escape that SPARQL
//     does not have stays unchanged, quotes included: it belongs to a dialect.
//   - Prefixed names become IRIs in angle brackets. The last declaration of the
//     prefix applies, the escapes of the local name (\,) are removed, and percent
//     encoding is kept. PREFIX declarations are then dropped, used or not,
//     except those by which AllegroGraph (franzOption_…) and Oracle (ORACLE_SEM_…)
//     take options.
//   - A name and the declaration of its prefix stay if the prefix is declared as a
//     relative IRI or the expanded IRI would contain a segment "." or "..". These
//     are resolved in IRIs but not in names, so the expansion might be another
//     IRI. Names with undeclared prefixes stay too, because the endpoint may know
//     the prefix.
//   - BASE, VERSION and DEFINE stay, in their order, before the query. Relative
//     IRIs are not resolved.
//
// Everything else stays unchanged: numbers ("1", "01" and "1.0" differ, as do "-1"
// and "- 1"), language tags, labels of blank nodes, names of variables, optional
// words such as WHERE, and the order of all parts.
//
// # Refusals beyond the grammar
//
// Some engines decode codepoint escapes before they parse, others after. An escape
// that would make them see two different queries is refused, so that the analysed
// query is the one that is executed. Such escapes are an escaped quote, backslash or
// line end in a string, and an escaped line end in a comment. A comment that ends
// with a carriage return alone is refused too, because Virtuoso continues it to the
// line feed. So are texts and normal forms of more than MaxText bytes, and brackets
// deeper than MaxDepth.
package sparql
