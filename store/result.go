package store

// This file writes results in the form in which they are stored, and reads them.

import (
	"fmt"

	"github.com/freshet/freshet/diff"
)

const resultVersion = 1

// packResult encodes a result before the transaction begins; an error of stop aborts
// it.
func (p *packer) packResult(stop func() error, r *diff.Result) ([]byte, error) {
	ordered := byte(0)
	if r.Ordered() {
		ordered = 1
	}
	b := []byte{resultVersion, ordered}
	b = putText(b, string(r.Form()))
	b = putText(b, r.Hash())
	return p.pack(b, stop, r)
}

// resultHash returns the hash of a stored result, "" if there is none.
func resultHash(v []byte) string {
	if len(v) < 2 {
		return ""
	}
	in := scan{b: v[2:]}
	_, hash := in.text(), in.text()
	return hash
}

// resultWeight is the cost of reading a stored result, in bytes.
func resultWeight(v []byte) uint64 {
	in := scan{b: v[min(2, len(v)):]}
	_, _ = in.text(), in.text()
	return changeWeight + uint64(unpackedSize(in.b))
}

// unpackResult decodes the output of packResult.
func (p *packer) unpackResult(v []byte) (*diff.Result, error) {
	in := scan{b: v}
	if in.byte() != resultVersion {
		in.fail()
	}
	ordered := in.byte() == 1
	form, _ := diff.Form(in.text()), in.text()
	if in.bad {
		return nil, fmt.Errorf("%w: its head cannot be read", ErrDamaged)
	}
	document, err := p.unpack(in.b)
	if err != nil {
		return nil, err
	}
	r, err := diff.Decode(document, form, ordered)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return r, nil
}
