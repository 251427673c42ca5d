package store

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// A packer compresses values. EncodeAll and DecodeAll are safe for concurrent use:
// they share a pool of states of that size.
type packer struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// largest is the maximum unpacked size of a value; it limits the memory that a damaged
// file can consume.
const largest = 1<<31 - 1

func newPacker() (*packer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(largest))
	if err != nil {
		return nil, err
	}
	return &packer{enc, dec}, nil
}

func (p *packer) close() {
	p.enc.Close()
	p.dec.Close()
}

// Forms of a packed value: its unpacked size as a varint, followed by the raw bytes or
// by one compressed frame per piece.
const (
	plain   = 0
	squeeze = 1
	// Compressing smaller values is not worth the time.
	smallest = 256
)

// atOnce is the amount compressed between two calls of stop: a few milliseconds of
// work.
const atOnce = 1 << 20

// pack appends the output of from to dst in the shorter form. It calls stop, unless
// nil, before each piece and returns its first error.
func (p *packer) pack(dst []byte, stop func() error, from io.WriterTo) ([]byte, error) {
	w := packing{enc: p.enc, stop: stop}
	if _, err := from.WriteTo(&w); err != nil {
		return nil, err
	}
	dst = binary.AppendUvarint(dst, uint64(w.size))
	if len(w.raw) == w.size {
		return append(append(dst, plain), w.raw...), nil
	}
	return append(append(dst, squeeze), w.frames...), nil
}

// A packing is a value while it is packed.
type packing struct {
	enc    *zstd.Encoder
	stop   func() error
	size   int
	frames []byte
	raw    []byte // the first piece, if compression does not shrink it
}

// Write compresses b, in pieces if it is long.
func (w *packing) Write(b []byte) (int, error) {
	for piece := range slices.Chunk(b, atOnce) {
		if w.stop != nil {
			if err := w.stop(); err != nil {
				return 0, err
			}
		}
		w.add(piece)
	}
	return len(b), nil
}

func (w *packing) add(piece []byte) {
	first := w.size == 0
	w.size += len(piece)
	if first && len(piece) < smallest {
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

// densest is the maximum number of bytes that one compressed byte can represent: a
// block of 128 KiB takes four bytes. toSpare is extra room that allows the last block
// to be decompressed fast.
const (
	densest = 1 << 15
	toSpare = 16
)

// unpackedSize returns the unpacked size of a packed value.
func unpackedSize(b []byte) int {
	n, _ := binary.Uvarint(b)
	return int(min(n, largest))
}

// unpack returns the unpacked value in newly allocated memory.
func (p *packer) unpack(b []byte) ([]byte, error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || n >= len(b) || size > largest {
		return nil, fmt.Errorf("%w: a value is cut short", ErrDamaged)
	}
	form, body := b[n], b[n+1:]
	if form == squeeze && size > uint64(len(body))*densest {
		return nil, fmt.Errorf("%w: %d bytes cannot unpack to %d", ErrDamaged, len(body), size)
	}
	var out []byte
	var err error
	switch form {
	case plain:
		out = append(make([]byte, 0, len(body)), body...)
	case squeeze:
		out, err = p.dec.DecodeAll(body, make([]byte, 0, size+toSpare))
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
