package formats

import (
	"bytes"
	"regexp"
	"unicode"
)

// remark returns the first line that is a comment with words, "" if there is none. An empty graph needs no such comment,
// except that of Virtuoso ("# Empty NT"). Other engines send no bytes, or prefixes alone.
func remark(body []byte) string {
	for line := range bytes.Lines(body) {
		line = bytes.TrimSpace(line)
		words := bytes.TrimLeft(line, "# \t")
		if bytes.HasPrefix(line, []byte("#")) && bytes.ContainsFunc(words, unicode.IsLetter) && !bytes.HasPrefix(words, []byte("Empty ")) {
			return string(words)
		}
	}
	return ""
}

// lastRemark returns an alarming comment among those that follow the last statement of a graph, "" if there is none.
func lastRemark(rest []byte) string {
	for line := range bytes.FieldsFuncSeq(rest, func(r rune) bool { return r == '\r' || r == '\n' }) {
		if words := bytes.TrimLeft(line, "# \t"); alarming(words) {
			return string(words)
		}
	}
	return ""
}

// Comments that report that an answer is not whole name an error, or say what happened to the answer. Others count rows,
// or repeat settings such as "timeout=60000".
var (
	alarm = regexp.MustCompile(`(?im)\b(errors?|exceptions?|timed out|time-?out (exceeded|reached|expired)|incomplete|truncated|aborted|` +
		`interrupted|cancell?ed|out of memory)\b|^\W*time-?out\W*$|^\W*partial\b|(?-i:[a-z](Error|Exception)\b)`)
	calm = regexp.MustCompile(`(?i)\b(no|0|without( any| an)?) (errors?|exceptions?)\b`)
)

// alarming reports whether a comment beside rows says that they are not all.
func alarming(comment []byte) bool {
	comment = comment[:min(len(comment), quotedBytes)]
	return alarm.Match(comment) && alarm.Match(calm.ReplaceAll(comment, nil))
}
