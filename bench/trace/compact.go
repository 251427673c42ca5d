package trace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
)

// The compact format is a line with its name and version, followed by frames. A frame
// is the length of its compressed data (uvarint), the data, and eight bytes of the
// data's xxh3. The first frame is the head, in JSON; one frame follows for each
// revision from t0 on. Its varints encode the difference between its times and those
// of the previous frame, the versions that begin, and the executions without a
// complete answer. The file can therefore be written during a recording, and its
// complete part is known after a crash. An empty frame closes the file.
const (
	compactName    = "freshet-trace"
	compactVersion = 1
)

// A Header begins a compact file.
type Header struct {
	Queries  int     `json:"queries"`
	Ordered  bool    `json:"ordered,omitempty"`
	Features [][]int `json:"features,omitempty"`
	// As in Trace.
	Templates []int     `json:"templates,omitempty"`
	MergeCost MergeCost `json:"merge_cost,omitzero"`
	// About holds notes of the writer, such as the recorded endpoint. Readers of the
	// trace ignore it.
	About map[string]string `json:"about,omitempty"`
}

// A Frame holds one revision: the times of all queries, the versions that begin in
// it, and the gaps. The frame of t0 has the versions of queries that may change.
type Frame struct {
	Times    []int32
	Versions []NewVersion
	Gaps     []Gap
}

// A NewVersion is a version that begins in a frame.
type NewVersion struct {
	Query int
	Rows  []int64
}

// A Writer writes the compact format, one frame at a time.
type Writer struct {
	w    io.Writer
	z    *zstd.Encoder
	head Header
	prev []int32
	rev  int
	buf  []byte
}

// NewWriter writes the header and returns a writer of frames.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	c := &Writer{w: w, z: z, head: h, prev: make([]int32, h.Queries)}
	if _, err := fmt.Fprintf(w, "%s %d\n", compactName, compactVersion); err != nil {
		return nil, err
	}
	text, err := json.Marshal(h, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return c, c.frame(text)
}

// resume returns a writer that appends after the data that has been read.
func resume(w io.Writer, h Header, prev []int32, rev int) (*Writer, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
	return &Writer{w: w, z: z, head: h, prev: prev, rev: rev}, err
}

func (c *Writer) frame(text []byte) error {
	var packed []byte
	if text != nil {
		packed = c.z.EncodeAll(text, nil)
	}
	out := binary.AppendUvarint(nil, uint64(len(packed)))
	out = append(out, packed...)
	out = binary.LittleEndian.AppendUint64(out, xxh3.Hash(packed))
	_, err := c.w.Write(out)
	return err
}

// Write writes the next revision by one call of the underlying writer.
func (c *Writer) Write(f Frame) error {
	if len(f.Times) != c.head.Queries {
		return wrong(fmt.Sprintf("revision %d", c.rev), "%d times for %d queries", len(f.Times), c.head.Queries)
	}
	b := c.buf[:0]
	for q, ms := range f.Times {
		b = binary.AppendVarint(b, int64(ms)-int64(c.prev[q]))
		c.prev[q] = ms
	}
	b = binary.AppendUvarint(b, uint64(len(f.Versions)))
	for _, v := range f.Versions {
		b = binary.AppendUvarint(b, uint64(v.Query))
		b = binary.AppendUvarint(b, uint64(len(v.Rows)))
		last := int64(0)
		for _, r := range v.Rows {
			b = binary.AppendVarint(b, r-last)
			last = r
		}
	}
	gaps, err := json.Marshal(f.Gaps)
	if err != nil {
		return err
	}
	if len(f.Gaps) > 0 {
		b = append(b, gaps...)
	}
	c.buf = b
	c.rev++
	return c.frame(b)
}

// Close writes the end mark. It does not close the underlying writer.
func (c *Writer) Close() error { return c.frame(nil) }

// errCutOff says that a compact file ends in the middle.
var errCutOff = errors.New("the file is cut off: its recording was not finished")

// A frameReader reads the compact format.
type frameReader struct {
	r    *bufio.Reader
	z    *zstd.Decoder
	head Header
	prev []int32
	rev  int
	at   int64 // bytes read up to the end of the last whole frame
}

func newFrameReader(r io.Reader) (*frameReader, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	c := &frameReader{r: bufio.NewReaderSize(r, 1<<20), z: z}
	line, err := c.r.ReadString('\n')
	if err == io.EOF && strings.HasPrefix(fmt.Sprintf("%s %d\n", compactName, compactVersion), line) {
		return nil, fmt.Errorf("%w: first line: %w", ErrInvalid, errCutOff)
	}
	var name string
	var version int
	if _, e := fmt.Sscanf(line, "%s %d", &name, &version); err != nil || e != nil || name != compactName {
		return nil, wrong("first line", "it does not begin with %q", compactName)
	}
	if version != compactVersion {
		return nil, wrong("first line", "version %d is not known, only %d", version, compactVersion)
	}
	c.at = int64(len(line))
	text, err := c.frame()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &c.head); err != nil || c.head.Queries < 0 || c.head.Queries > math.MaxInt32 {
		return nil, wrong("head", "it cannot be read: %v", err)
	}
	c.prev = make([]int32, c.head.Queries)
	return c, nil
}

// nothingFollows reports whether the file ends after the frame that was read.
func (c *frameReader) nothingFollows() bool {
	_, err := c.r.Peek(1)
	return err == io.EOF
}

const maxFrame = 1 << 31

