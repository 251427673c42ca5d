package diff

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// DecodeJSON reads a SPARQL 1.1 Query Results JSON document. It is strict: the
// document must be complete, of the given form, and followed by nothing except
// white space; otherwise the error wraps ErrMalformed. CONSTRUCT and DESCRIBE
// results have no such format and are refused. The result does not keep body.
func DecodeJSON(body []byte, form Form, o Options) (*Result, error) {
	if n := o.MaxBytes; n > 0 && len(body) > n {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrByteLimit, len(body), n)
	}
	o.MaxBytes = 0
	return decodeJSON(body, form, o)
}

func decodeJSON(body []byte, form Form, o Options) (*Result, error) {
	if form.Graph() {
		return nil, malformed("results JSON does not carry " + string(form))
	}
	if !utf8.Valid(body) {
		return nil, malformed("not UTF-8")
	}
	b := NewBuilder(form, o)
	d := decoder{scanner: scanner{b: body}, out: b}
	d.document()
	if d.err == nil {
		d.err = b.err
	}
	if d.err != nil {
		return nil, d.err
	}
	r, err := b.Finish()
	if err == nil && d.printer != nil && !b.blank && !b.settled {
		r.print, r.printed = d.printer.sum, true
	}
	return r, err
}

// A decoder decodes one body into rows of its builder.
type decoder struct {
	scanner
	out      *Builder
	names    [][]byte // quoted name and colon of each variable, in head order
	vars     [][]byte // the same, unquoted and raw
	index    map[string]int
	bindings []binding // the current row, in head order
	sawHead  bool
	root     shape    // the known shapes of rows
	shapes   int      // number of shapes
	values   []piece  // the values of a row read by shapes
	rowsAt   int      // where the bindings start
	sorted   []int    // met, in head order
	printer  *printer // nil if the fingerprint is not that of the rows as they arrive
	met      []int    // bindings of the row being parsed, in the order of the input
	plain    []byte   // the last value that had escapes, without them
}

// A binding is a term of the current row, as raw pieces of the body or, where
// those had escapes, of decoded text.
type binding struct {
	kind            Kind
	value, lang, dt []byte
	escaped         bool // value is raw and has escapes
	valueAt         int
	nth             int // in the order of the input, see layout
}

func (d *decoder) document() {
	results, hasResults, hasBoolean := -1, false, false
	d.object(func(name []byte) {
		switch string(name) {
		case "head":
			d.head()
		case "results":
			hasResults = true
			if d.sawHead || d.out.res.form != Select {
				d.results()
				return
			}
			// The rows cannot be read before the head: come back to them later.
			results = d.i
			d.skip(0)
		case "boolean":
			hasBoolean = true
			d.boolean()
		default:
			d.other(name)
		}
	})
	if d.peek(); d.err == nil && d.i < len(d.b) {
		d.fail("text after the document")
	}
	d.complete(hasResults, hasBoolean)
	if d.err == nil && results >= 0 {
		d.i = results
		d.results()
	}
}

// other reads a member that the format does not define. Servers add some of their own, such as
// statistics. One that reports an error means that the answer may not be whole.
func (d *decoder) other(name []byte) {
	d.peek()
	from := d.i
	d.skip(0)
	if d.err == nil && Alarming(string(name), string(d.b[from:d.i])) {
		d.fail(`the answer has a member "` + string(name) + `" beside its rows: ` + shortened(string(d.b[from:d.i])))
	}
}

// Alarming reports whether a member with a value, in JSON, says that the answer is not whole.
func Alarming(name, value string) bool {
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name)) {
	case "error", "errors", "exception", "exceptions":
		return !slices.Contains([]string{"null", "false", `""`, "[]", "{}", "0"}, value)
	case "timeout", "timedout", "partial", "ispartial", "incomplete", "truncated":
		return value == "true" || value[0] == '"' && value != `""`
	case "complete", "iscomplete":
		return value == "false" || value == `"false"`
	}
	return false
}

