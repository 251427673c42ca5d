package local

import (
	"bytes"
	"unicode/utf8"
)

// xmlText replaces the characters that XML 1.0 forbids, in whatever way they are
// written, by U+FFFD. The engine writes them as they are, and a document that
// holds one is refused by every reader. It returns text itself where there is none.
func xmlText(text []byte) []byte {
	if !bytes.ContainsFunc(text, forbidden) {
		return text
	}
	return bytes.Map(func(r rune) rune {
		if forbidden(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

func forbidden(r rune) bool {
	return r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
}