// frame reads the next frame, nil at the end of the trace.
func (c *frameReader) frame() ([]byte, error) {
	place := fmt.Sprintf("frame of revision %d, byte %d", c.rev, c.at)
	n, err := binary.ReadUvarint(c.r)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, place, errCutOff)
	}
	if n > maxFrame {
		return nil, wrong(place, "%d bytes are too many", n)
	}
	packed, err := io.ReadAll(io.LimitReader(c.r, int64(n)+8))
	if err != nil {
		return nil, err
	}
	if len(packed) < int(n)+8 {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, place, errCutOff)
	}
	packed, sum := packed[:n], packed[n:]
	if binary.LittleEndian.Uint64(sum) != xxh3.Hash(packed) {
		return nil, wrong(place, "it is damaged")
	}
	c.at += int64(len(binary.AppendUvarint(nil, n))) + int64(n) + 8
	if n == 0 {
		return nil, nil
	}
	text, err := c.z.DecodeAll(packed, nil)
	if err != nil {
		return nil, wrong(place, "%v", err)
	}
	return text, nil
}

// next reads the next revision. It returns io.EOF after the last one.
func (c *frameReader) next() (Frame, error) {
	text, err := c.frame()
	if err != nil {
		return Frame{}, err
	}
	if text == nil {
		return Frame{}, io.EOF
	}
	f, err := c.parse(text)
	if err != nil {
		return Frame{}, err
	}
	c.rev++
	return f, nil
}

func (c *frameReader) parse(b []byte) (Frame, error) {
	bad := func() (Frame, error) {
		return Frame{}, wrong(fmt.Sprintf("frame of revision %d", c.rev), "it cannot be read")
	}
	f := Frame{Times: make([]int32, c.head.Queries)}
	for q := range f.Times {
		d, n := binary.Varint(b)
		v := int64(c.prev[q]) + d
		if n <= 0 || v < 0 || v > math.MaxInt32 {
			return bad()
		}
		b = b[n:]
		f.Times[q] = int32(v)
		c.prev[q] = int32(v)
	}
	ok := true
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	versions := number()
	for range versions {
		q, size := number(), number()
		if !ok || q >= uint64(c.head.Queries) || size > uint64(len(b)) {
			return bad()
		}
		v := NewVersion{Query: int(q), Rows: make([]int64, size)}
		last := int64(0)
		for i := range v.Rows {
			d, n := binary.Varint(b)
			if n <= 0 {
				return bad()
			}
			b = b[n:]
			last += d
			v.Rows[i] = last
		}
		f.Versions = append(f.Versions, v)
	}
	if !ok {
		return bad()
	}
	if len(b) > 0 {
		if err := json.Unmarshal(b, &f.Gaps); err != nil {
			return bad()
		}
	}
	return f, nil
}

// ReadCompact reads the compact format.
func ReadCompact(r io.Reader) (*Trace, error) {
	c, err := newFrameReader(r)
	if err != nil {
		return nil, err
	}
	b := newBuilder(c.head)
	for {
		f, err := c.next()
		if err == io.EOF {
			return b.trace()
		}
		if err != nil {
			return nil, err
		}
		b.add(f)
	}
}

// An builder makes a trace of frames.
type builder struct {
	t      *Trace
	series map[int]int // query → index in t.Series
}

func newBuilder(h Header) *builder {
	return &builder{t: &Trace{Queries: h.Queries, Revisions: -1, Ordered: h.Ordered, Features: h.Features, Templates: h.Templates, MergeCost: h.MergeCost}, series: map[int]int{}}
}

func (b *builder) add(f Frame) {
	t := b.t
	t.Revisions++
	t.Times = append(t.Times, f.Times)
	for _, v := range f.Versions {
		i, known := b.series[v.Query]
		if !known {
			i = len(t.Series)
			b.series[v.Query] = i
			t.Series = append(t.Series, Series{Query: v.Query})
			// The first complete answer replaces the incomplete ones before it: it is
			// not known to be a change.
			t.Series[i].Versions = []Version{{Rows: v.Rows}}
			continue
		}
		t.Series[i].Versions = append(t.Series[i].Versions, Version{Rev: t.Revisions, Rows: v.Rows})
	}
	t.Gaps = append(t.Gaps, f.Gaps...)
}

func (b *builder) trace() (*Trace, error) {
	if b.t.Revisions < 0 {
		return nil, wrong("trace", "not even t0 is there")
	}
	return b.t, b.t.Seal()
}

// WriteCompact writes the compact format.
func (t *Trace) WriteCompact(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<20)
	c, err := NewWriter(b, Header{Queries: t.Queries, Ordered: t.Ordered, Features: t.Features, Templates: t.Templates, MergeCost: t.MergeCost})
	if err != nil {
		return err
	}
	next := make([]int, len(t.Series))
	gaps := t.Gaps
	for rev, times := range t.Times {
		f := Frame{Times: times}
		for i, s := range t.Series {
			if k := next[i]; k < len(s.Versions) && s.Versions[k].Rev == rev {
				f.Versions = append(f.Versions, NewVersion{s.Query, s.Versions[k].Rows})
				next[i]++
			}
		}
		for len(gaps) > 0 && gaps[0].Rev == rev {
			f.Gaps, gaps = append(f.Gaps, gaps[0]), gaps[1:]
		}
		if err := c.Write(f); err != nil {
			return err
		}
	}
	if err := c.Close(); err != nil {
		return err
	}
	return b.Flush()
}

// Load reads a trace file of either format.
func Load(path string) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Read reads a trace of either format. It tells the formats apart by their first bytes.
func Read(r io.Reader) (*Trace, error) {
	b := bufio.NewReaderSize(r, 1<<20)
	if first, _ := b.Peek(len(compactName)); bytes.Equal(first, []byte(compactName)) {
		return ReadCompact(b)
	}
	return ReadJSON(b)
}
