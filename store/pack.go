package store

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/klauspost/compress/zstd"
)

// A packer compresses values. EncodeAll and DecodeAll may be called
// concurrently: each draws on a pool of that many states.
type packer struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// largest is what one value may unpack to; it keeps a damaged file from taking
// all memory.
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

// Forms of a packed value: its size unpacked, as a varint, then the bytes as
// they are or compressed.
const (
	plain   = 0
	squeeze = 1
	// Compressing less than this saves nothing worth the time.
	smallest = 256
)

// pack appends raw to dst in the form that is shorter.
func (p *packer) pack(dst, raw []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(raw)))
	if len(raw) >= smallest {
		n := len(dst)
		dst = p.enc.EncodeAll(raw, append(dst, squeeze))
		if len(dst)-n <= len(raw) {
			return dst
		}
		dst = dst[:n]
	}
	return append(append(dst, plain), raw...)
}

// unpackedSize reads the size that a packed value will have.
func unpackedSize(b []byte) int {
	n, _ := binary.Uvarint(b)
	return int(min(n, largest))
}

// unpack gives what was packed, in memory of its own.
func (p *packer) unpack(b []byte) ([]byte, error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || n >= len(b) || size > largest {
		return nil, fmt.Errorf("%w: a value is cut short", ErrDamaged)
	}
	form, body := b[n], b[n+1:]
	var out []byte
	var err error
	switch form {
	case plain:
		out = append(make([]byte, 0, len(body)), body...)
	case squeeze:
		out, err = p.dec.DecodeAll(body, nil)
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
