package store

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"
)

// Values that are written with each execution or change consist of varints,
// length-prefixed texts and eight-byte floats after a version byte. All others are
// JSON.

func putText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// putTime writes nanoseconds since 1970, or a single mark for the zero time. Times
// outside of the years 1678 to 2262 do not occur.
func putTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(b, math.MinInt64)
	}
	return binary.AppendVarint(b, t.UnixNano())
}

func putFloat(b []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(f))
}

const hashPrefix = "sha256:"

// putHash halves the size of a hash: it writes a mark and 32 bytes. Any other text
// follows a zero byte.
func putHash(b []byte, s string) []byte {
	digits, ok := strings.CutPrefix(s, hashPrefix)
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != 32 || hex.EncodeToString(sum) != digits {
		return putText(append(b, 0), s)
	}
	return append(append(b, 1), sum...)
}

// A scan reads values from the front of b. It copies all returned values.
type scan struct {
	b   []byte
	bad bool
}

func (s *scan) fail() {
	s.b, s.bad = nil, true
}

func (s *scan) byte() byte {
	if len(s.b) == 0 {
		s.fail()
		return 0
	}
	v := s.b[0]
	s.b = s.b[1:]
	return v
}

func (s *scan) number() uint64 {
	v, n := binary.Uvarint(s.b)
	if n <= 0 {
		s.fail()
		return 0
	}
	s.b = s.b[n:]
	return v
}

func (s *scan) signed() int64 {
	v, n := binary.Varint(s.b)
	if n <= 0 {
		s.fail()
		return 0
	}
	s.b = s.b[n:]
	return v
}

func (s *scan) fixed() uint64 {
	if len(s.b) < 8 {
		s.fail()
		return 0
	}
	v := binary.BigEndian.Uint64(s.b)
	s.b = s.b[8:]
	return v
}

func (s *scan) float() float64 { return math.Float64frombits(s.fixed()) }

func (s *scan) text() string {
	n := s.number()
	if n > uint64(len(s.b)) {
		s.fail()
		return ""
	}
	v := string(s.b[:n])
	s.b = s.b[n:]
	return v
}

func (s *scan) hash() string {
	if s.byte() == 0 {
		return s.text()
	}
	if len(s.b) < 32 {
		s.fail()
		return ""
	}
	v := hashPrefix + hex.EncodeToString(s.b[:32])
	s.b = s.b[32:]
	return v
}

func (s *scan) time() time.Time {
	n := s.signed()
	if n == math.MinInt64 || s.bad {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// count reads a number of items of at least one byte each.
func (s *scan) count() int {
	n := s.number()
	if n > uint64(len(s.b)) {
		s.fail()
		return 0
	}
	return int(n)
}

func (s *scan) end(what string) error {
	if s.bad || len(s.b) > 0 {
		return fmt.Errorf("%w: %s cannot be read", ErrDamaged, what)
	}
	return nil
}
