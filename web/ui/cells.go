package ui

import (
	"html/template"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry/sparql"
)

// A grid holds the rows of a result as they are displayed.
type grid struct {
	Heads   []string
	Number  []bool // numeric columns, which are right-aligned
	Rows    []gridRow
	Columns int // of the whole result, of which Heads may be only the first
}

// Hidden reports whether columns are left out.
func (g grid) Hidden() bool { return g.Columns > len(g.Heads) }

type gridRow struct {
	Sign   string
	Cells  []cell
	Origin *rowOrigin // nil if it is unknown
}

// A rowOrigin says since when a row is there: since a change, or since before one.
type rowOrigin struct {
	Seq, Before uint64
	When        template.HTML
	Link        string // to the change
}

// A cell displays an RDF term. Terms are untrusted: a long one is shortened, and its
// text direction is isolated.
type cell struct {
	Text  string // shortened
	Whole string // for the title attribute: the full term, cut only if very long
	Mark  string // language or datatype
	Class string // "mono" for identifiers
	All   string // address of the full value if Text is cut
	Size  string
}

const (
	mostColumns  = 50       // columns shown of a result, a change or a difference
	longestCell  = 400      // bytes shown of a term
	longestTitle = 1000     // bytes of its title attribute
	longestText  = 64 << 10 // bytes of a query text shown with syntax colours
)

// A namer shortens IRIs with the prefixes of a query.
type namer struct{ prefixes [][2]string } // IRI, name

var prefixLine = regexp.MustCompile(`(?i)\bPREFIX\s+([^\s:<>"]*):\s*<([^<>"{}|^\x60\\\s]+)>`)

func newNamer(text string) namer {
	var n namer
	for _, m := range prefixLine.FindAllStringSubmatch(clip(text, longestText), 100) {
		n.prefixes = append(n.prefixes, [2]string{m[2], m[1]})
	}
	return n
}

var localName = regexp.MustCompile(`^[\pL\pN_.-]*$`)

func (n namer) short(iri string) string {
	best := ""
	out := iri
	for _, p := range n.prefixes {
		if rest, ok := strings.CutPrefix(iri, p[0]); ok && len(p[0]) > len(best) && len(rest) < 200 && localName.MatchString(rest) {
			best, out = p[0], p[1]+":"+rest
		}
	}
	return out
}

// date matches dates and times, which are not broken after a hyphen.
var date = regexp.MustCompile(`^-?\d{4}-\d\d(-\d\d)?(T[0-9:.]+)?(Z|[+-]\d\d:\d\d)?$`)

const xsd = "http://www.w3.org/2001/XMLSchema#"

// cell renders a term; all is the address of its full value.
func (n namer) cell(t diff.Term, all string) cell {
	var c cell
	switch t.Kind {
	case diff.Unbound:
		return cell{Text: none, Class: "dim"}
	case diff.IRI:
		c = cell{Text: n.short(t.Value), Whole: "<" + t.Value + ">", Class: "mono"}
	case diff.Blank:
		c = cell{Text: "_:" + t.Value, Whole: "_:" + t.Value, Class: "mono dim"}
	default:
		c = cell{Text: t.Value, Whole: `"` + t.Value + `"`}
		if date.MatchString(c.Text) {
			c.Class = "nb"
		}
		if t.Lang != "" {
			c.Mark, c.Whole = "@"+t.Lang, c.Whole+"@"+t.Lang
		} else if t.Datatype != "" {
			c.Whole += "^^<" + t.Datatype + ">"
			if !number[t.Datatype] {
				c.Mark = clip(plainType(n, t.Datatype), 60)
			}
		}
	}
	if len(c.Text) > longestCell {
		c.Size, c.All = amount(len(t.Value)), all
		c.Text = clip(c.Text, longestCell)
	}
	c.Whole = clip(c.Whole, longestTitle)
	return c
}

// plainType returns "" for datatypes that are evident from the value.
func plainType(n namer, typ string) string {
	switch local, ok := strings.CutPrefix(typ, xsd); {
	case ok && (local == "dateTime" || local == "date" || local == "boolean" || local == "time"):
		return ""
	case ok:
		return "xsd:" + local
	}
	return n.short(typ)
}

var number = map[string]bool{xsd + "integer": true, xsd + "decimal": true, xsd + "double": true, xsd + "float": true,
	xsd + "int": true, xsd + "long": true,
	xsd + "nonNegativeInteger": true, xsd + "positiveInteger": true, xsd + "short": true, xsd + "byte": true, xsd + "unsignedInt": true}

