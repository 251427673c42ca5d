// Package ldes writes the change log of a query as a Linked Data Event Stream (LDES 1.0.0), and as RDF patches.
//
// A member is a version of an object after a change. The objects of a SELECT are its rows, or what has the same values
// in the key columns; those of a graph are its subjects. A version says all that the object has: rows with how
// often they occur, or triples. The members of one change are one transaction. Blank nodes become IRIs as RDF 1.1
// describes (skolemization), and the order of rows is not told.
package ldes

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// PageChanges is how many changes a full page holds.
const PageChanges = 100

// Type is the media type of pages.
const Type = "text/turtle"

const prefixes = `@prefix f: <urn:freshet:ldes:> .
@prefix ldes: <https://w3id.org/ldes#> .
@prefix tree: <https://w3id.org/tree#> .
@prefix as: <https://www.w3.org/ns/activitystreams#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .

`

// A Stream is the change log of a query as members.
type Stream struct {
	Address string   // of the stream's root, without parameters
	Genid   string   // begins the IRIs of blank nodes
	Key     []string // the variables that name an object; none: each row is one
	Form    diff.Form
	Every   time.Duration // between two executions, 0 if unknown
}

// A Page is a part of a stream: PageChanges changes after one, or the state at one.
type Page struct {
	After registry.Position
	State bool // the state at After in place of the changes after it
}

func (s *Stream) params() url.Values {
	v := url.Values{}
	if len(s.Key) > 0 {
		v.Set("key", strings.Join(s.Key, ","))
	}
	return v
}

// URL returns the address of a page.
func (s *Stream) URL(p Page) string {
	v := s.params()
	if p.State {
		v.Set("state", p.After.String())
	} else {
		v.Set("page", p.After.String())
	}
	return s.Address + "?" + v.Encode()
}

// root returns the address of the root.
func (s *Stream) root() string {
	if v := s.params(); len(v) > 0 {
		return s.Address + "?" + v.Encode()
	}
	return s.Address
}

// A Bound is a page with the time of its first change.
type Bound struct {
	Page
	From time.Time
}

// WriteRoot writes the root, which leads to all pages.
func (s *Stream) WriteRoot(w io.Writer, pages []Bound) error {
	b := bufio.NewWriter(w)
	b.WriteString(prefixes)
	s.describe(b, true)
	fmt.Fprintf(b, "<%s> a tree:Node", s.root())
	for i, p := range pages {
		fmt.Fprintf(b, " ;\n  tree:relation [ a tree:GreaterThanOrEqualToRelation ; tree:path f:time ; tree:value %s ; "+
			"tree:node <%s> ]", stamp(p.From), s.URL(p.Page))
		if i+1 < len(pages) && !p.State {
			fmt.Fprintf(b, " ,\n    [ a tree:LessThanOrEqualToRelation ; tree:path f:time ; tree:value %s ; tree:node <%s> ]",
				stamp(pages[i+1].From), s.URL(p.Page))
		}
	}
	b.WriteString(" .\n")
	return b.Flush()
}

// describe writes what the stream is, and how often to look for more, which is a setting of the endpoint and may change.
func (s *Stream) describe(b *bufio.Writer, polled bool) {
	fmt.Fprintf(b, "<%s#stream> a ldes:EventStream ;\n  tree:view <%s> ;\n  ldes:timestampPath f:time ; ldes:sequencePath "+
		"f:change ; ldes:versionOfPath f:versionOf ;\n"+
		"  ldes:versionDeletePath f:event ; ldes:versionDeleteObject as:Delete ;\n  ldes:transactionPath f:transaction ; "+
		"ldes:transactionFinalizedPath f:last", s.root(), s.root())
	if sec := int(s.Every.Seconds()); sec > 0 && polled {
		fmt.Fprintf(b, " ;\n  ldes:pollingInterval %d", sec)
	}
	b.WriteString(" .\n")
}

func stamp(t time.Time) string {
	return `"` + t.UTC().Format("2006-01-02T15:04:05.000Z") + `"^^xsd:dateTime`
}

// A bag counts the canonical rows of an object.
type bag map[string]int

// A state is the objects of a result.
type state map[string]bag

func (s *Stream) add(st state, vars []string, row []byte, n int) (object string) {
	object = s.object(vars, row)
	if st[object] == nil {
		st[object] = bag{}
	}
	if st[object][string(row)] += n; st[object][string(row)] <= 0 {
		delete(st[object], string(row))
	}
	return object
}

// object returns the object to which a row belongs, as a term of Turtle.
func (s *Stream) object(vars []string, row []byte) string {
	if s.Form == diff.Ask {
		return "<" + s.root() + "#answer>"
	}
	terms := diff.RowTerms(s.Form, vars, row)
	if s.Form.Graph() {
		return s.term(terms[0])
	}
	if len(s.Key) == 0 {
		return s.hashed(string(row))
	}
	var key []diff.Term
	for _, k := range s.Key {
		if i := slices.Index(vars, k); i >= 0 {
			key = append(key, terms[i])
		}
	}
	if len(key) == 1 && key[0].Kind == diff.IRI {
		return key[0].String()
	}
	var text strings.Builder
	for _, t := range key {
		text.WriteString(t.String() + " ")
	}
	return s.hashed(text.String())
}

func (s *Stream) hashed(text string) string { return "<" + s.root() + "#" + digest(text) + ">" }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// term writes a term of Turtle. Blank nodes are IRIs.
func (s *Stream) term(t diff.Term) string {
	if t.Kind == diff.Blank {
		return "<" + s.Genid + url.PathEscape(t.Value) + ">"
	}
	return t.String()
}

