package local

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/freshet/freshet/diff"
)

// badLine is a line of a file that is not a triple.
type badLine struct {
	file string
	line int    // from 1; 0 when it was the engine that refused the triple
	text string // shortened
	err  error
}

// errNotTriple is what is wrong with a line.
var errNotTriple = errors.New("not an N-Triples triple")

// triple is one statement in terms that N-Triples and SPARQL share.
type triple struct{ subject, predicate, object string }

func (t triple) String() string { return t.subject + " " + t.predicate + " " + t.object + " ." }

func (t triple) hasBlank() bool {
	return strings.HasPrefix(t.subject, "_:") || strings.HasPrefix(t.object, "_:")
}

var labelPattern = regexp.MustCompile(`^[\pL\pN_](?:[\pL\pN_.\-]*[\pL\pN_\-])?$`)

// parseTriple reads one line, strictly: triples become part of SPARQL updates,
// so nothing but a triple may pass. Its terms have no escape that SPARQL would
// replace by a character with a meaning.
func parseTriple(line string) (triple, error) {
	if !utf8.ValidString(line) {
		return triple{}, fmt.Errorf("%w: not UTF-8", errNotTriple)
	}
	l := diff.Line(line)
	terms, err := l.Triple()
	if err != nil {
		return triple{}, fmt.Errorf("%w: %w", errNotTriple, err)
	}
	for _, t := range terms {
		iri := t.Datatype
		switch t.Kind {
		case diff.IRI:
			iri = t.Value
		case diff.Blank:
			if !labelPattern.MatchString(t.Value) {
				return triple{}, fmt.Errorf("%w: bad blank node label", errNotTriple)
			}
		}
		if strings.ContainsFunc(iri, func(r rune) bool { return r <= 0x20 || strings.ContainsRune("<>\"{}|^`\\", r) }) {
			return triple{}, fmt.Errorf("%w: bad character in an IRI", errNotTriple)
		}
	}
	return triple{terms[0].String(), terms[1].String(), terms[2].String()}, nil
}

// readTriples reads an N-Triples file, plain or .gz, line by line. Comments and
// empty lines are skipped, lines that are no triples are listed. A gzip stream
// that is cut off is used as far as its lines are whole, and truncated says so.
func readTriples(path string) (triples []triple, bad []badLine, truncated bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, false, err
	}
	defer file.Close()
	source := io.Reader(file)
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(file)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, nil, true, nil
		}
		if err != nil {
			return nil, nil, false, fmt.Errorf("%s: %w", path, err)
		}
		source = z
	}
	lines := bufio.NewReaderSize(source, 64<<10)
	for number := 1; ; number++ {
		line, failed := lines.ReadString('\n')
		if errors.Is(failed, io.ErrUnexpectedEOF) {
			return triples, bad, true, nil // what is left of the line is not whole
		}
		if failed != nil && failed != io.EOF {
			return nil, nil, false, fmt.Errorf("%s: %w", path, failed)
		}
		line = strings.TrimRight(line, "\r\n")
		if text := strings.TrimLeft(line, " \t"); text != "" && text[0] != '#' {
			if t, err := parseTriple(line); err != nil {
				bad = append(bad, badLine{path, number, shorten(line), err})
			} else {
				triples = append(triples, t)
			}
		}
		if failed != nil {
			return triples, bad, false, nil
		}
	}
}

func shorten(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
