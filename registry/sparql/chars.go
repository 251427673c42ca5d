package sparql

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// The character classes of the SPARQL grammar: PN_CHARS_U, VARNAME, PN_CHARS.

func isNameStart(r rune) bool {
	switch {
	case r < 0x80:
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_'
	case r < 0x300:
		return r >= 0xC0 && r != 0xD7 && r != 0xF7
	case r < 0x2070:
		return r >= 0x370 && r != 0x37E && r <= 0x1FFF || r == 0x200C || r == 0x200D
	case r < 0xE000:
		return r <= 0x218F || r >= 0x2C00 && r <= 0x2FEF || r >= 0x3001
	}
	return r >= 0xF900 && r <= 0xFDCF || r >= 0xFDF0 && r <= 0xFFFD || r >= 0x10000 && r <= 0xEFFFF
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

func isVarChar(r rune) bool {
	return isNameStart(r) || isDigit(r) || r == 0xB7 || r >= 0x300 && r <= 0x36F || r == 0x203F || r == 0x2040
}

func isNameChar(r rune) bool { return r == '-' || isVarChar(r) }

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// runeAt decodes the character at i. A codepoint escape (\uXXXX, \UXXXXXXXX) is
// decoded. n is 0 at the end and for an invalid escape.
func runeAt(s string, i int) (r rune, n int) {
	if i >= len(s) {
		return utf8.RuneError, 0
	}
	if s[i] == '\\' && i+1 < len(s) && (s[i+1] == 'u' || s[i+1] == 'U') {
		return codepointEscape(s, i)
	}
	if s[i] < utf8.RuneSelf {
		return rune(s[i]), 1
	}
	return utf8.DecodeRuneInString(s[i:])
}

func codepointEscape(s string, i int) (r rune, n int) {
	n = 6
	if s[i+1] == 'U' {
		n = 10
	}
	if i+n > len(s) {
		return utf8.RuneError, 0
	}
	for _, c := range []byte(s[i+2 : i+n]) {
		if !isHex(c) {
			return utf8.RuneError, 0
		}
	}
	v, err := strconv.ParseUint(s[i+2:i+n], 16, 32)
	if err != nil || v > utf8.MaxRune || !utf8.ValidRune(rune(v)) {
		return utf8.RuneError, 0
	}
	return rune(v), n
}

// decodeCodepoints decodes the codepoint escapes of a name or IRI, which the
// lexer has checked. The escapes of local names (\,) stay.
func decodeCodepoints(s string) string {
	if !strings.Contains(s, `\u`) && !strings.Contains(s, `\U`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := runeAt(s, i)
		if n == 0 {
			r, n = rune(s[i]), 1
		}
		b.WriteRune(r)
		i += n
	}
	return b.String()
}
