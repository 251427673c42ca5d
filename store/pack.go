package store

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/scheduler"
	"github.com/klauspost/compress/zstd"
)

// A packer compresses values. EncodeAll and DecodeAll are safe for concurrent use:
// they share a pool of states of that size.
type packer struct {
	enc *zstd.Encoder
	dec *zstd.Decoder

	most    int64     // size of what is packed, before and after
	writers sync.Pool // of *packWriter, whose buffers are as large as the last values
}

// maxUnpacked is the maximum unpacked size of a value; it limits the memory that a damaged
// file can consume.
const maxUnpacked = 1<<31 - 1

// maxPacked is the maximum size of a value that is packed, before and after. It leaves room below maxUnpacked and
// bbolt.MaxValueSize for what is stored with the value.
const maxPacked = maxUnpacked - 1<<20

// errTooLarge is the error of a value that could not be stored, or read back.
var errTooLarge = fmt.Errorf("%w: with what has changed it takes more than the store can hold: add a LIMIT to the query, or "+
	"divide it into several", scheduler.ErrTooLarge)

func newPacker() (*packer, error) {
	// The window comes first: without one, the level halves the blocks, and a piece is then
	// two blocks instead of one.
	enc, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<20),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxUnpacked))
	if err != nil {
		return nil, err
	}
	return &packer{enc: enc, dec: dec, most: maxPacked}, nil
}

func (p *packer) close() {
	p.enc.Close()
	p.dec.Close()
}

// Forms of a packed value: its unpacked size as a varint, followed by the raw bytes or
// by one compressed frame per piece.
const (
	formRaw  = 0
	formZstd = 1
	// Compressing smaller values is not worth the time.
	minCompressed = 256
)

// pieceSize is the amount compressed between two calls of stop: less than a millisecond of
// work. Larger pieces with their tables do not fit the cache of a processor: with 1 MiB,
// packing takes up to a quarter longer and the frames are no smaller.
const pieceSize = 1 << 17

// pack appends the output of from to dst in the shorter form. It calls stop, unless
// nil, before each piece and returns its first error. A value that is too large is errTooLarge.
func (p *packer) pack(dst []byte, stop func() error, from io.WriterTo) ([]byte, error) {
	w, ok := p.writers.Get().(*packWriter)
	if !ok {
		w = &packWriter{enc: p.enc}
	}
	defer p.writers.Put(w)
	w.most, w.stop, w.size, w.frames, w.raw = p.most, stop, 0, w.frames[:0], nil
	if _, err := from.WriteTo(w); err != nil {
		return nil, err
	}
	dst = binary.AppendUvarint(dst, uint64(w.size))
	if len(w.raw) == w.size {
		return append(append(dst, formRaw), w.raw...), nil
	}
	if int64(len(w.frames)) > p.most {
		return nil, errTooLarge
	}
	dst = slices.Grow(dst, 1+len(w.frames))
	return append(append(dst, formZstd), w.frames...), nil
}

// A packWriter is a value while it is packed.
type packWriter struct {
	enc    *zstd.Encoder
	most   int64
	stop   func() error
	size   int
	frames []byte
	raw    []byte // the first piece, if compression does not shrink it
}

// Write compresses b, in pieces if it is long.
func (w *packWriter) Write(b []byte) (int, error) {
	if int64(w.size)+int64(len(b)) > w.most {
		return 0, errTooLarge
	}
	for piece := range slices.Chunk(b, pieceSize) {
		if w.stop != nil {
			if err := w.stop(); err != nil {
				return 0, err
			}
		}
		w.add(piece)
	}
	return len(b), nil
}

func (w *packWriter) add(piece []byte) {
	first := w.size == 0
	w.size += len(piece)
	if first && len(piece) < minCompressed {
		w.raw = slices.Clone(piece)
		return
	}
	if len(w.frames) == 0 { // the first piece was small or empty
		w.frames = w.enc.EncodeAll(w.raw, w.frames)
	}
	w.frames = w.enc.EncodeAll(piece, w.frames)
	if first && len(w.frames) > len(piece) {
		w.raw = slices.Clone(piece)
	}
}

// maxRatio is the maximum number of bytes that one compressed byte can represent: a
// block of 128 KiB takes four bytes. spareRoom is extra room that allows the last block
// to be decompressed fast.
const (
	maxRatio  = 1 << 15
	spareRoom = 16
)

// unpackedSize returns the unpacked size of a packed value.
func unpackedSize(b []byte) int {
	n, _ := binary.Uvarint(b)
	return int(min(n, maxUnpacked))
}

// unpack returns the unpacked value in newly allocated memory.
func (p *packer) unpack(b []byte) ([]byte, error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || n >= len(b) || size > maxUnpacked {
		return nil, fmt.Errorf("%w: a value is cut short", ErrDamaged)
	}
	form, body := b[n], b[n+1:]
	if form == formZstd && size > uint64(len(body))*maxRatio {
		return nil, fmt.Errorf("%w: %d bytes cannot unpack to %d", ErrDamaged, len(body), size)
	}
	var out []byte
	var err error
	switch form {
	case formRaw:
		out = append(make([]byte, 0, len(body)), body...)
	case formZstd:
		out, err = p.dec.DecodeAll(body, make([]byte, 0, size+spareRoom))
	default:
		return nil, fmt.Errorf("%w: a value has the unknown form %d", ErrDamaged, form)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: a value does not unpack: %w", ErrDamaged, err)
	}
	if uint64(len(out)) != size {
		return nil, fmt.Errorf("%w: a value unpacks to %d bytes, not %d", ErrDamaged, len(out), size)
	}
	return out, nil
}

// The form in which results are stored.

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
