package watch

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/freshet/freshet/diff"
)

// A Namer returns the label of an IRI, or "" if it is unknown.
type Namer func(iri string) string

// name returns the label of an IRI, else the last part of the IRI.
func (n Namer) name(iri string) string {
	if label := n(iri); label != "" {
		return shortText(label)
	}
	short := strings.TrimRight(iri, "/#")
	if i := strings.LastIndexAny(short, "/#"); i >= 0 && strings.Contains(short, "://") {
		short = short[i+1:]
	}
	if plain, err := url.PathUnescape(short); err == nil {
		short = plain
	}
	return shortText(short)
}

// term returns a term for people.
func (n Namer) term(t diff.Term) string {
	switch t.Kind {
	case diff.IRI:
		return n.name(t.Value)
	case diff.Blank:
		return shortText("_:" + t.Value)
	case diff.Unbound:
		return "nothing"
	}
	text := cmp.Or(shortText(t.Value), `""`)
	if t.Lang != "" {
		text += " (" + shortText(t.Lang) + ")"
	}
	return text
}

// step writes that one term took the place of another. Of long texts it shows where they begin to differ.
func (n Namer) step(old, now diff.Term) string {
	if old.Kind != diff.Literal || now.Kind != diff.Literal || len(old.Value) <= mostSide && len(now.Value) <= mostSide {
		return Line(n.term(old), mostSide) + " → " + Line(n.term(now), mostSide)
	}
	same := 0
	for same < min(len(old.Value), len(now.Value)) && old.Value[same] == now.Value[same] {
		same++
	}
	same = max(0, same-mostBefore)
	for same > 0 && !utf8.RuneStart(old.Value[same]) {
		same--
	}
	if same > 0 {
		old.Value, now.Value = "…"+old.Value[same:], "…"+now.Value[same:]
	}
	return Line(n.term(old), mostSide) + " → " + Line(n.term(now), mostSide)
}

func shortText(s string) string { return Line(s, mostText) }

// Line returns at most so many characters of a text for people, in one line. What would not be seen, or would
// change how the rest is seen, such as an escape or a change of direction, is left out.
func Line(s string, most int) string {
	var b strings.Builder
	count, blank := 0, false
	for _, c := range s {
		switch {
		case unicode.IsSpace(c), unicode.IsControl(c):
			blank = true
			continue
		case unicode.Is(unicode.Cf, c) && c != '\u200c' && c != '\u200d', unicode.Is(unicode.Co, c):
			continue
		}
		if blank && b.Len() > 0 {
			b.WriteByte(' ')
			count++
		}
		if blank = false; count >= most {
			return strings.TrimRight(b.String(), " ") + "…"
		}
		b.WriteRune(c)
		count++
	}
	return b.String()
}

// mostText is the number of characters shown of a literal or a label, mostSide that of one that took the
// place of another, mostBefore that of bytes that are shown before a difference, mostLine that of a line,
// and mostLines the number of lines of one change.
const (
	mostText   = 200
	mostSide   = 80
	mostBefore = 20
	mostLine   = 240
	mostLines  = 50
)

// Describe says in a few words what a watch covers.
func (w Watch) Describe(n Namer) string {
	entity := n.name(w.IRI)
	switch w.Kind {
	case ByQuery:
		if title := TitleOf(w.Text); title != "" {
			return "“" + title + "”"
		}
		return "the query " + Line(w.Text, mostSide)
	case Instances:
		return "the instances of " + entity
	case Members:
		return "the members of " + entity
	}
	what, who := "all properties of "+entity, "everything that refers to "+entity
	if len(w.Properties) > 0 {
		names := make([]string, len(w.Properties))
		for i, p := range w.Properties {
			names[i] = n.name(p)
		}
		list := strings.Join(names, ", ")
		what, who = list+" of "+entity, "everything that refers to "+entity+" by "+list
	}
	switch w.Direction {
	case Incoming:
		return who
	case Both:
		return what + ", and " + who
	}
	return what
}

// A fact is one row of an entity's result.
type fact struct {
	property diff.Term
	other    diff.Term
	incoming bool
}

// facts returns the rows of one side of a change.
func (w Watch) facts(rows diff.Rows, vars []string) []fact {
	list := make([]fact, len(rows))
	for i, row := range rows {
		for j, t := range diff.RowTerms(diff.Select, vars, row) {
			switch vars[j] {
			case "property":
				list[i].property = t
			case "subject":
				if t.Kind != diff.Unbound {
					list[i].other, list[i].incoming = t, true
				}
			default:
				if t.Kind != diff.Unbound {
					list[i].other = t
				}
			}
		}
	}
	return list
}

// changed writes the rows of a change as facts, such as "birth place: Ulm → Neu-Ulm", and counts those
// beyond mostLines. If one value of a property in one language is removed and one added, they are
// written as a change, any others as added or removed.
func (w Watch) changed(d *diff.Delta, n Namer) (lines []string, more int) {
	removed, added := w.facts(d.Removed, d.OldVars), w.facts(d.Added, d.Vars)
	gone, came := byProperty(removed), byProperty(added)
	written := map[group]bool{}
	write := func(f fact, sign string) {
		g := f.group()
		pair := len(gone[g]) == 1 && len(came[g]) == 1 && w.Kind == Entity && !f.incoming
		if written[g] {
			return
		}
		written[g] = pair
		switch {
		case len(lines) == mostLines:
			more++
		case pair:
			lines = append(lines, n.name(f.property.Value)+": "+n.step(gone[g][0].other, came[g][0].other))
		default:
			lines = append(lines, w.line(f, sign, n))
		}
	}
	for _, f := range removed {
		write(f, "− ")
	}
	for _, f := range added {
		write(f, "+ ")
	}
	return lines, more
}

