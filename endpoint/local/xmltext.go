package local

import (
	"bytes"
	"unicode/utf8"
)

// xmlText replaces characters that XML 1.0 forbids, however they are written,
// by U+FFFD. The engine writes them unchanged, and every XML reader refuses
// such a document. If there is none, it returns text itself.
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
