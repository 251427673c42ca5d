package diff

import (
	"bytes"
	"math"
)

// Decode reads a document that Document wrote. It finds rows without parsing
// them. It is meant for documents from one's own store: for any other document
// the error is ErrMalformed or the rows are arbitrary, but it never panics. The
// result keeps document, which must not change afterwards.
func Decode(document []byte, form Form, ordered bool) (*Result, error) {
	r := &Result{form: form, ordered: ordered && form == Select, text: document}
	var err error
	switch {
	case form.Graph():
		err = r.splitLines()
	case form == Ask:
		r.boolean = string(document) == `{"head":{},"boolean":true}`
		if r.text = nil; !bytes.Equal(document, r.head()) {
			err = malformed("not a canonical ASK document")
		}
	case form == Select:
		err = r.splitSelect()
	default:
		err = malformed("unknown query form")
	}
	if err == nil && len(r.rows) > math.MaxInt32 {
		err = ErrRowLimit
	}
	if err != nil {
		return nil, err
	}
	if r.ordered || isSorted(len(r.rows), r.arrived) {
		r.stored = document
	}
	return r, nil
}

func (r *Result) splitLines() error {
	for i := 0; i < len(r.text); {
		n := bytes.IndexByte(r.text[i:], '\n')
		if n < 1 {
			return malformed("line without an end")
		}
		r.rows = append(r.rows, span{i, i + n})
		i += n + 1
	}
	return nil
}

func (r *Result) splitSelect() error {
	const mark = `]},"results":{"bindings":[`
	n := bytes.Index(r.text, []byte(mark))
	if n < 0 || !bytes.HasSuffix(r.text, []byte(selectTail)) {
		return malformed("not a canonical SELECT document")
	}
	from, to := n+len(mark), len(r.text)-len(selectTail)
	if from > to {
		return malformed("document ends early")
	}
	s := scanner{b: r.text[:n+1]}
	if !s.word(`{"head":{"vars":`) {
		return malformed("not a canonical SELECT document")
	}
	s.array(func() { r.vars = append(r.vars, string(s.text())) })
	if s.err != nil || !bytes.Equal(appendHead(nil, r.vars), r.text[:from]) {
		return malformed("head is not canonical")
	}
	var err error
	r.rows, err = splitRows(r.text[from:to], from)
	return err
}
