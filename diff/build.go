package diff

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"unicode/utf8"
)

// A Builder builds a Result term by term. The parsers of all formats except
// results JSON use it. After the first error all calls return that error. A
// Builder is not safe for concurrent use.
type Builder struct {
	res     *Result
	opts    Options
	place   []int // index in the caller's order → canonical index
	bound   []Bound
	known   int // number of variables of the head that are in Options.Vars
	hasVars bool
	hasBool bool
	settled bool // the head is another one than when the rows were added
	blank   bool // a row has a blank node
	labels  map[string]int
	stop    stopper
	err     error
}

// NewBuilder returns a builder of a result of the given form. Options.Ordered
// applies to SELECT only. Options.MaxBytes bounds the canonical text.
func NewBuilder(form Form, o Options) *Builder {
	b := &Builder{res: &Result{form: form, ordered: o.Ordered && form == Select}, opts: o, stop: stopper{ask: o.Stop}}
	if !form.valid() {
		b.err = fmt.Errorf("unknown query form %q", form)
	}
	return b
}

func (b *Builder) fail(err error) error {
	if b.err == nil {
		b.err = err
	}
	return b.err
}

// SetVars sets the head of a SELECT result. Call it before adding the first
// row.
func (b *Builder) SetVars(vars []string) error {
	if b.err != nil {
		return b.err
	}
	if b.res.form != Select || b.hasVars {
		return b.fail(malformed("head is not expected"))
	}
	if n := b.opts.MaxVars; n > 0 && len(vars) > n {
		return b.fail(fmt.Errorf("%w: more than %d", ErrColumnLimit, n))
	}
	at := make(map[string]int, len(vars))
	for i, v := range vars {
		if _, twice := at[v]; twice || v == "" || !utf8.ValidString(v) {
			return b.fail(malformed(fmt.Sprintf("variable %q is empty, repeated or not UTF-8", v)))
		}
		at[v] = i
	}
	if b.opts.Head != nil {
		b.opts.Head(vars)
	}
	head := make([]string, 0, len(vars))
	b.place = slices.Repeat([]int{-1}, len(vars))
	put := func(i int) {
		if b.place[i] < 0 {
			b.place[i] = len(head)
			head = append(head, vars[i])
		}
	}
	for _, v := range b.opts.Vars {
		if i, ok := at[v]; ok {
			put(i)
		}
	}
	b.known = len(head)
	for i := range vars {
		put(i)
	}
	b.hasVars, b.res.vars = true, head
	return nil
}

// settle makes Options.Vars the head if no row binds another variable. Endpoints may leave out the columns
// without values, or add some, and that is no change.
func (b *Builder) settle() error {
	r := b.res
	if r.form != Select || len(b.opts.Vars) == 0 || slices.Equal(r.vars, b.opts.Vars) {
		return nil
	}
	others, bound := make(map[string]bool, len(r.vars)-b.known), false
	for _, v := range r.vars[b.known:] {
		others[string(appendEscaped(nil, v))] = true
	}
	for i := range r.rows {
		if len(others) == 0 {
			break
		}
		eachBinding(r.arrived(i), func(name, _ []byte) { bound = bound || others[string(name)] })
		if err := b.stop.spend(len(r.arrived(i))); err != nil || bound {
			return err
		}
	}
	r.vars, b.settled = slices.Clone(b.opts.Vars), true
	return nil
}

// Row adds one solution. The terms are in the order given to SetVars; missing
// ones at the end are unbound.
func (b *Builder) Row(terms ...Term) error {
	b.bound = b.bound[:0]
	for i, t := range terms {
		if t.Kind != Unbound {
			b.bound = append(b.bound, Bound{i, t})
		}
	}
	if b.err == nil && len(terms) > len(b.place) {
		return b.fail(malformed("row longer than its head"))
	}
	return b.Solution(b.bound)
}

// A Bound is a variable, by its index in the list given to SetVars, and the term
// that a solution binds it to.
type Bound struct {
	Var  int
	Term Term
}

// Solution adds one solution that binds only these variables, each once. Its
// cost does not depend on the number of unbound variables. It sorts the list.
func (b *Builder) Solution(list []Bound) error {
	if b.err != nil {
		return b.err
	}
	if !b.hasVars {
		return b.fail(malformed("row without a head"))
	}
	slices.SortFunc(list, func(x, y Bound) int { return cmp.Compare(b.place[x.Var], b.place[y.Var]) })
	from := len(b.res.text)
	text := append(b.res.text, '{')
	for i := range list {
		t, err := b.check(list[i].Term)
		if err != nil {
			return b.fail(err)
		}
		if t.Kind == Unbound {
			continue
		}
		if len(text) > from+1 {
			text = append(text, ',')
		}
		text = appendQuoted(text, b.res.vars[b.place[list[i].Var]])
		text = append(text, ':')
		text = AppendTerm(text, t)
	}
	b.res.text = append(text, '}')
	return b.endRow(from)
}

