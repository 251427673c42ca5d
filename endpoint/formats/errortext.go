package formats

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is the maximum length of a quotation in characters.
const MaxText = 300

// quotedBytes is how many bytes of a body are searched for words to quote.
const quotedBytes = 16 << 10

// ErrorText returns the first line of words in what an endpoint sent instead of a
// result. The text is bounded and has no markup or control characters.
func ErrorText(contentType string, body []byte) string {
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	if strings.Contains(strings.ToLower(contentType), "html") || looksLikeHTML(text) {
		text = stripTags(text)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if s := OneLine(line); strings.ContainsFunc(s, unicode.IsLetter) {
			return Bounded(s)
		}
	}
	return ""
}

// Quote quotes a body that should have been a result, if it is readable.
func Quote(body []byte) string {
	if t := strings.TrimSpace(string(body[:min(len(body), quotedBytes)])); looksLikeHTML(t) || strings.HasPrefix(t, "Virtuoso ") {
		if s := ErrorText("", []byte(t)); s != "" {
			return " (it says: " + s + ")"
		}
	}
	return ""
}

func looksLikeHTML(s string) bool {
	s = strings.ToLower(strings.TrimSpace(s[:min(len(s), 512)]))
	return strings.HasPrefix(s, "<!doctype html") || strings.HasPrefix(s, "<html") || strings.Contains(s, "<html")
}

// stripTags returns the text of a page without its markup and scripts.
func stripTags(s string) string {
	var b strings.Builder
	for {
		text, rest, found := strings.Cut(s, "<")
		b.WriteString(text)
		if !found {
			return html.UnescapeString(b.String())
		}
		tag, after, closed := strings.Cut(rest, ">")
		if !closed {
			return html.UnescapeString(b.String())
		}
		s = after
		for _, name := range []string{"script", "style", "head"} {
			if strings.HasPrefix(strings.ToLower(tag), name) && !strings.HasPrefix(strings.ToLower(tag), "header") {
				s = afterClosingTag(s, "</"+name)
			}
		}
		b.WriteByte('\n')
	}
}

// afterClosingTag returns what follows the closing tag that begins with end; ""
// if there is none.
func afterClosingTag(s, end string) string {
	for i := 0; i+len(end) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(end)], end) {
			_, after, _ := strings.Cut(s[i:], ">")
			return after
		}
	}
	return ""
}

// OneLine replaces runs of white space and control characters by one space.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	}), " ")
}

// Bounded shortens a text to the maximum length of a quotation.
func Bounded(s string) string {
	if utf8.RuneCountInString(s) <= MaxText {
		return s
	}
	return string([]rune(s)[:MaxText-1]) + "…"
}
