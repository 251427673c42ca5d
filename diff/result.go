package diff

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"sync"
)

// A span is the location of a row's canonical bytes in Result.text.
type span struct{ from, to int }

// A Result is one complete answer to a query, in canonical form. It is
// immutable and safe for concurrent use. What is expensive (the order of rows,
// the document, the hash) is computed on first use.
type Result struct {
	form        Form
	ordered     bool
	boolean     bool
	approximate bool
	vars        []string
	text        []byte
	rows        []span // ordered: the sequence; otherwise in order of arrival

	sorting sync.Once
	perm    []int32  // canonical index → index in rows; nil: the same
	pieces  [][]byte // the rows in canonical order, several with the separators between them at once; may be nil

	stored   []byte // the document from which the result was read, if any
	writing  sync.Once
	document []byte

	hashing sync.Once
	sum     string

	printing sync.Once
	printed  bool // print was summed when the rows were decoded
	print    Fingerprint
}

// Form returns the query form of the result.
func (r *Result) Form() Form { return r.form }

// Ordered reports whether the sequence of rows is part of the result.
func (r *Result) Ordered() bool { return r.ordered }

// Vars returns the variables of the head in order; nil for ASK and graphs. The
// caller must not change them.
func (r *Result) Vars() []string { return r.vars }

// Len is the number of rows or triples; 0 for ASK.
func (r *Result) Len() int { return len(r.rows) }

// Boolean is the answer of an ASK query.
func (r *Result) Boolean() bool { return r.boolean }

// Approximate reports that the budget for blank nodes was exceeded. The labels
// are unique but may depend on the order in which rows arrived, so that equal
// results may look different. Different results never look the same.
func (r *Result) Approximate() bool { return r.approximate }

// Row returns the canonical bytes of row i in canonical order: a JSON object
// for SELECT, an N-Triples statement without a line feed for graphs. The caller
// must not change them.
func (r *Result) Row(i int) []byte {
	r.sort()
	if r.perm != nil {
		i = int(r.perm[i])
	}
	return r.arrived(i)
}

// arrived returns row i in the order of r.rows.
func (r *Result) arrived(i int) []byte {
	s := r.rows[i]
	return r.text[s.from:s.to:s.to]
}

// Terms returns the terms of row i: aligned with Vars, or subject, predicate
// and object.
func (r *Result) Terms(i int) []Term {
	return RowTerms(r.form, r.vars, r.Row(i))
}

// head and tail surround the rows of the document.
func (r *Result) head() []byte {
	switch {
	case r.form == Ask && r.boolean:
		return []byte(`{"head":{},"boolean":true}`)
	case r.form == Ask:
		return []byte(`{"head":{},"boolean":false}`)
	case r.form.Graph():
		return nil
	}
	return appendHead(nil, r.vars)
}

func appendHead(dst []byte, vars []string) []byte {
	dst = append(dst, `{"head":{"vars":[`...)
	for i, v := range vars {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, v)
	}
	return append(dst, `]},"results":{"bindings":[`...)
}

const selectTail = `]}}`

// Size is the length of Document in bytes. It does not build the document.
func (r *Result) Size() int {
	n := len(r.head())
	for _, s := range r.rows {
		n += s.to - s.from + 1
	}
	if r.form == Select {
		n += len(selectTail)
		if len(r.rows) > 0 {
			n--
		}
	}
	return n
}

// Document returns the canonical bytes of the whole result (see the package
// comment). The caller must not change them.
func (r *Result) Document() []byte {
	if r.stored != nil {
		return r.stored
	}
	r.writing.Do(func() {
		b := make([]byte, 0, r.Size())
		_ = r.write(func(p []byte) error { b = append(b, p...); return nil })
		r.document = b
	})
	return r.document
}

// Sizes of the pieces that are written and hashed. Larger ones are not copied.
const (
	writtenAtOnce = 128 << 10
	hashedAtOnce  = 4 << 10
)

// WriteTo writes Document in pieces, without building it. It stops at the first
// error of w.
func (r *Result) WriteTo(w io.Writer) (int64, error) {
	if r.stored != nil {
		n, err := w.Write(r.stored)
		return int64(n), err
	}
	buf := bufio.NewWriterSize(w, min(writtenAtOnce, r.Size()))
	n := int64(0)
	err := r.write(func(p []byte) error {
		m, err := buf.Write(p)
		n += int64(m)
		return err
	})
	if err == nil {
		err = buf.Flush()
	}
	return n - int64(buf.Buffered()), err
}

// canonical yields the rows in canonical order. It may yield several at once, with the
// separators between them.
func (r *Result) canonical(yield func([]byte) bool) {
	r.sort()
	if r.pieces != nil {
		slices.Values(r.pieces)(yield)
		return
	}
	for i := range r.rows {
		if !yield(r.Row(i)) {
			return
		}
	}
}

// write passes the pieces of the document to emit. It stops at the first error
// of emit.
func (r *Result) write(emit func([]byte) error) error {
	if err := emit(r.head()); err != nil || r.form == Ask {
		return err
	}
	comma, feed, first := []byte{','}, []byte{'\n'}, true
	for row := range r.canonical {
		if !r.form.Graph() && !first {
			if err := emit(comma); err != nil {
				return err
			}
		}
		first = false
		if err := emit(row); err != nil {
			return err
		}
		if r.form.Graph() {
			if err := emit(feed); err != nil {
				return err
			}
		}
	}
	if r.form == Select {
		return emit([]byte(selectTail))
	}
	return nil
}

// Hash is "sha256:" and the hexadecimal SHA-256 of Document.
func (r *Result) Hash() string {
	r.hashing.Do(func() { r.sum = r.digest() })
	return r.sum
}

// KnownHash sets the hash of a result that was stored together with it, unless it
// has been computed.
func (r *Result) KnownHash(sum string) {
	if sum != "" {
		r.hashing.Do(func() { r.sum = sum })
	}
}

func (r *Result) digest() string {
	h := sha256.New()
	if r.stored != nil {
		h.Write(r.stored)
	} else {
		buf := bufio.NewWriterSize(h, min(hashedAtOnce, r.Size()))
		_ = r.write(func(p []byte) error { _, err := buf.Write(p); return err }) // a hash returns no error
		_ = buf.Flush()
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