// rowsOf returns the canonical rows of a result; for ASK, one with its answer.
func rowsOf(r *diff.Result) (rows diff.Rows) {
	if r == nil {
		return nil
	}
	if r.Form() == diff.Ask {
		return diff.Rows{[]byte(fmt.Sprint(r.Boolean()))}
	}
	for i := range r.Len() {
		rows = append(rows, r.Row(i))
	}
	return rows
}

// WritePage writes a page. before is the state at its position, nil if there is none, which at gives a time.
// changes follow it. full says that no other change will.
func (s *Stream) WritePage(w io.Writer, p Page, before *diff.Result, at time.Time, changes []registry.Change, full bool) error {
	b := bufio.NewWriter(w)
	b.WriteString(prefixes)
	s.describe(b, !full)
	fmt.Fprintf(b, "<%s> a tree:Node", s.URL(p))
	if full {
		b.WriteString(" ; ldes:immutable true")
	}
	b.WriteString(" .\n")
	now := state{}
	var vars []string
	if before != nil {
		vars = before.Vars()
	}
	touched := map[string]bool{}
	for _, row := range rowsOf(before) {
		touched[s.add(now, vars, row, 1)] = true
	}
	if p.State {
		s.members(b, p, p.After, at, touched, nil, now, vars)
		return b.Flush()
	}
	for _, c := range changes {
		touched, was := map[string]bool{}, map[string]bag{}
		d := c.Delta
		removed, added := d.Removed, d.Added
		oldVars := d.OldVars
		if len(oldVars) == 0 {
			oldVars = vars
		}
		switch {
		case d.Form == diff.Ask:
			removed, added = nil, diff.Rows{[]byte(fmt.Sprint(d.Boolean))}
			if !d.Baseline {
				removed = diff.Rows{[]byte(fmt.Sprint(d.Previous))}
			}
		case d.Baseline:
			for object, rows := range now { // it replaces everything
				touched[object], was[object] = true, rows
			}
			now = state{}
		}
		step := func(vars []string, row []byte, n int) {
			object := s.object(vars, row)
			if !touched[object] {
				touched[object], was[object] = true, maps.Clone(now[object])
			}
			s.add(now, vars, row, n)
		}
		if !d.Baseline {
			for _, row := range removed {
				step(oldVars, row, -1)
			}
		}
		for _, row := range added {
			step(d.Vars, row, 1)
		}
		vars = d.Vars
		s.members(b, p, c.Position(), c.Time, touched, was, now, vars)
	}
	return b.Flush()
}

// members writes the versions of the touched objects that differ from what they were.
func (s *Stream) members(b *bufio.Writer, p Page, at registry.Position, when time.Time, touched map[string]bool,
	was map[string]bag, now state, vars []string) {
	var list []string
	for _, object := range slices.Sorted(maps.Keys(touched)) {
		if was == nil || !maps.Equal(was[object], now[object]) {
			list = append(list, object)
		}
		if len(now[object]) == 0 {
			delete(now, object)
		}
	}
	for i, object := range list {
		kind := ""
		if p.State {
			kind = "state-"
		}
		id := fmt.Sprintf("<%s#%s%d-%s>", s.root(), kind, at.Seq, digest(at.Epoch+" "+object))
		fmt.Fprintf(b, "\n<%s#stream> tree:member %s .\n%s f:versionOf %s ; f:time %s ; f:change %d ; f:transaction %q", s.root(), id,
			id, object, stamp(when), at.Seq, at.String())
		if i == len(list)-1 {
			b.WriteString(" ; f:last true")
		}
		s.content(b, now[object], vars)
		b.WriteString(" .\n")
	}
}

func (s *Stream) content(b *bufio.Writer, rows bag, vars []string) {
	if len(rows) == 0 {
		b.WriteString(" ; f:event as:Delete")
	}
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		if s.Form == diff.Ask {
			b.WriteString(" ; f:answer " + row)
			continue
		}
		terms := diff.RowTerms(s.Form, vars, []byte(row))
		if s.Form.Graph() {
			b.WriteString(" ;\n  " + terms[1].String() + " " + s.term(terms[2]))
			continue
		}
		fmt.Fprintf(b, " ;\n  f:row [ f:times %d", rows[row])
		for i, t := range terms {
			if t.Kind != diff.Unbound {
				b.WriteString(" ; <urn:freshet:var:" + url.PathEscape(vars[i]) + "> " + s.term(t))
			}
		}
		b.WriteString(" ]")
	}
}

// PatchType is the media type of RDF patches.
const PatchType = "application/rdf-patch"

// WritePatch writes changes of a graph as one RDF patch with a transaction for each. base begins the ids of patches.
// before is the state before the first one, which a change that replaces everything needs.
func WritePatch(w io.Writer, base string, after registry.Position, before func(registry.Position) (*diff.Result, error),
	changes []registry.Change) error {
	b := bufio.NewWriter(w)
	last := after
	if n := len(changes); n > 0 {
		last = changes[n-1].Position()
	}
	fmt.Fprintf(b, "H id <%s%s> .\n", base, last)
	if after.Seq > 0 && last != after {
		fmt.Fprintf(b, "H prev <%s%s> .\n", base, after)
	}
	for _, c := range changes {
		removed := c.Delta.Removed
		if c.Delta.Baseline && c.Prev > 0 {
			r, err := before(registry.Position{Epoch: c.Epoch, Seq: c.Prev})
			if err != nil {
				return err
			}
			removed = rowsOf(r)
		}
		b.WriteString("TX .\n")
		for _, row := range removed {
			fmt.Fprintf(b, "D %s\n", row)
		}
		for _, row := range c.Delta.Added {
			fmt.Fprintf(b, "A %s\n", row)
		}
		b.WriteString("TC .\n")
	}
	return b.Flush()
}
