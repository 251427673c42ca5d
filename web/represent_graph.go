package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/freshet/freshet/diff"
)

// A prefix abbreviates IRIs in Turtle.
type prefix struct{ name, iri string }

// declared matches declarations of prefixes in the text of a query. One in a comment or a
// string is harmless: it abbreviates nothing that it does not declare.
var declared = regexp.MustCompile(`(?i)\bPREFIX\s+([A-Za-z][A-Za-z0-9_-]*|):\s*<([A-Za-z][A-Za-z0-9+.-]*:[^<>"{}|^\x60\\\x00-\x20]*)>`)

// localName is a part of what may follow a prefix in Turtle.
var localName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*$`)

// mostPrefixes bounds the prefixes of a document.
const mostPrefixes = 100

// prefixesOf returns the prefixes that a query declares, each once.
func prefixesOf(text string) (list []prefix) {
	known := map[string]bool{}
	for _, m := range declared.FindAllStringSubmatch(text, mostPrefixes) {
		if !known[m[1]] {
			known[m[1]] = true
			list = append(list, prefix{m[1], m[2]})
		}
	}
	return list
}

// wholeIRI matches an IRI in the normal form of a query.
var wholeIRI = regexp.MustCompile("<[^<>\"{}|^`\\\\\\x00-\\x20]*>")

// ShortIRIs abbreviates the IRIs in a normal form with the prefixes that a query declares.
func ShortIRIs(normal, query string) string {
	prefixes := prefixesOf(query)
	return wholeIRI.ReplaceAllStringFunc(normal, func(iri string) string { return string(shortTurtle(prefixes, []byte(iri))) })
}

// shortTurtle abbreviates the IRI of a term of N-Triples, or that of its datatype.
func shortTurtle(prefixes []prefix, term []byte) []byte {
	at := 0
	if i := bytes.LastIndex(term, []byte(`"^^<`)); i > 0 {
		at = i + 3
	}
	if at == 0 && term[0] != '<' {
		return term
	}
	iri := string(term[at+1 : len(term)-1])
	for _, p := range prefixes {
		if local, ok := strings.CutPrefix(iri, p.iri); ok && localName.MatchString(local) {
			return append(bytes.Clone(term[:at]), p.name+":"+local...)
		}
	}
	return term
}

// writeTurtle groups the canonical triples by subject; their order keeps the triples of
// a subject together. Every term of N-Triples is a term of Turtle.
func writeTurtle(b *bufio.Writer, r *diff.Result, prefixes []prefix) {
	for _, p := range prefixes {
		b.WriteString("@prefix " + p.name + ": <" + p.iri + "> .\n")
	}
	if len(prefixes) > 0 {
		b.WriteByte('\n')
	}
	var subject, predicate []byte
	for i := range r.Len() {
		s, rest, _ := bytes.Cut(r.Row(i), []byte(" "))
		p, rest, _ := bytes.Cut(rest, []byte(" "))
		o := bytes.TrimSuffix(rest, []byte(" ."))
		switch {
		case !bytes.Equal(s, subject):
			if i > 0 {
				b.WriteString(" .\n\n")
			}
			b.Write(shortTurtle(prefixes, s))
			b.WriteByte(' ')
			b.Write(shortTurtle(prefixes, p))
			b.WriteByte(' ')
		case !bytes.Equal(p, predicate):
			b.WriteString(" ;\n    ")
			b.Write(shortTurtle(prefixes, p))
			b.WriteByte(' ')
		default:
			b.WriteString(" ,\n        ")
		}
		b.Write(shortTurtle(prefixes, o))
		subject, predicate = s, p
	}
	if r.Len() > 0 {
		b.WriteString(" .\n")
	}
}

// writeJSONLD writes expanded JSON-LD: an array of nodes without a context.
func writeJSONLD(b *bufio.Writer, r *diff.Result) error {
	var subject, predicate string
	b.WriteByte('[')
	for i := range r.Len() {
		line := diff.Line(r.Row(i))
		t, err := line.Triple()
		if err != nil {
			return err
		}
		s, p := nodeID(t[0]), quoted(t[1].Value)
		if t[1].Value == isA && t[2].Kind != diff.Literal {
			p = `"@type"`
		}
		switch {
		case s != subject:
			if i > 0 {
				b.WriteString("]},")
			}
			b.WriteString("\n{\"@id\":" + quoted(s) + "," + p + ":[")
		case p != predicate:
			b.WriteString("]," + p + ":[")
		default:
			b.WriteByte(',')
		}
		b.WriteString(valueOf(p, t[2]))
		subject, predicate = s, p
	}
	if r.Len() > 0 {
		b.WriteString("]}\n")
	}
	b.WriteByte(']')
	return nil
}

const isA = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"

// valueOf returns a value of a member.
func valueOf(member string, t diff.Term) string {
	switch {
	case member == `"@type"`:
		return quoted(nodeID(t))
	case t.Kind != diff.Literal:
		return `{"@id":` + quoted(nodeID(t)) + "}"
	case t.Lang != "":
		return `{"@value":` + quoted(t.Value) + `,"@language":` + quoted(t.Lang) + "}"
	case t.Datatype != "":
		return `{"@value":` + quoted(t.Value) + `,"@type":` + quoted(t.Datatype) + "}"
	}
	return `{"@value":` + quoted(t.Value) + "}"
}

func nodeID(t diff.Term) string {
	if t.Kind == diff.Blank {
		return "_:" + t.Value
	}
	return t.Value
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string always can be
	return string(b)
}
