package sparql

import "strings"

// Kind is the lexical class of a token, after the terminals of the SPARQL grammar.
type Kind uint8

// The kinds of tokens.
const (
	Word        Kind = iota // keyword, built-in function, a, true, false, or a word of some dialect
	IRI                     // <…>
	Name                    // p:local; after expand, with an undeclared or unexpandable prefix
	Variable                // ?x or $x
	BlankNode               // _:label
	String                  // in any of the four quotings; in a Tree with its language or datatype
	LangTag                 // @en, @ar--rtl
	Number                  // with its sign if there is no space between
	SolutionSet             // %name, Blazegraph's named subqueries
	Punct
)

// Token is one terminal. Text is as written, with codepoint escapes decoded outside of
// strings. Pos and End are byte offsets in the query text.
type Token struct {
	Kind     Kind
	Own      bool // a name whose prefix the query declares, and that cannot be expanded: it is not what the endpoint calls so
	Text     string
	Pragmas  string // comments before it that are instructions to the endpoint, each with a line feed
	Pos, End int
}

// Tokens splits a query or an update into tokens, without comments. If the text cannot be
// split, the error says why, and the list ends there.
func Tokens(text string) ([]Token, error) {
	l := lexer{text: text, tokens: make([]Token, 0, len(text)/6+8)}
	err := l.run()
	return l.tokens, err
}

func (t Token) is(s string) bool { return t.Kind == Punct && t.Text == s }

// keyword returns the token's text in upper case if it is a word, else "".
func (t Token) keyword() string {
	if t.Kind != Word {
		return ""
	}
	return upperASCII(t.Text)
}

// Keyword reports whether SPARQL defines the word, in any case.
func (t Token) Keyword() bool { return t.Text == "a" || keywords[t.keyword()] }

// endsOperand reports whether an expression may end with t, so that a following
// '<' may be the comparison.
func (t Token) endsOperand() bool {
	switch t.Kind {
	case Punct:
		return t.Text == ")" || t.Text == "]"
	case Word:
		return strings.EqualFold(t.Text, "true") || strings.EqualFold(t.Text, "false")
	}
	return true
}

// upperASCII converts a–z only: Unicode case mapping would make "aſk" a
// keyword.
func upperASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
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
