package sparql

import "strings"

// angle distinguishes IRIs from the comparisons < and <= and from the brackets
// << and <<(.
func (l *lexer) angle() error {
	if end := l.iriEnd(l.pos); end > 0 && !l.comparison(end) {
		l.emitName(IRI, end)
		return nil
	}
	rest := l.text[l.pos:]
	if near := rest[:min(len(rest), 300)]; hasAuthority(near[1:]) {
		end := strings.IndexAny(near, ">\r\n")
		if end > 0 && near[end] == '>' && strings.ContainsAny(near[:end], " \t") {
			return l.errorAt(l.pos, "the IRI %s contains a blank: write %%20 for it, or > at the end of the IRI", shorten(near[:end+1]))
		}
	}
	switch {
	case strings.HasPrefix(rest, "<="):
		l.emit(Punct, l.pos+2)
		return nil
	case l.comparesIRI():
		l.emit(Punct, l.pos+1)
		return nil
	case strings.HasPrefix(rest, "<<("):
		return l.bracket("<<(")
	case strings.HasPrefix(rest, "<<"):
		return l.bracket("<<")
	}
	l.emit(Punct, l.pos+1)
	return nil
}

// iriEnd returns the end of the IRI reference at i, 0 if there is none. A
// reference with "://" may contain characters that the grammar forbids and
// Virtuoso accepts.
func (l *lexer) iriEnd(i int) int {
	forbidden := "<\"{}|^`"
	if hasAuthority(l.text[i+1:]) {
		forbidden = "<"
	}
	for j := i + 1; j < len(l.text); {
		c := l.text[j]
		switch {
		case c == '>':
			return j + 1
		case c <= ' ' || strings.IndexByte(forbidden, c) >= 0:
			return 0
		case c == '\\':
			r, n := runeAt(l.text, j)
			if n <= 1 || r <= ' ' || strings.ContainsRune("<>\"{}|^`\\", r) {
				return 0
			}
			j += n
		default:
			j++
		}
	}
	return 0
}

func hasAuthority(s string) bool {
	n := schemeLen(s)
	return n > 0 && strings.HasPrefix(s[n:], "//")
}

// schemeLen returns the length of an IRI scheme with its colon, 0 if s has none.
func schemeLen(s string) int {
	for i := range len(s) {
		c := s[i]
		switch {
		case c == ':' && i > 0:
			return i + 1
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
		case i > 0 && (isAlnum(c) || c == '+' || c == '-' || c == '.'):
		default:
			return 0
		}
	}
	return 0
}

// comparison reports whether what looks like an IRI is a comparison such as
// ?x<?y&&?z>?w, written without spaces inside an expression. With a quote or a number
// sign it counts as an IRI, as in the grammar: otherwise a string or comment that
// begins in it would hide text that engines see.
func (l *lexer) comparison(end int) bool {
	iri := l.text[l.pos+1 : end-1]
	return !strings.ContainsAny(iri, "'#") && l.inParentheses() && l.afterOperand() && strings.Contains(iri, "&&") && schemeLen(iri) == 0
}

// comparesIRI reports whether "<<" is ?x<<http://…> rather than a quoted
// triple.
func (l *lexer) comparesIRI() bool {
	if l.byteAt(l.pos+1) != '<' || !l.inParentheses() || !l.afterOperand() {
		return false
	}
	return l.iriEnd(l.pos+1) > 0
}

func (l *lexer) inParentheses() bool {
	return len(l.open) > 0 && l.open[len(l.open)-1].Text == "("
}

func (l *lexer) afterOperand() bool {
	return len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].endsOperand()
}

// quoted reads a string in any of its four quotings.
func (l *lexer) quoted() error {
	delimiter := l.text[l.pos : l.pos+1]
	if long := strings.Repeat(delimiter, 3); strings.HasPrefix(l.text[l.pos:], long) {
		delimiter = long
	}
	for i := l.pos + len(delimiter); i < len(l.text); {
		switch c := l.text[i]; {
		case c == '\\':
			n, err := l.stringEscape(i, delimiter)
			if err != nil {
				return err
			}
			i += n
		case strings.HasPrefix(l.text[i:], delimiter):
			l.emit(String, i+len(delimiter))
			return nil
		case len(delimiter) == 1 && (c == '\n' || c == '\r'):
			return l.errorAt(l.pos, "the string is not closed before the end of the line; use %[1]s%[1]s%[1]s for several lines", delimiter)
		default:
			i++
		}
	}
	return l.errorAt(l.pos, "the string is never closed")
}

