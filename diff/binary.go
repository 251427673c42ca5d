package diff

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// binaryVersion is the version of the stored form of deltas.
const binaryVersion = 1

const (
	bitOrdered = 1 << iota
	bitBaseline
	bitBoolean
	bitPrevious
	bitSameVars
)

func bit(on bool, b byte) byte {
	if on {
		return b
	}
	return 0
}

// MarshalBinary encodes d for a store: a version byte, flags, then numbers as
// varints and texts preceded by their lengths. Jaccard is not stored but
// computed again.
func (d *Delta) MarshalBinary() ([]byte, error) {
	var w binaryWriter
	err := d.writeBinary(&w)
	return w.buf, err
}

// WriteTo writes the bytes of MarshalBinary in pieces. It stops at the first
// error of w.
func (d *Delta) WriteTo(w io.Writer) (int64, error) {
	b := binaryWriter{to: w}
	if err := d.writeBinary(&b); err != nil {
		return b.written, err
	}
	err := b.flush()
	return b.written, err
}

func (d *Delta) writeBinary(w *binaryWriter) error {
	if d.Ordered && (len(d.AddedAt) != len(d.Added) || len(d.RemovedAt) != len(d.Removed)) {
		return mismatch("indices and rows differ in number")
	}
	flags := bit(d.Ordered, bitOrdered) | bit(d.Baseline, bitBaseline) | bit(d.Boolean, bitBoolean) |
		bit(d.Previous, bitPrevious) | bit(d.sameVars(), bitSameVars)
	w.buf = append(w.buf, binaryVersion, flags)
	writeText(w, d.Form)
	writeText(w, d.OldHash)
	writeText(w, d.NewHash)
	w.number(d.OldLen)
	w.number(d.NewLen)
	writeTexts(w, d.Vars)
	if !d.sameVars() {
		writeTexts(w, d.OldVars)
	}
	writeTexts(w, d.Added)
	writeTexts(w, d.Removed)
	if d.Ordered {
		w.indices(d.AddedAt)
		w.indices(d.RemovedAt)
	}
	return w.err
}

// A binaryWriter collects bytes and passes them on in pieces, unless to is nil.
// After an error of to it writes nothing.
type binaryWriter struct {
	buf     []byte
	to      io.Writer
	written int64
	err     error
}

func (w *binaryWriter) flush() error {
	if w.err == nil {
		n, err := w.to.Write(w.buf)
		w.written += int64(n)
		w.buf, w.err = w.buf[:0], err
	}
	return w.err
}

// full reports whether nothing more can be written.
func (w *binaryWriter) full() bool {
	return w.to != nil && (w.err != nil || len(w.buf) >= writtenAtOnce && w.flush() != nil)
}

func (w *binaryWriter) number(n int) { w.buf = binary.AppendUvarint(w.buf, uint64(n)) }

func writeText[T ~string | ~[]byte](w *binaryWriter, s T) {
	w.number(len(s))
	w.buf = append(w.buf, s...)
}

func writeTexts[T ~string | ~[]byte](w *binaryWriter, list []T) {
	w.number(len(list))
	for _, s := range list {
		if w.full() {
			return
		}
		writeText(w, s)
	}
}

func (w *binaryWriter) indices(at []int) {
	last := 0
	for _, i := range at {
		if w.full() {
			return
		}
		w.number(i - last)
		last = i
	}
}

// UnmarshalBinary decodes what MarshalBinary encoded. The error wraps
// ErrMalformed for anything else. The rows share data's memory, which must not
// change afterwards.
func (d *Delta) UnmarshalBinary(data []byte) error {
	r := reader{b: data}
	if version := r.byte(); version != binaryVersion {
		return malformed(fmt.Sprintf("delta of unknown version %d", version))
	}
	flags := r.byte()
	v := Delta{
		Ordered: flags&bitOrdered != 0, Baseline: flags&bitBaseline != 0,
		Boolean: flags&bitBoolean != 0, Previous: flags&bitPrevious != 0,
		Form: Form(r.text()), OldHash: string(r.text()), NewHash: string(r.text()),
		OldLen: r.number(), NewLen: r.number(),
	}
	v.Vars = stringsOf(r.texts())
	if v.OldVars = v.Vars; flags&bitSameVars == 0 {
		v.OldVars = stringsOf(r.texts())
	}
	v.Added, v.Removed = r.texts(), r.texts()
	if v.Ordered {
		v.AddedAt, v.RemovedAt = r.indices(len(v.Added)), r.indices(len(v.Removed))
	}
	if r.bad || len(r.b) > 0 || !v.Form.valid() {
		return malformed("not a stored delta")
	}
	v.setJaccard()
	*d = v
	return nil
}

func stringsOf(list [][]byte) []string {
	var out []string
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}

// A reader reads values from the beginning of b.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) number() int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > 1<<48 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *reader) text() []byte {
	n := r.number()
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	s := r.b[:n:n]
	r.b = r.b[n:]
	return s
}

func (r *reader) texts() [][]byte {
	n := r.number()
	if n > len(r.b) { // each takes at least a byte
		r.bad, r.b = true, nil
		return nil
	}
	var out [][]byte
	for range n {
		out = append(out, r.text())
	}
	return slices.Clip(out)
}

func (r *reader) indices(n int) []int {
	var out []int
	last := 0
	for range n {
		last += r.number()
		out = append(out, last)
	}
	return out
}
