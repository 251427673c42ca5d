package diff

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math"
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
	perm    []int32 // canonical index → index in rows; nil: the same

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
		_ = r.write(math.MaxInt, func(b []byte) error { r.document = b; return nil }) // in one piece
	})
	return r.document
}

// Sizes of the pieces that are written and hashed.
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
	n := int64(0)
	err := r.write(writtenAtOnce, func(b []byte) error {
		m, err := w.Write(b)
		n += int64(m)
		return err
	})
	return n, err
}

// write passes the document to emit in pieces of about size bytes, but no row in two. It stops at the first
// error of emit.
func (r *Result) write(size int, emit func([]byte) error) error {
	b := append(make([]byte, 0, min(size, r.Size())), r.head()...)
	for i := range r.rows {
		if i > 0 && r.form == Select {
			b = append(b, ',')
		}
		b = append(b, r.Row(i)...)
		if r.form.Graph() {
			b = append(b, '\n')
		}
		if len(b) >= size {
			if err := emit(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	if r.form == Select {
		b = append(b, selectTail...)
	}
	return emit(b)
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
		_ = r.write(hashedAtOnce, func(b []byte) error { _, err := h.Write(b); return err }) // a hash returns no error
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
