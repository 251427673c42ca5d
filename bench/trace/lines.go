package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"
)

// A trace file is JSON lines, each compressed with zstd on its own: a Header, then a
// Frame for each revision from t0 on, the last of which is marked as the end. So it can be
// written during a recording, and its whole part is known after a crash.
const formatVersion = 2

// magic begins everything that zstd has compressed.
const magic = "\x28\xb5\x2f\xfd"

// A Header begins a trace file.
type Header struct {
	Version  int     `json:"freshet_trace"`
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
	Times    []int32      `json:"exec_ms,omitempty"` // missing if all are as in the revision before
	Versions []NewVersion `json:"versions,omitempty"`
	Gaps     []Gap        `json:"gaps,omitempty"`
	End      bool         `json:"end,omitempty"` // no revision: the trace is complete
}

// A NewVersion is a version that begins in a frame.
type NewVersion struct {
	Query int     `json:"id"`
	Rows  []int64 `json:"rows"`
}

// A Writer writes a trace file, one frame at a time.
type Writer struct {
	w    io.Writer
	z    *zstd.Encoder
	prev []int32
	rev  int
}

// NewWriter writes the header and returns a writer of frames.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	c := &Writer{w: w, z: z, prev: make([]int32, h.Queries)}
	h.Version = formatVersion
	return c, c.line(h)
}

func (c *Writer) line(v any) error {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = c.w.Write(c.z.EncodeAll(append(text, '\n'), nil))
	return err
}

// Write writes the next revision by one call of the underlying writer.
func (c *Writer) Write(f Frame) error {
	if len(f.Times) != len(c.prev) {
		return wrong(fmt.Sprintf("revision %d", c.rev), "%d times for %d queries", len(f.Times), len(c.prev))
	}
	was := c.prev
	c.prev = f.Times
	if c.rev++; c.rev > 1 && slices.Equal(was, f.Times) {
		f.Times = nil
	}
	return c.line(f)
}

// Close marks the end. It does not close the underlying writer.
func (c *Writer) Close() error { return c.line(Frame{End: true}) }

// errCutOff says that a trace file ends in the middle.
var errCutOff = errors.New("the file is cut off: its recording was not finished")

// A frameReader reads a trace file.
type frameReader struct {
	r    *bufio.Reader
	head Header
	prev []int32
	rev  int
}

func newFrameReader(r io.Reader) (*frameReader, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	c := &frameReader{r: bufio.NewReaderSize(z, 1<<20)}
	if err := c.line(&c.head); err != nil {
		return nil, err
	}
	if c.head.Version != formatVersion {
		return nil, wrong("first line", "version %d is not known, only %d", c.head.Version, formatVersion)
	}
	if c.head.Queries < 0 || c.head.Queries > math.MaxInt32 {
		return nil, wrong("first line", "%d queries are not a count", c.head.Queries)
	}
	c.prev = make([]int32, c.head.Queries)
	return c, nil
}

// line reads the next line.
func (c *frameReader) line(to any) error {
	place := fmt.Sprintf("line of revision %d", c.rev)
	text, err := c.r.ReadBytes('\n')
	switch {
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %s: %w", ErrInvalid, place, errCutOff)
	case err != nil:
		return wrong(place, "it is damaged: %v", err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return wrong(place, "%v", err)
	}
	return nil
}

// next reads the next revision. It returns io.EOF after the last one.
func (c *frameReader) next() (f Frame, err error) {
	if err := c.line(&f); err != nil {
		return f, err
	}
	if f.End {
		return f, io.EOF
	}
	if f.Times == nil && c.rev > 0 {
		f.Times = c.prev
	}
	if len(f.Times) != c.head.Queries {
		return f, wrong(fmt.Sprintf("line of revision %d", c.rev), "%d times for %d queries", len(f.Times), c.head.Queries)
	}
	for _, v := range f.Versions {
		if v.Query < 0 || v.Query >= c.head.Queries {
			return f, wrong(fmt.Sprintf("line of revision %d", c.rev), "id %d: the queries are 0 to %d", v.Query, c.head.Queries-1)
		}
	}
	c.prev = f.Times
	c.rev++
	return f, nil
}

// readFrames reads a trace file.
func readFrames(r io.Reader) (*Trace, error) {
	c, err := newFrameReader(r)
	if err != nil {
		return nil, err
	}
	h := c.head
	t := &Trace{Queries: h.Queries, Revisions: -1, Ordered: h.Ordered, Features: h.Features, Templates: h.Templates, MergeCost: h.MergeCost}
	series := map[int]int{} // query → index in t.Series
	for f, err := c.next(); err != io.EOF; f, err = c.next() {
		if err != nil {
			return nil, err
		}
		t.add(f, series)
	}
	if t.Revisions < 0 {
		return nil, wrong("trace", "not even t0 is there")
	}
	return t, t.Seal()
}

// add adds the next revision.
func (t *Trace) add(f Frame, series map[int]int) {
	t.Revisions++
	t.Times = append(t.Times, f.Times)
	for _, v := range f.Versions {
		i, known := series[v.Query]
		if !known {
			series[v.Query] = len(t.Series)
			// The first complete answer replaces the incomplete ones before it: it is
			// not known to be a change.
			t.Series = append(t.Series, Series{Query: v.Query, Versions: []Version{{Rows: v.Rows}}})
			continue
		}
		t.Series[i].Versions = append(t.Series[i].Versions, Version{Rev: t.Revisions, Rows: v.Rows})
	}
	t.Gaps = append(t.Gaps, f.Gaps...)
}

// Write writes a trace file.
func (t *Trace) Write(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<20)
	c, err := NewWriter(b, Header{Queries: t.Queries, Ordered: t.Ordered, Features: t.Features, Templates: t.Templates,
		MergeCost: t.MergeCost})
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
	return errors.Join(c.Close(), b.Flush())
}

// Load reads a trace from a file in either format.
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

// Read reads a trace in either format. It tells the formats apart by their first bytes.
func Read(r io.Reader) (*Trace, error) {
	b := bufio.NewReaderSize(r, 1<<20)
	if first, _ := b.Peek(len(magic)); bytes.Equal(first, []byte(magic)) {
		return readFrames(b)
	}
	return ReadJSON(b)
}