// headsOf returns the column headings of a result form.
func headsOf(f diff.Form, vars []string) []string {
	if f.Graph() {
		return []string{"subject", "predicate", "object"}
	}
	out := make([]string, len(vars))
	for i, v := range vars {
		out[i] = "?" + v
	}
	return out
}

// grid renders rows; where returns the address of a cell's full value.
func (n namer) grid(f diff.Form, vars []string, rows int, row func(int) []diff.Term, sign func(int) string,
	where func(row, col int) string) grid {
	g := grid{Heads: headsOf(f, vars[:min(len(vars), mostColumns)]), Columns: len(vars)}
	g.Number = make([]bool, len(g.Heads))
	for c := range g.Number {
		g.Number[c] = rows > 0
	}
	for i := range rows {
		terms := row(i)
		terms = terms[:min(len(terms), mostColumns)]
		r := gridRow{Sign: sign(i), Cells: make([]cell, len(terms))}
		for c, t := range terms {
			r.Cells[c] = n.cell(t, where(i, c))
			if c < len(g.Number) && t.Kind != diff.Unbound && !(t.Kind == diff.Literal && number[t.Datatype]) {
				g.Number[c] = false
			}
		}
		g.Rows = append(g.Rows, r)
	}
	return g
}

var noSign = func(int) string { return "" }

// A pager shows which part of a list a page holds, and links to the others.
type pager struct {
	First, Last, All int
	More             bool // there are more than All
	Prev, Next       string
}

// pages returns the pager of a page that shows some elements of a list; nil if it
// shows none. link returns the address of the page that starts at an element.
func pages(from, shown, all, step int, link func(from int) string) *pager {
	if shown <= 0 {
		return nil
	}
	p := &pager{First: from + 1, Last: from + shown, All: all}
	if from > 0 {
		p.Prev = link(max(0, from-step))
	}
	if from+shown < all {
		p.Next = link(from + step)
	}
	return p
}

// turn returns the part of a list that the address of a page asks for, and its pager. param is the
// parameter that says where the part begins: the number of a page or, with "from", of an element. The
// links keep the other parameters.
func turn[T any](q url.Values, list []T, size int, path, param string, keep ...string) ([]T, *pager) {
	from, _ := strconv.Atoi(q.Get(param)) // an invalid number means the beginning
	last, number := len(list)-1, func(from int) int { return from }
	if param == "page" {
		from, last = (from-1)*size, last/size*size
		number = func(from int) int { return from/size + 1 }
	}
	from = max(0, min(from, last))
	shown := list[from:min(from+size, len(list))]
	return shown, pages(from, len(shown), len(list), size, func(from int) string {
		return address(q, path, param, strconv.Itoa(number(from)), keep...)
	})
}

// address returns the address of a list with one parameter set and some of the
// present ones kept.
func address(now url.Values, path, name, value string, keep ...string) string {
	q := url.Values{}
	for _, k := range keep {
		if s := now.Get(k); s != "" {
			q.Set(k, s)
		}
	}
	q.Set(name, value)
	return path + "?" + q.Encode()
}

// highlight renders a query text with its keywords, variables, IRIs, literals and
// comments in spans. It accepts any text, valid SPARQL or not: what cannot be read stays
// plain, and everything is escaped.
func highlight(text string) template.HTML {
	var b strings.Builder
	b.Grow(len(text) * 2)
	at := 0
	write := func(class string, end int) {
		s := template.HTMLEscapeString(text[at:end])
		if class != "" && s != "" {
			s = `<span class="` + class + `">` + s + `</span>`
		}
		b.WriteString(s)
		at = end
	}
	tokens, err := sparql.Tokens(text)
	for _, t := range append(tokens, sparql.Token{Kind: sparql.Punct, Pos: len(text), End: len(text)}) {
		for at < t.Pos && err == nil { // white space and comments
			comment := strings.IndexByte(text[at:t.Pos], '#')
			if comment < 0 {
				break
			}
			write("", at+comment)
			end := strings.IndexAny(text[at:t.Pos], "\r\n")
			if end < 0 {
				end = t.Pos - at
			}
			write("c", at+end)
		}
		write("", t.Pos)
		write(class(t), t.End)
	}
	return template.HTML(b.String())
}

// class returns the class of a token's span.
func class(t sparql.Token) string {
	switch {
	case t.Kind == sparql.IRI:
		return "i"
	case t.Kind == sparql.Variable:
		return "v"
	case t.Kind == sparql.String, t.Kind == sparql.Number, t.Kind == sparql.Word && (t.Text == "true" || t.Text == "false"):
		return "s"
	case t.Kind == sparql.Word && t.Keyword():
		return "k"
	}
	return ""
}
