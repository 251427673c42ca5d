package diff

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// lowerHex holds the digits of escapes in JSON.
const lowerHex = "0123456789abcdef"

func itoa(n int) string { return strconv.Itoa(n) }

// appendQuoted appends s as ECMAScript's JSON.stringify writes it.
func appendQuoted[S string | []byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

// appendEscaped is appendQuoted without the quotes. s must be valid UTF-8.
func appendEscaped[S string | []byte](dst []byte, s S) []byte {
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', lowerHex[c>>4], lowerHex[c&15])
		}
	}
	return append(dst, s[from:]...)
}

// unescape appends the text of the JSON string whose content between the quotes
// is s. It returns false for a bad escape, a control character or half a
// surrogate pair.
func unescape(dst, s []byte) ([]byte, bool) {
	for len(s) > 0 {
		j := bytes.IndexByte(s, '\\')
		if j < 0 {
			return append(dst, s...), true
		}
		dst = append(dst, s[:j]...)
		s = s[j:]
		if len(s) < 2 {
			return dst, false
		}
		if s[1] == 'u' {
			r, n := unicodeEscape(s)
			if n == 0 {
				return dst, false
			}
			dst = utf8.AppendRune(dst, r)
			s = s[n:]
			continue
		}
		k := bytes.IndexByte([]byte(`"\/bfnrt`), s[1])
		if k < 0 {
			return dst, false
		}
		dst = append(dst, "\"\\/\b\f\n\r\t"[k])
		s = s[2:]
	}
	return dst, true
}

// unicodeEscape reads \uXXXX, or the two of a surrogate pair, at the beginning
// of s; n is 0 if s does not begin with one.
func unicodeEscape(s []byte) (r rune, n int) {
	r = hex4(s)
	if !utf16.IsSurrogate(r) {
		if r < 0 {
			return 0, 0
		}
		return r, 6
	}
	r = utf16.DecodeRune(r, hex4(s[6:]))
	if r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// hex4 reads \uXXXX; -1 if s does not begin with it.
func hex4(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range s[2:6] {
		d := unhex(c)
		if d < 0 {
			return -1
		}
		r = r<<4 | d
	}
	return r
}

func unhex(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}
