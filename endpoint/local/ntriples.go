package local

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// BadLine is a line of a file that is not a triple.
type BadLine struct {
	File string
	Line int    // from 1; 0 when it was the engine that refused the triple
	Text string // shortened
	Err  error
}

// errNotTriple is what is wrong with a line.
var errNotTriple = errors.New("not an N-Triples triple")

const (
	iriPattern   = "<(?:[^\\x00-\\x20<>\"{}|^`\\\\]|\\\\u[0-9A-Fa-f]{4}|\\\\U[0-9A-Fa-f]{8})*>"
	blankPattern = `_:[\pL\pN_](?:[\pL\pN_.\-]*[\pL\pN_\-])?`
	literal      = `"(?:[^"\\\r\n]|\\[tbnrf"'\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*"`
	langPattern  = `@[A-Za-z]+(?:-[A-Za-z0-9]+)*`
)

// triplePattern is the grammar of N-Triples 1.1 for one triple. It is strict
// because triples become part of SPARQL updates: nothing but a triple may pass.
var triplePattern = regexp.MustCompile(
	`^[ \t]*(` + iriPattern + `|` + blankPattern + `)[ \t]*(` + iriPattern + `)[ \t]*(` +
		iriPattern + `|` + blankPattern + `|` + literal + `(?:` + langPattern + `|\^\^` + iriPattern + `)?)[ \t]*\.[ \t]*(?:#.*)?$`)

// triple is one statement in terms that N-Triples and SPARQL share.
type triple struct{ subject, predicate, object string }

func (t triple) String() string { return t.subject + " " + t.predicate + " " + t.object + " ." }

func (t triple) hasBlank() bool {
	return strings.HasPrefix(t.subject, "_:") || strings.HasPrefix(t.object, "_:")
}

// parseTriple reads one line. IRIs and literals are not changed, except that \u
// escapes become the characters they stand for: SPARQL would replace them
// before it looks for quotes.
func parseTriple(line string) (triple, error) {
	if !utf8.ValidString(line) {
		return triple{}, fmt.Errorf("%w: not UTF-8", errNotTriple)
	}
	m := triplePattern.FindStringSubmatch(line)
	if m == nil {
		return triple{}, errNotTriple
	}
	t := triple{m[1], m[2], m[3]}
	for _, term := range []*string{&t.subject, &t.predicate, &t.object} {
		if !strings.Contains(*term, `\u`) && !strings.Contains(*term, `\U`) {
			continue
		}
		var err error
		if *term, err = unescape(*term); err != nil {
			return triple{}, err
		}
	}
	return t, nil
}

var unicodeEscape = regexp.MustCompile(`\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)`)

// keptEscapes must stay escaped inside a quoted string.
var keptEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`)

func unescape(term string) (string, error) {
	var failed error
	out := unicodeEscape.ReplaceAllStringFunc(term, func(escape string) string {
		if escape[1] != 'u' && escape[1] != 'U' {
			return escape
		}
		code, err := strconv.ParseUint(escape[2:], 16, 32)
		if err != nil || !utf8.ValidRune(rune(code)) {
			failed = fmt.Errorf("%w: %s is no character", errNotTriple, escape)
			return ""
		}
		char := string(rune(code))
		if term[0] == '"' {
			return keptEscapes.Replace(char)
		}
		if strings.ContainsAny(char, "<>\"{}|^`\\") || code <= 0x20 {
			failed = fmt.Errorf("%w: %s in an IRI", errNotTriple, escape)
		}
		return char
	})
	return out, failed
}

// readTriples reads an N-Triples file, plain or .gz, line by line. Comments and
// empty lines are skipped, lines that are no triples are listed. A gzip stream
// that is cut off is used as far as its lines are whole, and truncated says so.
func readTriples(path string) (triples []triple, bad []BadLine, truncated bool, err error) {
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
				bad = append(bad, BadLine{path, number, shorten(line), err})
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
