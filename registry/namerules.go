package registry

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkName returns a problem if a query must not have this name. Names are
// visible, and part of URL paths without escapes.
func checkName(name string) error {
	bad := func(format string, a ...any) error {
		return WrongField(KindBadSetting, "/name", format, a...)
	}
	switch {
	case name == "":
		return nil
	case len(name) > maxName:
		return bad("a name has at most %d bytes", maxName)
	case strings.HasPrefix(name, "q_"):
		return bad("a name does not begin with q_, as ids do")
	case name == "validate", name == ".", name == "..":
		return bad("%q cannot be a name: /v1/queries/%s is something else", name, name)
	case !utf8.ValidString(name):
		return bad("a name is UTF-8")
	}
	for i, r := range name {
		if !nameRune(r) || i == 0 && unicode.IsMark(r) {
			return bad("a name consists of letters, digits and %s; it cannot hold %q, because it is part of addresses", pathMarks, r)
		}
	}
	return nil
}

// maxName is the maximum length of names and tags in bytes.
const maxName = 128

// pathMarks are the punctuation characters that a path may contain unescaped
// (RFC 3986, pchar).
const pathMarks = "-._~!$&'()*+,;=:@"

func nameRune(r rune) bool {
	if r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
		return strings.ContainsRune(pathMarks, r)
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd) && !invisible(r)
}

// invisible reports whether a letter or mark has no visible form.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// printable reports whether a text is valid UTF-8 without characters that break
// a line or hide text, such as marks of direction.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		const joiner, nonJoiner = 0x200d, 0x200c // of Arabic, Indic scripts and emoji
		return r != joiner && r != nonJoiner && (!unicode.IsGraphic(r) || r == 0x2028 || r == 0x2029)
	})
}

// visible reports whether a text has a visible character.
func visible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !invisible(r) })
}
