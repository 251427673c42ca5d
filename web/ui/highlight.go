package ui

import (
	"html/template"
	"strings"
)

// Highlight renders a query text with its keywords, variables, IRIs, literals and
// comments in spans. It accepts any text, valid SPARQL or not: unknown parts stay
// plain, and everything is escaped.
func highlight(text string) template.HTML {
	var b strings.Builder
	b.Grow(len(text) * 2)
	for i := 0; i < len(text); {
		class, n := lexeme(text[i:])
		word := template.HTMLEscapeString(text[i : i+n])
		if class == "" {
			b.WriteString(word)
		} else {
			b.WriteString(`<span class="` + class + `">` + word + `</span>`)
		}
		i += n
	}
	return template.HTML(b.String())
}

// lexeme returns the next token of s and the class of its span.
func lexeme(s string) (class string, n int) {
	switch c := s[0]; {
	case c == '#':
		return "c", until(s, "\n", 1)
	case c == '<':
		// An IRI cannot contain "<". Stopping there keeps a text full of "<" linear.
		if n := strings.IndexAny(s[1:], "<> \n\"{}|^`\\") + 1; n > 0 && s[n] == '>' {
			return "i", n + 1
		}
		return "", 1
	case c == '"' || c == '\'':
		return "s", stringLength(s)
	case c == '?' || c == '$':
		if n := nameLength(s[1:]); n > 0 {
			return "v", n + 1
		}
		return "", 1
	case c >= '0' && c <= '9':
		n := 1
		for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == '.' && n+1 < len(s) && s[n+1] >= '0' && s[n+1] <= '9') {
			n++
		}
		return "s", n
	}
	n = nameLength(s)
	switch {
	case n == 0:
		return "", 1
	case n < len(s) && s[n] == ':': // a prefixed name
		return "", n + 1 + nameLength(s[n+1:])
	case keywords[strings.ToUpper(s[:n])] || s[:n] == "a":
		return "k", n
	case s[:n] == "true" || s[:n] == "false":
		return "s", n
	}
	return "", n
}

// until returns the length of the text before the first end.
func until(s, end string, from int) int {
	if i := strings.Index(s[from:], end); i >= 0 {
		return from + i
	}
	return len(s)
}

// stringLength returns the length of a string literal in any of the four quotes. An
// unterminated literal extends to the end of its line.
func stringLength(s string) int {
	q := s[:1]
	if long := strings.Repeat(q, 3); strings.HasPrefix(s, long) {
		q = long
	}
	for i := len(q); i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case strings.HasPrefix(s[i:], q):
			return i + len(q)
		case s[i] == '\n' && len(q) == 1:
			return i
		}
	}
	return len(s)
}

func nameLength(s string) int {
	n := 0
	for n < len(s) && (s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || s[n] >= '0' && s[n] <= '9' || s[n] == '_' || s[n] == '-' || s[n] >= 0x80) {
		n++
	}
	return n
}

var keywords = words(`BASE PREFIX SELECT CONSTRUCT DESCRIBE ASK DISTINCT REDUCED AS FROM NAMED WHERE GROUP BY HAVING ORDER ASC DESC LIMIT OFFSET
		VALUES UNDEF OPTIONAL GRAPH UNION MINUS SERVICE SILENT BIND FILTER EXISTS NOT IN COUNT SUM MIN MAX AVG SAMPLE GROUP_CONCAT SEPARATOR
		STR LANG LANGMATCHES DATATYPE BOUND IRI URI BNODE RAND ABS CEIL FLOOR ROUND CONCAT STRLEN UCASE LCASE ENCODE_FOR_URI CONTAINS STRSTARTS STRENDS
		STRBEFORE STRAFTER YEAR MONTH DAY HOURS MINUTES SECONDS TIMEZONE TZ NOW UUID STRUUID MD5 SHA1 SHA256 SHA384 SHA512 COALESCE IF STRLANG STRDT
		SAMETERM ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC REGEX SUBSTR REPLACE`)

func words(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}
