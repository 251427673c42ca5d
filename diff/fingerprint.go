// This file computes fingerprints: keyed sums over the rows of a result, which do not
// depend on their order and need no sorting.

package diff

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// A Fingerprint is a fast 128-bit digest for use within one process. It is keyed with
// secrets that the process draws when it starts, so that results with the same fingerprint
// cannot be constructed. It must not be stored.
type Fingerprint struct{ Hi, Lo uint64 }

// Fingerprint digests the result without sorting it. It is the same for the same bag of
// rows, or for ordered results the same sequence. For a result that DecodeJSON returned it
// is usually known already.
func (r *Result) Fingerprint() Fingerprint {
	r.printing.Do(func() {
		if r.printed {
			return
		}
		p := newPrinter(r)
		for i := range r.rows {
			p.add(r.arrived(i))
		}
		r.print = p.sum
	})
	return r.print
}

// seeds key the two halves of the fingerprints of this process.
var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func fingerprintOf(b []byte) Fingerprint {
	return Fingerprint{maphash.Bytes(seeds[0], b), maphash.Bytes(seeds[1], b)}
}

// A printer adds up the fingerprints of the rows of one result.
type printer struct {
	ordered bool
	sum     Fingerprint
	rows    uint64
}

func newPrinter(r *Result) *printer {
	head := append(append(r.head(), 0), r.form...)
	if r.ordered {
		head = append(head, 1)
	}
	return &printer{ordered: r.ordered, sum: fingerprintOf(head)}
}

// add adds the next canonical row. In an ordered result its place counts.
func (p *printer) add(row []byte) {
	f := fingerprintOf(row)
	if p.ordered {
		var b [24]byte
		for i, n := range [...]uint64{f.Hi, f.Lo, p.rows} {
			binary.LittleEndian.PutUint64(b[8*i:], n)
		}
		f = fingerprintOf(b[:])
	}
	lo, carry := bits.Add64(p.sum.Lo, f.Lo, 0)
	hi, _ := bits.Add64(p.sum.Hi, f.Hi, carry)
	p.sum = Fingerprint{hi, lo}
	p.rows++
}
