package sparql

import "strings"

// kind is the lexical class of a token, after the terminals of the SPARQL grammar.
type kind uint8

const (
	word         kind = iota // keyword, built-in function, a, true, false, or a word of some dialect
	iriRef                   // <…>
	prefixedName             // p:local; after expand, with an undeclared or unexpandable prefix
	variable                 // ?x or $x
	blankNode                // _:label
	stringLit                // in any of the four quotings
	langTag                  // @en, @ar--rtl
	number                   // with its sign if there is no space between
	solutionSet              // %name, Blazegraph's named subqueries
	punct
)

// token is one terminal. text is as written, with codepoint escapes decoded
// outside of strings. pos is the byte offset in the query text.
type token struct {
	kind kind
	text string
	pos  int
}

func (t token) is(s string) bool { return t.kind == punct && t.text == s }

// keyword returns the token's text in upper case if it is a word, else "".
func (t token) keyword() string {
	if t.kind != word {
		return ""
	}
	return upperASCII(t.text)
}

// endsOperand reports whether an expression may end with t, so that a following
// '<' may be the comparison.
func (t token) endsOperand() bool {
	switch t.kind {
	case punct:
		return t.text == ")" || t.text == "]"
	case word:
		return strings.EqualFold(t.text, "true") || strings.EqualFold(t.text, "false")
	}
	return true
}

// upperASCII converts a–z only: Unicode case mapping would make "aſk" a
// keyword.
func upperASCII(s string) string {
	for i := range len(s) {
		if c := s[i]; 'a' <= c && c <= 'z' {
			return strings.Map(upperRune, s)
		}
	}
	return s
}

func upperRune(r rune) rune {
	if 'a' <= r && r <= 'z' {
		return r - 'a' + 'A'
	}
	return r
}

// keywords are the case-insensitive words of SPARQL 1.1 and 1.2. Words of
// dialects are not included, because their case may matter.
var keywords = wordSet(`
	BASE PREFIX VERSION DEFINE SELECT ASK CONSTRUCT DESCRIBE DISTINCT REDUCED AS WHERE FROM NAMED GROUP BY HAVING
	ORDER ASC DESC LIMIT OFFSET VALUES BINDINGS UNDEF OPTIONAL GRAPH UNION MINUS SERVICE SILENT FILTER BIND
	EXISTS NOT IN SEPARATOR COUNT SUM MIN MAX AVG SAMPLE GROUP_CONCAT
	STR LANG LANGMATCHES LANGDIR HASLANG HASLANGDIR STRLANG STRLANGDIR STRDT DATATYPE BOUND SAMETERM
	IRI URI BNODE RAND ABS CEIL FLOOR ROUND CONCAT STRLEN SUBSTR UCASE LCASE ENCODE_FOR_URI
	CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER REPLACE REGEX
	YEAR MONTH DAY HOURS MINUTES SECONDS TIMEZONE TZ NOW UUID STRUUID MD5 SHA1 SHA256 SHA384 SHA512
	COALESCE IF ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC ISTRIPLE TRIPLE SUBJECT PREDICATE OBJECT`)

var queryForms = wordSet("SELECT ASK CONSTRUCT DESCRIBE")

// updateWords begin an operation of SPARQL Update. MODIFY is from Virtuoso's
// older dialect.
var updateWords = wordSet("INSERT DELETE LOAD CLEAR CREATE DROP COPY MOVE ADD MODIFY")

var nonDeterministic = wordSet("NOW RAND UUID STRUUID BNODE")

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}
