package sparql

import "strings"

// normalForm returns the kept declarations and the body, with one space between
// tokens.
func normalForm(p *prologue, body []Token) string {
	var b strings.Builder
	size := 0
	for _, t := range body {
		size += len(t.Text) + 1
	}
	b.Grow(size)
	b.WriteString(p.comments)
	for _, d := range p.items {
		if d.kept {
			b.WriteString(d.text)
			b.WriteByte(' ')
		}
	}
	for i, t := range body {
		if i > 0 && !attached(body[i-1], t) {
			b.WriteByte(' ')
		}
		b.WriteString(t.Pragmas)
		b.WriteString(t.canonical())
	}
	return b.String()
}

// attached reports whether t is written without a space: a part of the string
// before it, or a datatype IRI after ^^.
func attached(before, t Token) bool {
	if before.Kind == String {
		return t.Kind == LangTag || t.is("^^")
	}
	return before.is("^^")
}

// canonical returns the token as written in the normal form.
func (t Token) canonical() string {
	switch t.Kind {
	case Variable:
		if t.Text[0] == '$' {
			return "?" + t.Text[1:]
		}
	case String:
		return canonicalString(t.Text)
	case Word:
		return canonicalWord(t.Text)
	}
	return t.Text
}

// canonicalWord converts keywords to upper case. 'a' and unknown words stay.
func canonicalWord(s string) string {
	u := upperASCII(s)
	switch {
	case u == "TRUE":
		return "true"
	case u == "FALSE":
		return "false"
	case keywords[u]:
		return u
	}
	return s
}

// canonicalString writes a string between double quotes with as few escapes as
// possible. A string with an escape that SPARQL does not have stays, because
// only the endpoint knows its meaning.
func canonicalString(quoted string) string {
	content, ok := stringContent(quoted)
	if !ok {
		return quoted
	}
	var b strings.Builder
	b.Grow(len(content) + 2)
	b.WriteByte('"')
	for i := range len(content) {
		c := content[i]
		if e := strings.IndexByte(escaped, c); e >= 0 {
			b.WriteByte('\\')
			c = letters[e]
		}
		b.WriteByte(c)
	}
	b.WriteByte('"')
	return b.String()
}

// The characters that the normal form escapes, and the letters of their escapes.
const (
	escaped = "\"\\\n\r\t\b\f"
	letters = "\"\\nrtbf"
)

// Unquote splits a literal of a Tree into its text and its suffix, the language after @ or the
// datatype after ^^. ok is false if the text has an escape that SPARQL does not define.
func Unquote(literal string) (text, suffix string, ok bool) {
	end := 1
	for end < len(literal) && literal[end] != '"' {
		if literal[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(literal) || literal[0] != '"' || strings.HasPrefix(literal, `"""`) {
		return "", "", false
	}
	text, ok = stringContent(literal[:end+1])
	return text, literal[end+1:], ok
}

// stringContent unescapes a string; ok is false if it has an unknown escape.
func stringContent(quoted string) (content string, ok bool) {
	q := 1
	if len(quoted) >= 6 && quoted[0] == quoted[1] && quoted[1] == quoted[2] {
		q = 3
	}
	s := quoted[q : len(quoted)-q]
	if strings.IndexByte(s, '\\') < 0 {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			i++
			continue
		}
		r, n := unescape(s, i)
		if n == 0 {
			return "", false
		}
		b.WriteRune(r)
		i += n
	}
	return b.String(), true
}

// unescape decodes the escape at i; n is 0 if SPARQL has no such escape.
func unescape(s string, i int) (r rune, n int) {
	if i+1 >= len(s) {
		return 0, 0
	}
	switch c := s[i+1]; {
	case c == 'u', c == 'U':
		return runeAt(s, i)
	case c == '\'':
		return '\'', 2
	case strings.IndexByte(letters, c) >= 0:
		return rune(escaped[strings.IndexByte(letters, c)]), 2
	}
	return 0, 0
}
