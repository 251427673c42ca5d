package sparql

import (
	"strings"
	"unicode/utf8"
)

// Limits of what is analysed. A larger text is refused, not truncated.
const (
	MaxText  = 1 << 20 // bytes of query text, and of its normal form
	MaxDepth = 500     // brackets open at once
)

// lexer splits a text into tokens. It keeps the open brackets, because some
// characters depend on them: '>>' may end a quoted triple, and '<' may compare.
// Every loop advances, remembers how far it has looked or looks at few bytes, so
// that the time is linear in the text.
type lexer struct {
	text    string
	pos     int
	tokens  []Token
	open    []Token
	noColon int    // a name has no colon before this index, so it is a word
	pragmas []byte // of the next token
}

func (l *lexer) run() error {
	for i, r := range l.text {
		if r == utf8.RuneError && !strings.HasPrefix(l.text[i:], string(r)) {
			return l.errorAt(i, "the text is not valid UTF-8")
		}
	}
	if strings.HasPrefix(l.text, "\ufeff") {
		l.pos = len("\ufeff")
	}
	for {
		if err := l.skipSpace(); err != nil {
			return err
		}
		if l.pos >= len(l.text) {
			break
		}
		if err := l.next(); err != nil {
			return err
		}
	}
	if n := len(l.tokens); n > 0 {
		l.tokens[n-1].Pragmas += string(l.pragmas)
	}
	if len(l.open) > 0 {
		b := l.open[len(l.open)-1]
		return l.errorAt(b.Pos, "%q is never closed", b.Text)
	}
	return nil
}

func (l *lexer) errorAt(pos int, format string, args ...any) error {
	return syntaxError(l.text, pos, format, args...)
}

// emit adds the token from the current position to end and moves there.
func (l *lexer) emit(k Kind, end int) {
	l.tokens = append(l.tokens, Token{Kind: k, Text: l.text[l.pos:end], Pragmas: string(l.pragmas), Pos: l.pos, End: end})
	l.pos, l.pragmas = end, l.pragmas[:0]
}

// emitName is emit for a token that may contain codepoint escapes.
func (l *lexer) emitName(k Kind, end int) {
	l.emit(k, end)
	t := &l.tokens[len(l.tokens)-1]
	t.Text = decodeCodepoints(t.Text)
}

func (l *lexer) byteAt(i int) byte {
	if i < len(l.text) {
		return l.text[i]
	}
	return 0
}

func (l *lexer) skipSpace() error {
	for l.pos < len(l.text) {
		switch l.text[l.pos] {
		case ' ', '\t', '\n', '\r':
			l.pos++
		case '#':
			from := l.pos
			if err := l.comment(); err != nil {
				return err
			}
			if c := strings.TrimRight(l.text[from:l.pos], " \t\r"); isPragma(c) {
				l.pragmas = append(append(l.pragmas, c...), '\n')
			}
		default:
			return nil
		}
	}
	return nil
}

// isPragma reports whether a comment is an instruction to the endpoint, as "#pragma reasoning on" is for Stardog.
func isPragma(comment string) bool {
	words := strings.Fields(comment[1:])
	return len(words) > 0 && strings.EqualFold(words[0], "pragma")
}

// comment refuses an escaped line end. Engines that decode escapes before they
// parse end the comment there, others do not, and so see two different queries.
// The same holds for a carriage return alone, which ends a comment by the
// grammar, but not for Virtuoso.
func (l *lexer) comment() error {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; c {
		case '\n':
			return nil
		case '\r':
			rest := strings.TrimLeft(l.text[l.pos:], " \t\r")
			if rest != "" && rest[0] != '\n' {
				return l.errorAt(l.pos, "a comment must not end with a carriage return alone; use a line feed")
			}
			return nil
		case '\\':
			if r, n := runeAt(l.text, l.pos); n > 1 && (r == '\n' || r == '\r') {
				return l.errorAt(l.pos, "a comment must not hold an escaped line end")
			}
		}
		l.pos++
	}
	return nil
}

func (l *lexer) next() error {
	c := l.text[l.pos]
	switch {
	case c == '<':
		return l.angle()
	case c == '"' || c == '\'':
		return l.quoted()
	case c == '?' || c == '$':
		return l.variable()
	case c == '@':
		return l.langTag()
	case l.startsNumber():
		l.number()
		return nil
	case c == '_' && l.byteAt(l.pos+1) == ':':
		return l.blankNode()
	}
	if r, n := runeAt(l.text, l.pos); n > 0 && (r == ':' && n == 1 || isNameStart(r)) {
		l.name()
		return nil
	}
	return l.punctuation()
}