// shortened is the beginning of a text for a message.
func shortened(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

func (d *decoder) complete(hasResults, hasBoolean bool) {
	ask := d.out.res.form == Ask
	switch {
	case d.err != nil:
	case !d.sawHead:
		d.fail("no head")
	case ask && (!hasBoolean || hasResults):
		d.fail("not the answer of an ASK query")
	case !ask && (!hasResults || hasBoolean):
		d.fail("not the answer of a SELECT query")
	}
}

func (d *decoder) head() {
	d.sawHead = true
	var vars []string
	has := false
	d.object(func(name []byte) {
		if string(name) != "vars" {
			d.other(name)
			return
		}
		has = true
		d.rowsAt = d.i
		d.array(func() {
			vars = append(vars, string(d.text()))
			if n := d.out.opts.MaxVars; n > 0 && len(vars) > n {
				d.err = fmt.Errorf("%w: more than %d", ErrColumnLimit, n)
			}
		})
	})
	if d.err != nil || d.out.res.form != Select {
		return
	}
	if !has {
		d.fail("head without vars")
		return
	}
	if err := d.out.SetVars(vars); err != nil {
		d.err = err
		return
	}
	if len(d.out.opts.OrderKeys) == 0 { // ties may be sorted otherwise
		d.printer = newPrinter(d.out.res)
	}
	d.bindings, d.index = make([]binding, len(vars)), make(map[string]int, len(vars))
	for i, v := range d.out.res.vars {
		d.index[v] = i
		d.vars = append(d.vars, []byte(v))
		d.names = append(d.names, append(appendQuoted(nil, v), ':'))
	}
}

func (d *decoder) boolean() {
	v := d.word("true")
	if !v && !d.word("false") {
		d.fail("boolean is neither true nor false")
		return
	}
	if d.out.res.form == Ask {
		_ = d.out.SetBoolean(v) // a repeated member has been refused already
	}
}

func (d *decoder) results() {
	has := false
	d.object(func(name []byte) {
		if string(name) != "bindings" || d.out.res.form != Select {
			d.other(name)
			return
		}
		has = true
		d.rowsAt = d.i
		d.array(func() {
			if d.peek() != '{' || !d.readKnown() {
				d.row()
			}
		})
	})
	if d.err == nil && !has && d.out.res.form == Select {
		d.fail("results without bindings")
	}
}

// row parses one solution and appends its canonical bytes.
func (d *decoder) row() {
	for _, k := range d.met {
		d.bindings[k] = binding{}
	}
	d.met = d.met[:0]
	next, from := 0, d.i
	if !d.expect('{') {
		return
	}
	if d.peek() == '}' {
		d.i++
		d.emit()
		return
	}
	for d.err == nil {
		k := d.variable(d.text(), next)
		if !d.expect(':') {
			return
		}
		d.met = append(d.met, k)
		d.term(&d.bindings[k])
		next = k + 1
		if d.peek() != ',' {
			if d.expect('}') {
				d.emit()
				d.addPath(from, d.met)
			}
			return
		}
		d.i++
	}
}

// variable finds the binding of a name, most likely the one after the last.
func (d *decoder) variable(name []byte, next int) int {
	k, known := next, next < len(d.vars) && string(d.vars[next]) == string(name)
	if !known {
		k, known = d.index[string(name)]
	}
	switch {
	case d.err != nil:
	case !known:
		d.fail("binding of a variable that is not in the head")
	case d.bindings[k].kind != Unbound:
		d.fail("variable bound twice in one row")
	default:
		return k
	}
	if len(d.bindings) == 0 {
		d.bindings = make([]binding, 1)
	}
	return 0
}

const (
	sawType = 1 << iota
	sawValue
	sawLang
	sawDatatype
)

// term reads one RDF term.
func (d *decoder) term(t *binding) {
	saw := 0
	first := func(bit int) {
		if saw&bit != 0 {
			d.fail("member twice in one term")
		}
		saw |= bit
	}
	if !d.expect('{') {
		return
	}
	var others names
	for d.err == nil {
		name := d.text()
		if !d.expect(':') {
			return
		}
		switch string(name) {
		case "type":
			first(sawType)
			t.kind = d.kind()
		case "value":
			first(sawValue)
			d.peek()
			t.valueAt = d.i + 1
			t.value, t.escaped = d.str()
		case "xml:lang":
			first(sawLang)
			t.lang = d.text()
		case "datatype":
			first(sawDatatype)
			t.dt = d.text()
		case "its:dir":
			d.fail(rdf12 + baseDirection)
		default:
			if others.twice(name) {
				d.fail("member twice in one term")
			}
			d.skip(0)
		}
		if d.peek() != ',' {
			d.expect('}')
			break
		}
		d.i++
	}
	if d.err == nil && saw&(sawType|sawValue) != sawType|sawValue {
		d.fail("term without type or value")
	}
	d.normal(t)
}

// kind reads the type of a term.
func (d *decoder) kind() Kind {
	typ := d.text()
	k := kindOf(typ)
	switch {
	case k != Unbound:
	case string(typ) == "triple" || string(typ) == "statement": // the second is from RDF-star
		d.fail(rdf12 + tripleTerm)
	default:
		d.fail("unknown type of term")
	}
	return k
}

// normal normalises pieces of the body as Term.normal does a term.
func (d *decoder) normal(t *binding) {
	switch {
	case t.kind != Literal:
		t.lang, t.dt = nil, nil
	case len(t.lang) > 0:
		if len(t.dt) > 0 && string(t.dt) != langString {
			d.fail("literal with a language and another datatype")
		}
		if hasDirection(string(t.lang)) {
			d.fail(rdf12 + baseDirection)
		}
		t.lang, t.dt = []byte(lower(string(t.lang))), nil
	case string(t.dt) == xsdString:
		t.dt = nil
	}
}

// inHeadOrder returns the bindings of the current row in head order.
func (d *decoder) inHeadOrder() []int {
	d.sorted = append(d.sorted[:0], d.met...)
	slices.Sort(d.sorted)
	return d.sorted
}

// emit appends the current row.
func (d *decoder) emit() {
	r := d.out.res
	from := len(r.text)
	text := append(r.text, '{')
	for _, i := range d.inHeadOrder() {
		t := &d.bindings[i]
		if len(text) > from+1 {
			text = append(text, ',')
		}
		d.out.blank = d.out.blank || t.kind == Blank
		text = append(text, d.names[i]...)
		text = append(text, termPrefix(t.kind)...)
		text = d.appendValue(text, t.value, t.escaped)
		text = appendTermSuffix(text, t.lang, t.dt)
	}
	r.text = append(text, '}')
	d.endRow(from)
}

func (d *decoder) endRow(from int) {
	if d.printer != nil {
		d.printer.add(d.out.res.text[from:])
	}
	if err := d.out.endRow(from); err != nil && d.err == nil {
		d.err = err
	}
	if r := d.out.res; len(r.rows) == 1 {
		// Rows are similar: the size of the first predicts the number of the others.
		n := min((len(d.b)-d.i)/(d.i-d.rowsAt), 1<<20)
		r.rows = slices.Grow(r.rows, n)
		r.text = slices.Grow(r.text, n*len(r.text)*17/16)
	}
}

// appendValue copies a raw string. The escapes of one that has some are made
// canonical.
func (d *decoder) appendValue(dst, raw []byte, escaped bool) []byte {
	if !escaped {
		return append(dst, raw...)
	}
	var ok bool
	if d.plain, ok = unescape(d.plain[:0], raw); !ok {
		d.fail("bad escape in a string")
	}
	return appendEscaped(dst, d.plain)
}
