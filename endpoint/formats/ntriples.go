package formats

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/freshet/freshet/diff"
)

// readNTriples reads N-Triples line by line. One bad line makes the whole document
// invalid, because a skipped triple would look deleted. IRIs are accepted as they are,
// even with forbidden characters, as long as their end is certain.
func readNTriples(body []byte, g *tripleSink) error {
	if !utf8.Valid(body) {
		return malformed("not UTF-8")
	}
	n, from := 0, 0
	for part := range bytes.Lines(body) {
		n++
		end := from
		for line := range bytes.SplitSeq(bytes.TrimRight(part, "\r\n"), []byte("\r")) {
			end += len(line)
			if err := g.line(diff.Line(line), end); limited(err) {
				return err
			} else if err != nil {
				return malformed("line %d: %s", n, reason(err))
			}
			end++
		}
		from += len(part)
	}
	return nil
}

// line reads a line that ends at an offset.
func (g *tripleSink) line(l diff.Line, end int) error {
	if l.Empty() {
		return nil
	}
	t, err := l.Triple()
	g.end = end - len(l)
	if err != nil {
		return err
	}
	for _, x := range t {
		if x.Kind == diff.IRI && x.Value == "" {
			return malformed("empty IRI")
		}
	}
	return g.add(t[0], t[1], t[2])
}

// reason returns the reason that an error of the diff package gives.
func reason(err error) string {
	var syntax *diff.SyntaxError
	if errors.As(err, &syntax) {
		return syntax.Reason
	}
	return err.Error()
}