// line writes one fact that was added or removed.
func (w Watch) line(f fact, sign string, n Namer) string {
	switch {
	case w.Kind != Entity:
		return sign + n.term(f.other)
	case f.incoming:
		return sign + n.term(f.other) + " (" + n.name(f.property.Value) + ")"
	}
	return n.name(f.property.Value) + ": " + sign + n.term(f.other)
}

// First returns the first rows of a result as a change, for IRIs and Lines.
func First(r *diff.Result) *diff.Delta {
	d := &diff.Delta{Form: r.Form(), Vars: r.Vars()}
	for i := range min(r.Len(), mostLines) {
		d.Added = append(d.Added, r.Row(i))
	}
	return d
}

// mostSampled is the number of facts that Now names, mostCounted that of rows whose
// properties it counts.
const mostSampled, mostCounted = 5, 10_000

// Sample returns a few rows of a result as a change, for IRIs and Now: of an entity, one
// for each of the first properties.
func (w Watch) Sample(r *diff.Result) *diff.Delta {
	if r == nil || r.Form() != diff.Select && w.Kind != ByQuery {
		return nil
	}
	d := &diff.Delta{Form: r.Form(), Vars: r.Vars()}
	if r.Form() == diff.Ask {
		return d
	}
	seen := map[group]bool{}
	for i := 0; i < r.Len() && len(d.Added) < mostSampled; i++ {
		if w.Kind == ByQuery {
			d.Added = append(d.Added, r.Row(i))
			continue
		}
		g := w.facts(diff.Rows{r.Row(i)}, d.Vars)[0].group()
		if w.Kind == Entity && seen[g] {
			continue
		}
		seen[g] = true
		d.Added = append(d.Added, r.Row(i))
	}
	return d
}

// Now says how much a watch's result holds, and names the facts of a Sample. It is "" without
// a result.
func (w Watch) Now(r *diff.Result, sample *diff.Delta, n Namer) string {
	if sample == nil {
		return ""
	}
	if r.Form() == diff.Ask {
		return fmt.Sprintf("%v now", r.Boolean())
	}
	text := w.size(r) + " now"
	for i, line := range w.Lines(sample, n) {
		text += map[bool]string{true: ": ", false: "; "}[i == 0] + line
	}
	if r.Len() > len(sample.Added) {
		text += "; …"
	}
	return text
}

// size says how much a result holds: of an entity, how many properties, if they are few.
func (w Watch) size(r *diff.Result) string {
	one, many, n := "statement", "statements", r.Len()
	switch {
	case w.Kind == ByQuery:
		return counted(n, r.Form())
	case w.Kind == Instances:
		one, many = "instance", "instances"
	case w.Kind == Members:
		one, many = "member", "members"
	case w.Direction == Outgoing && n <= mostCounted:
		properties := map[diff.Term]bool{}
		for i := range n {
			properties[w.facts(diff.Rows{r.Row(i)}, r.Vars())[0].property] = true
		}
		one, many, n = "property", "properties", len(properties)
	}
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Lines writes the added rows of a change for people.
func (w Watch) Lines(d *diff.Delta, n Namer) []string {
	lines := []string{}
	if w.Kind == ByQuery {
		vars := d.Vars
		if d.Form.Graph() {
			vars = nil
		}
		for _, terms := range terms(d.Form, d.Vars, d.Added) {
			lines = append(lines, n.row(vars, terms))
		}
		return lines
	}
	for _, f := range w.facts(d.Added, d.Vars) {
		lines = append(lines, w.line(f, "", n))
	}
	return lines
}

// A group is a property in one direction, with values in one language.
type group struct {
	property, language string
	incoming           bool
}

func (f fact) group() group {
	return group{f.property.Value, strings.ToLower(f.other.Lang), f.incoming}
}

func byProperty(list []fact) map[group][]fact {
	out := map[group][]fact{}
	for _, f := range list {
		out[f.group()] = append(out[f.group()], f)
	}
	return out
}

// IRIs lists the IRIs that the description of a watch and the summaries of changes name.
func (w Watch) IRIs(changes ...*diff.Delta) []string {
	list := append([]string{w.IRI}, w.Properties...)
	seen := map[string]bool{}
	if w.Kind == ByQuery {
		list = nil
	}
	for _, iri := range list {
		seen[iri] = true
	}
	add := func(t diff.Term) {
		if t.Kind == diff.IRI && !seen[t.Value] {
			seen[t.Value] = true
			list = append(list, t.Value)
		}
	}
	for _, d := range changes {
		if w.Kind == ByQuery && d != nil && !d.Baseline && d.Form != diff.Ask {
			for _, row := range slices.Concat(terms(d.Form, d.OldVars, d.Removed), terms(d.Form, d.Vars, d.Added)) {
				for _, t := range row {
					add(t)
				}
			}
			continue
		}
		if d == nil || d.Baseline || d.Form != diff.Select {
			continue
		}
		for _, f := range append(w.facts(d.Removed[:min(len(d.Removed), mostLines)], d.OldVars),
			w.facts(d.Added[:min(len(d.Added), mostLines)], d.Vars)...) {
			add(f.property)
			add(f.other)
		}
	}
	return list
}
