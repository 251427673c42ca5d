package streamtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/freshet/freshet/bench/stream"
)

// A form is how queries of one kind are written, and what finds their rows from their terms.
type form struct {
	text *regexp.Regexp
	rows func(d *Data, t []string) [][]string
}

// written makes a form; %s is a term.
func written(text string, rows func(d *Data, t []string) [][]string) form {
	const term = `(<[^>]*>|"(?:[^"\\]|\\.)*"\S*)`
	return form{regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(text), "%s", term) + "$"), rows}
}

var forms = []form{
	written("SELECT ?v { %s %s ?v }", func(d *Data, t []string) [][]string { return each(d.Objects(t[0], t[1])) }),
	written("SELECT ?l { %s %s ?l FILTER (LANG(?l) = 'en') }", func(d *Data, t []string) [][]string { return each(d.inEnglish(t[0], t[1])) }),
	written("SELECT ?s { ?s %s %s }", func(d *Data, t []string) [][]string { return each(d.Subjects(t[0], t[1])) }),
	written("SELECT ?q { ?q %s %s }", func(d *Data, t []string) [][]string { return each(d.Subjects(t[0], t[1])) }),
	written("SELECT ?a { ?a %s %s ; %s %s }", func(d *Data, t []string) [][]string {
		elsewhere := func(a string) bool { return !d.all[stream.Triple{a, t[2], t[3]}] }
		return each(slices.DeleteFunc(slices.Clone(d.Subjects(t[0], t[1])), elsewhere))
	}),
	written("SELECT (COUNT(*) AS ?n) { ?q %s/%s* %s }", func(d *Data, t []string) [][]string {
		n := 0
		for _, c := range d.below(t[1], t[2]) {
			n += len(d.Subjects(t[0], c))
		}
		return [][]string{{fmt.Sprintf(`"%d"^^<http://www.w3.org/2001/XMLSchema#integer>`, n)}}
	}),
	written("SELECT ?v ?r { %s %s ?st . ?st %s ?v OPTIONAL { ?st %s ?r } }", func(d *Data, t []string) (rows [][]string) {
		for _, st := range d.Objects(t[0], t[1]) {
			for _, v := range d.Objects(st, t[2]) {
				rows = append(rows, beside(v, d.Objects(st, t[3]))...)
			}
		}
		return rows
	}),
	written("SELECT ?q ?v { VALUES ?q { %s %s %s %s } ?q %s ?l FILTER (LANG(?l) = 'en') OPTIONAL { ?q %s ?v } }", listed),
	written("SELECT ?q { VALUES ?q { %s %s %s %s } ?q %s ?l FILTER (LANG(?l) = 'en') FILTER NOT EXISTS { ?q %s ?v } }",
		func(d *Data, t []string) (rows [][]string) {
			for _, r := range listed(d, t) {
				if r[1] == "" {
					rows = append(rows, r[:1])
				}
			}
			return rows
		}),
}

// listed finds the values of four items with a name.
func listed(d *Data, t []string) (rows [][]string) {
	for _, x := range t[:4] {
		for range d.inEnglish(x, t[4]) {
			rows = append(rows, beside(x, d.Objects(x, t[5]))...)
		}
	}
	return rows
}

var variable = regexp.MustCompile(`\?(\w+)`)

// Reader returns the variables of a query of a World and what finds its rows: terms as in N-Triples, empty if they
// are unbound. It goes by the text alone, and panics if no World writes such.
func Reader(text string) (vars []string, rows func(*Data) [][]string) {
	head, _, _ := strings.Cut(text, "{")
	for _, v := range variable.FindAllStringSubmatch(head, -1) {
		vars = append(vars, v[1])
	}
	for _, f := range forms {
		if t := f.text.FindStringSubmatch(text); t != nil {
			return vars, func(d *Data) [][]string { return f.rows(d, t[1:]) }
		}
	}
	panic("no World asks " + text)
}

// each makes rows of one term.
func each(list []string) (rows [][]string) {
	for _, x := range list {
		rows = append(rows, []string{x})
	}
	return rows
}

// beside makes rows of a term and one of others, unbound if there are none.
func beside(x string, others []string) (rows [][]string) {
	for _, o := range others {
		rows = append(rows, []string{x, o})
	}
	if rows == nil {
		return [][]string{{x, ""}}
	}
	return rows
}

// inEnglish returns the objects that are texts in English.
func (d *Data) inEnglish(subject, predicate string) (out []string) {
	for _, l := range d.Objects(subject, predicate) {
		if strings.HasSuffix(l, `"@en`) {
			out = append(out, l)
		}
	}
	return out
}