// check normalises t and records whether it is a blank node.
func (b *Builder) check(t Term) (Term, error) {
	if !utf8.ValidString(t.Value) || !utf8.ValidString(t.Datatype) || !utf8.ValidString(t.Lang) {
		return t, malformed("term is not UTF-8")
	}
	b.blank = b.blank || t.Kind == Blank
	return t.normal()
}

// Triple adds one triple to a CONSTRUCT or DESCRIBE result. Repeated triples
// count as one.
func (b *Builder) Triple(s, p, o Term) error {
	if b.err != nil {
		return b.err
	}
	if !b.res.form.Graph() {
		return b.fail(malformed("rows are expected, not triples"))
	}
	if err := checkTriple(s, p, o); err != nil {
		return b.fail(err)
	}
	var t [3]Term
	for i, x := range [3]Term{s, p, o} {
		x, err := b.check(x)
		if err == nil && x.Lang != "" {
			err = CheckLang(x.Lang)
		}
		if err == nil && x.Kind == Blank && b.opts.KeepLabels && !validLabel(x.Value) {
			err = malformed("bad blank node label")
		}
		if err != nil {
			return b.fail(err)
		}
		t[i] = b.relabelTerm(x)
	}
	from := len(b.res.text)
	b.res.text = appendLine(b.res.text, t[0], t[1], t[2])
	return b.endRow(from)
}

// relabelTerm replaces the label of a blank node by a number, because foreign
// labels may be invalid in N-Triples.
func (b *Builder) relabelTerm(t Term) Term {
	if t.Kind != Blank || b.opts.KeepLabels {
		return t
	}
	n, ok := b.labels[t.Value]
	if !ok {
		if b.labels == nil {
			b.labels = map[string]int{}
		}
		n = len(b.labels)
		b.labels[t.Value] = n
	}
	t.Value = itoa(n)
	return t
}

// endRow turns the text appended since from into a row.
func (b *Builder) endRow(from int) error {
	r := b.res
	r.rows = append(r.rows, span{from, len(r.text)})
	if err := b.stop.spend(64 + len(r.text) - from); err != nil {
		return b.fail(err)
	}
	return b.limits()
}

func (b *Builder) limits() error {
	// Repeated triples count once, so the rows of a graph are counted when they
	// are a set.
	if n := b.opts.MaxRows; n > 0 && len(b.res.rows) > n && !b.res.form.Graph() || len(b.res.rows) > math.MaxInt32 {
		return b.fail(fmt.Errorf("%w: more than %d", ErrRowLimit, n))
	}
	if n := b.opts.MaxBytes; n > 0 && len(b.res.text) > n {
		return b.fail(fmt.Errorf("%w: more than %d bytes", ErrByteLimit, n))
	}
	return nil
}

// SetBoolean sets the answer of an ASK query.
func (b *Builder) SetBoolean(v bool) error {
	if b.err != nil {
		return b.err
	}
	if b.res.form != Ask || b.hasBool {
		return b.fail(malformed("boolean is not expected"))
	}
	b.hasBool, b.res.boolean = true, v
	return nil
}

var errFinished = errors.New("result is finished")

// Finish returns the result. A SELECT result needs its head, an ASK result its
// boolean. The builder must not be used afterwards.
func (b *Builder) Finish() (*Result, error) {
	switch {
	case b.err != nil:
		return nil, b.err
	case b.res.form == Select && !b.hasVars:
		return nil, b.fail(malformed("no head"))
	case b.res.form == Ask && !b.hasBool:
		return nil, b.fail(malformed("no boolean"))
	}
	r := b.res
	if err := b.settle(); err != nil {
		return nil, b.fail(err)
	}
	b.fail(errFinished)
	if r.form.Graph() {
		r.dedupe()
		if n := b.opts.MaxRows; n > 0 && len(r.rows) > n {
			return nil, fmt.Errorf("%w: more than %d", ErrRowLimit, n)
		}
	}
	if b.blank && !b.opts.KeepLabels {
		if err := r.relabel(b.opts); err != nil {
			return nil, err
		}
	}
	r.sortTies(b.opts.OrderKeys)
	return r, nil
}

// dedupe removes repeated lines of a graph.
func (r *Result) dedupe() {
	seen := make(map[uint64]span, len(r.rows))
	seed := maphash.MakeSeed()
	r.rows = slices.DeleteFunc(r.rows, func(s span) bool {
		line := r.text[s.from:s.to]
		for h := maphash.Bytes(seed, line); ; h++ {
			other, taken := seen[h]
			if !taken {
				seen[h] = s
				return false
			}
			if bytes.Equal(line, r.text[other.from:other.to]) {
				return true
			}
		}
	})
}
