package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"go.etcd.io/bbolt"
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

func putBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func putTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = putText(b, s)
	}
	return b
}

func putFloat(b []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(f))
}

func putFloats(b []byte, list []float64) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, f := range list {
		b = putFloat(b, f)
	}
	return b
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

// A scan reads values from the front of b. It copies what it returns, except bytes.
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
	return number(s.take(8))
}

func (s *scan) float() float64 { return math.Float64frombits(s.fixed()) }

func (s *scan) floats() (list []float64) {
	if n := s.count(); n > 0 {
		list = make([]float64, n)
	}
	for i := range list {
		list[i] = s.float()
	}
	return list
}

func (s *scan) bool() bool { return s.byte() != 0 }

// take returns the next n bytes without a copy.
func (s *scan) take(n uint64) []byte {
	if n > uint64(len(s.b)) {
		s.fail()
		return nil
	}
	v := s.b[:n:n]
	s.b = s.b[n:]
	return v
}

// bytes is text without a copy.
func (s *scan) bytes() []byte { return s.take(s.number()) }

func (s *scan) text() string { return string(s.bytes()) }

func (s *scan) texts() (list []string) {
	for range s.count() {
		list = append(list, s.text())
	}
	return list
}

func (s *scan) hash() string {
	if s.byte() == 0 {
		return s.text()
	}
	sum := s.take(32)
	if s.bad {
		return ""
	}
	return hashPrefix + hex.EncodeToString(sum)
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

// parseJSON decodes an entry. what names it in the error.
func parseJSON(v []byte, to any, what string) error {
	if err := json.Unmarshal(v, to); err != nil {
		return fmt.Errorf("%w: %s cannot be read: %w", ErrDamaged, what, err)
	}
	return nil
}

// getJSON decodes the entry of a key, and reports whether there is one.
func getJSON(b *bbolt.Bucket, key []byte, to any, what string) (found bool, err error) {
	v := b.Get(key)
	if v == nil {
		return false, nil
	}
	return true, parseJSON(v, to, what)
}

func putJSON(b *bbolt.Bucket, key []byte, v any) error {
	text, err := compactJSON(v)
	if err != nil {
		return err
	}
	return b.Put(key, text)
}

// compactJSON encodes texts of others as they are: json.Marshal takes six bytes for each < of an
// IRI.
func compactJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
