package local

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The tokens of SPARQL text that matter here. Comments, strings, variables and
// language tags are tokens, so that a word inside one of them is not mistaken
// for a keyword.
type tokenKind int

const (
	pieceIRI   tokenKind = iota
	pieceName            // prefixed name or labelled blank node
	pieceWord            // keyword or function
	pieceBlank           // [
)

// tokens calls visit with each token of the text until it returns false.
func tokens(text string, visit func(kind tokenKind, s string) bool) {
	for len(text) > 0 {
		length, kind, found := 1, pieceWord, false
		switch c := text[0]; {
		case c == '#':
			length = lengthUntil(text, func(c rune) bool { return c == '\n' })
		case c == '<':
			if end := strings.IndexAny(text[1:], "<>\"{}|^`\\ \t\r\n"); end >= 0 && text[1+end] == '>' {
				length, kind, found = end+2, pieceIRI, true
			}
		case c == '"' || c == '\'':
			length = stringLength(text)
		case c == '?' || c == '$':
			length = 1 + lengthUntil(text[1:], func(c rune) bool { return !wordRune(c) })
		case c == '@':
			length = 1 + lengthUntil(text[1:], func(c rune) bool { return !wordRune(c) && c != '-' })
		case c == '[':
			kind, found = pieceBlank, true
		case c == ':' || c == '_' || c >= utf8.RuneSelf || wordRune(rune(c)):
			length, kind = nameLength(text)
			found = kind == pieceName || !unicode.IsDigit(rune(c))
		}
		if found && !visit(kind, text[:length]) {
			return
		}
		text = text[length:]
	}
}

func wordRune(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) }

func lengthUntil(text string, stop func(rune) bool) int {
	if n := strings.IndexFunc(text, stop); n >= 0 {
		return n
	}
	return len(text)
}

// nameLength measures a word or, when a colon follows, a prefixed name.
func nameLength(text string) (int, tokenKind) {
	prefix := lengthUntil(text, func(c rune) bool { return !wordRune(c) && c != '.' && c != '-' })
	if prefix < len(text) && text[prefix] == ':' {
		local := lengthUntil(text[prefix:], func(c rune) bool { return !wordRune(c) && !strings.ContainsRune(".-:%\\", c) })
		return prefix + local, pieceName
	}
	_, first := utf8.DecodeRuneInString(text)
	return max(first, lengthUntil(text, func(c rune) bool { return !wordRune(c) })), pieceWord
}

// stringLength measures a string of either quote, short or long; a lone quote
// counts as itself, so that what follows it is looked at.
func stringLength(text string) int {
	quote := text[:1]
	if long := strings.Repeat(quote, 3); strings.HasPrefix(text, long) {
		quote = long
	}
	for n := len(quote); n < len(text); {
		next := strings.IndexAny(text[n:], "\\\n"+quote[:1])
		if next < 0 {
			return 1
		}
		n += next
		switch {
		case text[n] == '\\':
			n += 2
		case strings.HasPrefix(text[n:], quote):
			return n + len(quote)
		case len(quote) == 1 && text[n] == '\n':
			return 1
		default:
			n++
		}
	}
	return 1
}

// queryForm returns SELECT, ASK, CONSTRUCT or DESCRIBE, or "" when the text has
// none of these words where a query has one.
func queryForm(text string) (form string) {
	tokens(text, func(kind tokenKind, s string) bool {
		if kind != pieceWord {
			return true
		}
		switch word := strings.ToUpper(s); word {
		case "SELECT", "ASK", "CONSTRUCT", "DESCRIBE":
			form = word
			return false
		}
		return true
	})
	return form
}

// hiddenCall finds calls in what looks like an IRI but may be a comparison
// written without spaces, as in ?a<?b&&NOW()>?c.
var hiddenCall = regexp.MustCompile(`(?i)\b(now|rand|uuid|struuid|bnode)\s*\(\s*\)`)

// mentions reports whether any of the words occurs as a bare word. Text with
// codepoint escapes, which may spell any word, counts as mentioning them.
func mentions(text string, words ...string) (found bool) {
	if strings.Contains(text, `\u`) || strings.Contains(text, `\U`) {
		return true
	}
	tokens(text, func(kind tokenKind, s string) bool {
		switch kind {
		case pieceWord:
			for _, w := range words {
				found = found || strings.EqualFold(s, w)
			}
		case pieceIRI:
			found = found || hiddenCall.MatchString(s)
		}
		return !found
	})
	return found
}

// volatile reports whether the answer to a query may differ on the same data.
func volatile(query string) bool {
	if mentions(query, "NOW", "RAND", "UUID", "STRUUID", "BNODE", "SERVICE") {
		return true
	}
	if queryForm(query) != "CONSTRUCT" {
		return false
	}
	blank := false // a template with blank nodes makes new ones each time
	tokens(query, func(kind tokenKind, s string) bool {
		blank = kind == pieceBlank || kind == pieceName && strings.HasPrefix(s, "_:")
		return !blank
	})
	return blank
}

// repeatable reports whether an update has the same effect when it is run again on the
// same data, up to the labels of blank nodes. An update that depends on the clock, on
// randomness, on another service or, through a subquery, on the order of solutions is
// not repeatable. In doubt the answer is false.
func repeatable(update string) bool {
	return !mentions(update, "NOW", "RAND", "UUID", "STRUUID", "BNODE", "SERVICE", "SELECT", "LOAD")
}
