package registry

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry/sparql"
)

// A Hint reports what may have changed at an endpoint. It only makes queries
// run sooner: a wrong hint affects the order, never the correctness.
type Hint struct {
	All     bool             // something changed, and nothing else is known
	New     bool             // queries have been registered; nothing else is said
	Touched []string         // IRIs of changed triples, each once
	Changed []sparql.Pattern // added and removed triples, each once; a blank node is "_"
	Skipped int              // number of lines that are not triples

	touched map[string]struct{}
	changed map[sparql.Pattern]struct{}
}

// MaxTouched is the maximum number of IRIs in a hint, and of triples. With more, the
// hint becomes All.
const MaxTouched = 50_000

// maxTriple bounds a line of a changeset, in bytes.
const maxTriple = 1 << 20

// Touch adds an IRI to the hint.
func (h *Hint) Touch(iri string) {
	if iri != "" {
		addOnce(h, &h.touched, &h.Touched, iri)
	}
}

// addOnce adds to one of the lists of a hint.
func addOnce[T comparable](h *Hint, seen *map[T]struct{}, list *[]T, x T) {
	if _, there := (*seen)[x]; there || h.All {
		return
	}
	if len(*seen) >= MaxTouched {
		*h = Hint{All: true, Skipped: h.Skipped}
		return
	}
	if *seen == nil {
		*seen = map[T]struct{}{}
	}
	(*seen)[x] = struct{}{}
	*list = append(*list, x)
}

// Triples adds N-Triples or N-Quads that were added or removed. It counts and skips
// lines that are neither.
func (h *Hint) Triples(r io.Reader) error { return h.lines(r, h.triple) }

// Patch adds the triples in the A and D lines of an RDF patch. PA lines declare
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

// terms adds one triple or quad, with or without the final full stop.
func (h *Hint) terms(line string, prefixes map[string]string) bool {
	var fields [4]string
	n := 0
	for rest := diff.Line(line); !rest.Empty() && rest[0] != '.'; n++ {
		t, err := NextTerm(&rest, prefixes)
		if err != nil || n == 4 || n == 1 && t.Kind != diff.IRI {
			return false
		}
		switch t.Kind {
		case diff.IRI:
			if t.Value == "" || strings.ContainsAny(t.Value, " \t\"") { // the token holds two terms, or a term and a string
				return false
			}
			fields[n] = "<" + t.Value + ">"
		case diff.Literal:
			fields[n] = `"` + t.Value
		default:
			fields[n] = "_"
		}
	}
	if n < 3 {
		return false
	}
	addOnce(h, &h.changed, &h.Changed, sparql.Pattern{Subject: fields[0], Predicate: fields[1], Object: fields[2], Graph: fields[3]})
	return true
}

// Line writes a triple of Changed as N-Triples or N-Quads, for Triples.
func Line(x sparql.Pattern) string {
	var b strings.Builder
	for _, f := range [4]string{x.Subject, x.Predicate, x.Object, x.Graph} {
		t := diff.Term{Kind: diff.Blank, Value: "b"}
		switch {
		case f == "":
			continue
		case f[0] == '<':
			t = diff.Term{Kind: diff.IRI, Value: f[1 : len(f)-1]}
		case f[0] == '"':
			t = diff.Term{Kind: diff.Literal, Value: f[1:]}
		}
		b.WriteString(t.String() + " ")
	}
	return b.String() + "."
}

// NextTerm reads one term of an RDF patch, which may be a prefixed name.
func NextTerm(l *diff.Line, prefixes map[string]string) (diff.Term, error) {
	s := string(*l)
	word := s
	if end := strings.IndexAny(s, " \t<\""); end >= 0 {
		word = s[:end]
	}
	prefix, local, is := strings.Cut(word, ":")
	base, known := prefixes[prefix]
	if !known || !is {
		return l.Term()
	}
	*l = diff.Line(s[len(word):])
	base, ok := diff.UnescapeNT(base, false)
	if !ok {
		return diff.Term{}, fmt.Errorf("the prefix %.40s: has a bad escape", prefix)
	}
	return diff.Term{Kind: diff.IRI, Value: base + strings.ReplaceAll(local, `\`, "")}, nil
}
