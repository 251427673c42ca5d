package sparql

import (
	"strings"
	"unicode/utf8"
)

// scan returns the end of the run of characters from i that accept takes.
func (l *lexer) scan(i int, accept func(rune) bool) int {
	for {
		r, n := runeAt(l.text, i)
		if n == 0 || !accept(r) {
			return i
		}
		i += n
	}
}

// name reads a prefixed name, or else a word. Prefixes may contain dots and
// hyphens, words may not: only the colon decides.
func (l *lexer) name() {
	if l.text[l.pos] == ':' {
		l.emitName(Name, l.local(l.pos+1))
		return
	}
	if l.pos >= l.noColon {
		end := l.scan(l.pos, func(r rune) bool { return r == '.' || isNameChar(r) })
		if l.byteAt(end) == ':' && l.text[end-1] != '.' {
			l.emitName(Name, l.local(end+1))
			return
		}
		l.noColon = end
	}
	l.emitName(Word, l.scan(l.pos, isVarChar))
}

// local returns the end of the local name that starts at i. A dot belongs to it
// only if more of the name follows.
func (l *lexer) local(i int) int {
	n := l.localChar(i, true)
	for n > 0 {
		i += n
		dots := i
		for l.byteAt(dots) == '.' {
			dots++
		}
		if n = l.localChar(dots, false); n > 0 {
			n += dots - i
		}
	}
	return i
}

// localChar returns the length of the element of a local name at i, 0 if none.
func (l *lexer) localChar(i int, first bool) int {
	switch l.byteAt(i) {
	case ':':
		return 1
	case '%':
		if i+2 < len(l.text) && isHex(l.text[i+1]) && isHex(l.text[i+2]) {
			return 3
		}
		return 0
	case '\\':
		if i+1 < len(l.text) && strings.IndexByte("_~.-!$&'()*+,;=/?#@%", l.text[i+1]) >= 0 {
			return 2
		}
	}
	r, n := runeAt(l.text, i)
	if n > 0 && (isNameStart(r) || isDigit(r) || !first && isNameChar(r)) {
		return n
	}
	return 0
}

// variable reads ?x and $x; a '?' before anything else is the path operator.
func (l *lexer) variable() error {
	if r, n := runeAt(l.text, l.pos+1); n > 0 && (isNameStart(r) || isDigit(r)) {
		l.emitName(Variable, l.scan(l.pos+1, isVarChar))
		return nil
	}
	return l.punctuation()
}

func (l *lexer) blankNode() error {
	r, n := runeAt(l.text, l.pos+2)
	if n == 0 || !isNameStart(r) && !isDigit(r) {
		return l.errorAt(l.pos, "a blank node needs a label after _:")
	}
	end := l.pos + 2
	for {
		end = l.scan(end, isNameChar)
		dots := end
		for l.byteAt(dots) == '.' {
			dots++
		}
		if r, n := runeAt(l.text, dots); dots == end || n == 0 || !isNameChar(r) {
			break
		}
		end = dots
	}
	l.emitName(BlankNode, end)
	return nil
}

func (l *lexer) langTag() error {
	end := l.scan(l.pos+1, func(r rune) bool { return r == '-' || r < utf8.RuneSelf && isAlnum(byte(r)) })
	if end == l.pos+1 {
		return l.errorAt(l.pos, "a language tag needs letters after @")
	}
	l.emitName(LangTag, end)
	return nil
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// startsNumber reports whether a number starts here. By the grammar, a sign
// directly before a number belongs to it.
func (l *lexer) startsNumber() bool {
	i := l.pos
	if c := l.text[i]; c == '+' || c == '-' {
		i++
	}
	if l.byteAt(i) == '.' {
		i++
	}
	return isDigit(rune(l.byteAt(i)))
}

func (l *lexer) number() {
	end := l.pos
	if c := l.text[end]; c == '+' || c == '-' {
		end++
	}
	end = l.scan(end, isDigit)
	if l.byteAt(end) == '.' {
		fraction := l.scan(end+1, isDigit)
		if fraction > end+1 || l.exponent(fraction) > fraction {
			end = fraction
		}
	}
	l.emitName(Number, l.exponent(end))
}

// exponent returns the end of an exponent at i, or i. Its characters may be escaped: otherwise a name would begin there.
func (l *lexer) exponent(i int) int {
	r, n := runeAt(l.text, i)
	if r != 'e' && r != 'E' {
		return i
	}
	j := i + n
	if r, n := runeAt(l.text, j); r == '+' || r == '-' {
		j += n
	}
	if end := l.scan(j, isDigit); end > j {
		return end
	}
	return i
}