// stringEscape returns the length of the escape at i. Codepoint escapes of the
// string's delimiter are refused: engines that decode them before they parse
// would end the string there.
func (l *lexer) stringEscape(i int, delimiter string) (int, error) {
	r, n := runeAt(l.text, i)
	if n <= 1 {
		next := l.byteAt(i + 1)
		if len(delimiter) == 1 && (next == '\n' || next == '\r') {
			return 1, nil // the caller then reports the line end
		}
		return 2, nil
	}
	ends := r == rune(delimiter[0]) || r == '\\' || len(delimiter) == 1 && (r == '\n' || r == '\r')
	if ends {
		return 0, l.errorAt(i, "%s must not be written as a codepoint escape in a string; use %s", l.text[i:i+n], quoteRune(r))
	}
	return n, nil
}

func quoteRune(r rune) string {
	switch r {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	}
	return `\` + string(r)
}

// closers maps each opening bracket to its closing one.
var closers = map[string]string{"(": ")", "{": "}", "[": "]", "<<": ">>", "<<(": ")>>", "{|": "|}"}

func (l *lexer) punctuation() error {
	rest := l.text[l.pos:]
	if l.closesLong(rest) {
		return l.bracket(closers[l.open[len(l.open)-1].Text])
	}
	for _, p := range []string{"{|", "^^", "&&", "||", "!=", ">="} {
		if strings.HasPrefix(rest, p) {
			return l.bracket(p)
		}
	}
	if r, n := runeAt(l.text, l.pos+1); rest[0] == '%' && n > 0 && isNameStart(r) {
		l.emitName(SolutionSet, l.scan(l.pos+1, isVarChar))
		return nil
	}
	if strings.IndexByte("(){}[].,;=<>!+-*/|^?&~%", rest[0]) < 0 {
		return l.unexpected()
	}
	return l.bracket(rest[:1])
}

// closesLong reports whether a closing bracket of several characters that fits
// the open one is next. Elsewhere '>>' and '|}' are two tokens.
func (l *lexer) closesLong(rest string) bool {
	if len(l.open) == 0 {
		return false
	}
	closer := closers[l.open[len(l.open)-1].Text]
	return len(closer) > 1 && strings.HasPrefix(rest, closer)
}

func (l *lexer) unexpected() error {
	r, n := runeAt(l.text, l.pos)
	switch {
	case n == 0:
		return l.errorAt(l.pos, "this backslash does not begin an escape that is allowed here")
	case n > 1 && l.text[l.pos] == '\\':
		return l.errorAt(l.pos, "%s means %q, which must not be escaped here", l.text[l.pos:l.pos+n], r)
	}
	return l.errorAt(l.pos, "unexpected character %q", r)
}

// bracket emits punctuation and records open brackets.
func (l *lexer) bracket(p string) error {
	if _, opens := closers[p]; opens {
		if len(l.open) == MaxDepth {
			return l.errorAt(l.pos, "brackets are nested more than %d deep", MaxDepth)
		}
		l.open = append(l.open, Token{Kind: Punct, Text: p, Pos: l.pos})
	} else if isCloser(p) {
		if len(l.open) == 0 {
			return l.errorAt(l.pos, "%q closes nothing", p)
		}
		last := l.open[len(l.open)-1]
		if closers[last.Text] != p {
			line, column := lineColumn(l.text, last.Pos)
			return l.errorAt(l.pos, "%q does not close the %q of line %d, column %d", p, last.Text, line, column)
		}
		l.open = l.open[:len(l.open)-1]
	}
	l.emit(Punct, l.pos+len(p))
	return nil
}

func isCloser(p string) bool {
	switch p {
	case ")", "}", "]", ">>", ")>>", "|}":
		return true
	}
	return false
}
