package registry

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/freshet/freshet/diff"
)

// A Hint reports what may have changed at an endpoint. It only makes queries
// run sooner: a wrong hint affects the order, never the correctness.
type Hint struct {
	All     bool     // something changed, and nothing else is known
	Touched []string // IRIs of changed triples, each once
	Skipped int      // number of lines that are not triples

	seen map[string]struct{}
}

// MaxTouched is the maximum number of IRIs in a hint. With more, the hint
// becomes All.
const MaxTouched = 50_000

// maxTriple bounds a line of a changeset, in bytes.
const maxTriple = 1 << 20

const rdfType = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"

// Touch adds an IRI to the hint.
func (h *Hint) Touch(iri string) {
	if iri == "" || h.All {
		return
	}
	if h.seen == nil {
		h.seen = make(map[string]struct{})
	}
	if _, there := h.seen[iri]; there {
		return
	}
	if len(h.seen) >= MaxTouched {
		h.All, h.Touched, h.seen = true, nil, nil
		return
	}
	h.seen[iri] = struct{}{}
	h.Touched = append(h.Touched, iri)
}

// Triples adds the IRIs of N-Triples, added or removed: subjects, predicates and
// objects. It omits rdf:type, because the class says the same, datatypes, and the
// texts of literals. A triple that matches a pattern shares an IRI with it in
// subject, predicate or object, unless the pattern has no IRI there. Such a pattern
// is affected by every triple (see MatchesAnyTriple). Triples counts and skips lines
// that are not triples.
func (h *Hint) Triples(r io.Reader) error { return h.lines(r, h.triple) }

// Patch adds the IRIs of the A and D lines of an RDF patch. PA lines declare
// prefixes.
func (h *Hint) Patch(r io.Reader) error {
	prefixes := map[string]string{}
	return h.lines(r, func(line string) bool {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "A", "D":
			return h.terms(rest, prefixes)
		case "PA":
			f := strings.Fields(strings.TrimSuffix(rest, "."))
			if len(f) != 2 || len(prefixes) > 1000 {
				return false
			}
			prefixes[strings.Trim(f[0], `":`)] = strings.Trim(f[1], `"<>`)
			return true
		}
		return slices.Contains([]string{"H", "TX", "TC", "TA", "PD", "TX.", "TC.", "TA.", "TB"}, word)
	})
}

func (h *Hint) lines(r io.Reader, take func(line string) bool) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxTriple)
	for in.Scan() {
		line := strings.TrimSpace(in.Text())
		if line != "" && line[0] != '#' && !take(line) {
			h.Skipped++
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes", maxTriple)
	}
	return in.Err()
}

func (h *Hint) triple(line string) bool { return h.terms(line, nil) }

// terms touches the IRIs of one triple or quad, with or without the final full stop.
func (h *Hint) terms(line string, prefixes map[string]string) bool {
	var iris []string
	n := 0
	for rest := diff.Line(line); !rest.Empty() && rest[0] != '.'; n++ {
		t, err := nextTerm(&rest, prefixes)
		if err != nil || n == 4 || n == 1 && t.Kind != diff.IRI {
			return false
		}
		if t.Kind != diff.IRI || n == 1 && t.Value == rdfType {
			continue
		}
		if strings.ContainsAny(t.Value, " \t\"") { // the token holds two terms, or a term and a string
			return false
		}
		iris = append(iris, t.Value)
	}
	if n < 3 {
		return false
	}
	for _, iri := range iris {
		h.Touch(iri)
	}
	return true
}

// nextTerm reads one term, which may be a prefixed name.
func nextTerm(l *diff.Line, prefixes map[string]string) (diff.Term, error) {
	s := string(*l)
	word, _, _ := strings.Cut(s, " ")
	prefix, local, _ := strings.Cut(word, ":")
	if base, known := prefixes[prefix]; known && s[0] != '<' && s[0] != '"' {
		*l = diff.Line(s[len(word):])
		return diff.Term{Kind: diff.IRI, Value: base + local}, nil
	}
	return l.Term()
}

// MatchesAnyTriple reports whether a pattern of the query names no IRI, so that
// any triple may match it. It reads the tokens of the normal form. If in doubt,
// it returns true.
func (q *Query) MatchesAnyTriple() bool {
	if len(q.Constants) == 0 {
		return true
	}
	tokens := strings.Fields(q.Normal)
	pattern := false
	for i, t := range tokens {
		switch t {
		case "SELECT", "GROUP", "ORDER", "HAVING", "VALUES":
			pattern = false
		case "{", "}":
			pattern = true
		case "!":
			if i+1 < len(tokens) && (tokens[i+1] == "^" || tokens[i+1][0] == '<' || tokens[i+1] == "a") {
				return true
			}
			if i+2 < len(tokens) && tokens[i+1] == "(" && (tokens[i+2] == "^" || tokens[i+2][0] == '<' || tokens[i+2] == "a") {
				return true
			}
		}
		if pattern && i > 0 && i+1 < len(tokens) && (t == "a" || t[0] == '?') && vague(tokens[i-1]) && vague(tokens[i+1]) {
			return true
		}
	}
	return false
}

// vague reports whether a token beside a predicate is anything but an IRI: a
// variable, a literal, a blank node, or the continuation of a subject.
func vague(t string) bool {
	return strings.ContainsRune(`?"'_[];0123456789+-`, rune(t[0])) || t == "true" || t == "false"
}
