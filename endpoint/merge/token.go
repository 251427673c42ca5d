package merge

import "strings"

// tokens splits a normal form. Its tokens are separated by single spaces, and
// a literal includes its language tag or datatype. ok is false if a string is
// not in the canonical quotes.
func tokens(normal string) (list []string, ok bool) {
	for i := 0; i < len(normal); {
		n := tokenLen(normal[i:])
		if n < 0 {
			return nil, false
		}
		list = append(list, normal[i:i+n])
		i += n + 1
	}
	return list, true
}

// tokenLen returns the length of the first token of s, -1 if there is none.
func tokenLen(s string) int {
	from := 0
	switch {
	case s[0] == '\'' || strings.HasPrefix(s, `"""`):
		return -1
	case s[0] == '"':
		if from = closingQuote(s); from < 0 {
			return -1
		}
	case s[0] == ' ':
		return -1
	}
	if n := strings.IndexByte(s[from:], ' '); n >= 0 {
		return from + n
	}
	return len(s)
}

// closingQuote returns the index of the quote that ends the string at the
// beginning of s.
func closingQuote(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

func isVariable(t string) bool { return len(t) > 1 && t[0] == '?' }

func isBlank(t string) bool { return strings.HasPrefix(t, "_:") }

// isIRI reports whether t is an IRI in angle brackets, not an operator.
func isIRI(t string) bool { return len(t) > 2 && t[0] == '<' && t[len(t)-1] == '>' && t != "<<>" }

// isAbsolute reports whether the IRI t has a scheme.
func isAbsolute(t string) bool {
	colon := strings.IndexByte(t, ':')
	return colon > 1 && !strings.ContainsAny(t[:colon], "/?#")
}

func isLiteral(t string) bool { return t[0] == '"' }

// isString reports whether t is a string without a language.
func isString(t string) bool {
	if !isLiteral(t) {
		return false
	}
	suffix := t[closingQuote(t)+1:]
	return suffix == "" || suffix == "^^<"+xsd+"string>"
}

// isNumber reports whether t is a numeric literal or a boolean.
func isNumber(t string) bool {
	if t == "true" || t == "false" {
		return true
	}
	c := strings.TrimLeft(t, "+-.")
	return c != "" && c[0] >= '0' && c[0] <= '9'
}

// isWord reports whether t consists of letters and underscores: a keyword, a
// function, or a word of a dialect.
func isWord(t string) bool {
	for _, c := range t {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return t[0] > '9'
}

// isPrefixed reports whether t is a name whose prefix the query does not
// declare.
func isPrefixed(t string) bool {
	return t[0] != '<' && t[0] != '"' && t[0] != '?' && !isBlank(t) && strings.IndexByte(t, ':') >= 0
}
