package live

import (
	"encoding/binary"
	"errors"
)

// errFrames reports that a client sends more frames than its rate allows.
var errFrames = errors.New("too many frames")

// frames finds the frames of RFC 6455 in what a client sends. It counts frames that
// cost the client almost nothing and carry no message: control frames and nearly
// empty continuations. The library shows neither.
type frames struct {
	header [14]byte
	have   int    // bytes of header
	skip   uint64 // bytes left of the payload
}

// littleContinuation is the payload in bytes below which a continuation counts.
const littleContinuation = 126

// count returns how many such frames begin in b.
func (f *frames) count(b []byte) (n int) {
	for len(b) > 0 {
		if f.skip > 0 {
			step := min(f.skip, uint64(len(b)))
			f.skip -= step
			b = b[step:]
			continue
		}
		f.header[f.have] = b[0]
		f.have++
		b = b[1:]
		if f.have < 2 || f.have < f.need() {
			continue
		}
		f.have, f.skip = 0, f.payload()
		if kind := f.header[0] & 0x0f; kind >= 8 || kind == 0 && f.skip < littleContinuation {
			n++
		}
	}
	return n
}

// need returns the length of the header according to its first two bytes.
func (f *frames) need() int {
	n := 2
	switch f.header[1] & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if f.header[1]&0x80 != 0 {
		n += 4
	}
	return n
}

func (f *frames) payload() uint64 {
	switch n := f.header[1] & 0x7f; n {
	case 126:
		return uint64(binary.BigEndian.Uint16(f.header[2:]))
	case 127:
		return binary.BigEndian.Uint64(f.header[2:])
	default:
		return uint64(n)
	}
}
