package diff

import (
	"encoding/binary"
	"fmt"
	"slices"
)

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

// MarshalBinary writes d for a store: a version byte, flags, then numbers as
// varints and texts with their lengths. Jaccard is not stored but recomputed.
func (d *Delta) MarshalBinary() ([]byte, error) {
	flags := bit(d.Ordered, bitOrdered) | bit(d.Baseline, bitBaseline) | bit(d.Boolean, bitBoolean) |
		bit(d.Previous, bitPrevious) | bit(d.sameVars(), bitSameVars)
	out := []byte{binaryVersion, flags}
	out = appendText(out, []byte(d.Form))
	out = appendText(out, []byte(d.OldHash))
	out = appendText(out, []byte(d.NewHash))
	out = binary.AppendUvarint(out, uint64(d.OldLen))
	out = binary.AppendUvarint(out, uint64(d.NewLen))
	out = appendTexts(out, d.Vars)
	if !d.sameVars() {
		out = appendTexts(out, d.OldVars)
	}
	out = appendTexts(out, d.Added)
	out = appendTexts(out, d.Removed)
	if d.Ordered {
		if len(d.AddedAt) != len(d.Added) || len(d.RemovedAt) != len(d.Removed) {
			return nil, mismatch("indices and rows differ in number")
		}
		out = appendIndices(out, d.AddedAt)
		out = appendIndices(out, d.RemovedAt)
	}
	return out, nil
}

func appendText[T string | []byte](out []byte, s T) []byte {
	return append(binary.AppendUvarint(out, uint64(len(s))), s...)
}

func appendTexts[T string | []byte](out []byte, list []T) []byte {
	out = binary.AppendUvarint(out, uint64(len(list)))
	for _, s := range list {
		out = appendText(out, s)
	}
	return out
}

func appendIndices(out []byte, at []int) []byte {
	last := 0
	for _, i := range at {
		out = binary.AppendUvarint(out, uint64(i-last))
		last = i
	}
	return out
}

// UnmarshalBinary reads what MarshalBinary wrote; anything else is
// ErrMalformed. The rows share data's memory, which must not change any more.
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

// A reader takes values off the front of b.
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
	if n > len(r.b) { // each takes a byte at least
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
