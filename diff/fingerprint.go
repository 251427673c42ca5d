// This file computes fingerprints: keyed sums over the rows of a result, which do not
// depend on their order and need no sorting.

package diff

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// A Fingerprint is a fast 128-bit digest for use within one process. It is keyed with a
// secret that the process draws when it starts, so that results with the same fingerprint
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
			p.add(p.row(r.arrived(i)))
		}
		r.print = p.sum
	})
	return r.print
}

// secret keys the fingerprints of this process: a key of SHA-256 and two odd factors.
var secret = func() (s struct {
	sha      [sha256.Size]byte
	one, two uint64
}) {
	var b [16]byte
	_, _ = rand.Read(s.sha[:]) // never fails
	_, _ = rand.Read(b[:])
	s.one, s.two = binary.LittleEndian.Uint64(b[:8])|1, binary.LittleEndian.Uint64(b[8:])|1
	return s
}()

// A printer adds up the fingerprints of the rows of one result.
//
// A row is its values and the bytes around them, which many rows have in common. The
// keyed SHA-256 of those bytes is the state that the row begins with, and the values are
// multiplied into it in blocks of 16 bytes.
type printer struct {
	graph, ordered bool
	sum            Fingerprint
	rows           uint64
	states         map[string]state // by the bytes around the values, at most maxShapes
	around, line   []byte           // scratch space
	ends           []span           // of the values of a row
}

func newPrinter(r *Result) *printer {
	p := &printer{graph: r.form.Graph(), ordered: r.ordered, states: map[string]state{}}
	around := append(append(r.head(), 0), r.form...)
	if r.ordered {
		around = append(around, 1)
	}
	p.sum = begin(around).end(0, 0)
	return p
}

// add adds the fingerprint of the next row.
func (p *printer) add(f Fingerprint) {
	if p.ordered {
		f = f.mix(p.rows)
	}
	p.sum = p.sum.plus(f)
	p.rows++
}

// row returns the fingerprint of a canonical row. It is equal to that which the decoder
// computes while it writes the row.
func (p *printer) row(row []byte) Fingerprint {
	p.around, p.ends = p.around[:0], p.ends[:0]
	const value = `"value":"` // cannot occur inside a JSON string, where quotes are escaped
	at := 0
	for !p.graph {
		k := bytes.Index(row[at:], []byte(value))
		if k < 0 {
			break
		}
		from := at + k + len(value)
		to := stringEnd(row, from)
		if to < 0 || from < blockSize {
			break // not canonical
		}
		p.around = append(append(p.around, row[at:from]...), 0)
		p.ends = append(p.ends, span{from, to})
		at = to
	}
	if p.graph {
		// A triple is one value, after bytes that stand for those around it.
		p.line = append(append(p.line[:0], make([]byte, blockSize)...), row...)
		row, at = p.line, len(p.line)
		p.ends = append(p.ends, span{blockSize, at})
	}
	p.around = append(p.around, row[at:]...)
	s, known := p.states[string(p.around)]
	if !known {
		s = begin(p.around)
		if len(p.states) < maxShapes {
			p.states[string(p.around)] = s
		}
	}
	one, two := uint64(0), uint64(0)
	for _, v := range p.ends {
		n := v.to - v.from
		one, two = one*secret.one+uint64(n), two*secret.two+uint64(n)
		s = s.take(row[v.to-blocks(n) : v.to])
	}
	return s.end(one, two)
}

// A state has two lanes of 128 bits. Each lane multiplies its secret halves with the
// halves of a block. Two different blocks, chosen without knowledge of the secret, make a
// lane equal with a probability of about 2^-64, and both lanes with one of about 2^-128.
type state struct{ a0, a1, b0, b1 uint64 }

const blockSize = 16

// blocks is the length of a value of n bytes in whole blocks. The first block begins
// before the value if it must: the bytes there are the same in all rows that begin with the
// same state.
func blocks(n int) int { return (n + blockSize - 1) &^ (blockSize - 1) }

// begin returns the state of rows with these bytes around their values.
func begin(around []byte) state {
	h := sha256.New()
	h.Write(secret.sha[:])
	h.Write(around)
	var b [sha256.Size]byte
	h.Sum(b[:0])
	return state{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]),
		binary.LittleEndian.Uint64(b[24:])}
}

// take multiplies whole blocks into the state.
func (s state) take(b []byte) state {
	for ; len(b) >= blockSize; b = b[blockSize:] {
		s = s.times(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]))
	}
	return s
}

func (s state) times(x, y uint64) state {
	s.a1, s.a0 = bits.Mul64(x^s.a0, y^s.a1)
	s.b1, s.b0 = bits.Mul64(x^s.b0, y^s.b1)
	return s
}

// end returns the fingerprint of a row. one and two digest the lengths of its values.
func (s state) end(one, two uint64) Fingerprint {
	s = s.times(one, two)
	return Fingerprint{s.a1 ^ s.b0, s.a0 ^ s.b1}
}

func (a Fingerprint) plus(b Fingerprint) Fingerprint {
	lo, c := bits.Add64(a.Lo, b.Lo, 0)
	hi, _ := bits.Add64(a.Hi, b.Hi, c)
	return Fingerprint{hi, lo}
}

// mix includes a row's position.
func (a Fingerprint) mix(place uint64) Fingerprint {
	lo := fmix(a.Lo + (place+1)*secret.one)
	hi := fmix(a.Hi ^ lo)
	return Fingerprint{hi, lo + hi}
}

// fmix is a bijective finaliser: every bit of x affects every bit of the result.
func fmix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
