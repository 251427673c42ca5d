package trace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// A Recording executes all queries in every revision of an endpoint's dataset and
// writes the trace. Each revision is durable in a file beside the trace before the
// next one begins. After a crash, Run continues after the last complete revision, so
// that none is repeated or lost.
type Recording struct {
	Path    string // of the trace; the unfinished one is Path + ".part"
	Queries []registry.Query
	Ask     scheduler.Executor
	// Base brings the dataset to t0, whatever it was before. A recording that continues
	// runs Base and all finished steps again, but asks nothing about them.
	Base    func(context.Context) error
	Steps   []Step
	Timeout time.Duration // of one execution; 0 = a minute
	// About is stored in the file. A recording continues only if it is the same.
	About map[string]string
	// Progress, unless nil, is called after each revision, t0 included.
	Progress func(done, of int)
}

// A Step leads from one revision to the next.
type Step struct {
	Name string
	// Apply changes the dataset. nil means that nothing changed: no
	// query is executed, and all times stay as they were.
	Apply func(context.Context) error
}

// ErrRecorded means that the trace exists already.
var ErrRecorded = errors.New("the trace has been recorded already")

// Run records the missing steps and writes the trace.
func (c Recording) Run(ctx context.Context) (err error) {
	if _, err := os.Stat(c.Path); err == nil {
		return fmt.Errorf("%s: %w", c.Path, ErrRecorded)
	}
	s, err := c.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.file.Close()) }()
	if err := c.play(ctx, s); err != nil {
		return err
	}
	if err := s.w.Close(); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	return rename(c.Path+".part", c.Path)
}

// rename also makes the directory entry durable.
func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// play goes through the revisions. It does not ask again for revisions in the file.
func (c Recording) play(ctx context.Context, s *unfinished) error {
	done := s.w.rev
	if err := c.Base(ctx); err != nil {
		return fmt.Errorf("bring the dataset to its base: %w", err)
	}
	c.progress(done)
	for rev := 0; rev <= len(c.Steps); rev++ {
		asks := rev == 0
		if rev > 0 && c.Steps[rev-1].Apply != nil {
			asks = true
			if err := c.Steps[rev-1].Apply(ctx); err != nil {
				return fmt.Errorf("%s: %w", c.Steps[rev-1].Name, err)
			}
		}
		if rev < done {
			continue
		}
		f := Frame{Times: s.w.prev}
		if asks {
			var err error
			if f, err = c.ask(ctx, s, rev); err != nil {
				return err
			}
		}
		if err := s.write(f, asks); err != nil {
			return err
		}
		c.progress(rev + 1)
	}
	return nil
}

func (c Recording) progress(done int) {
	if c.Progress != nil {
		c.Progress(done, len(c.Steps)+1)
	}
}

// ask executes all queries in one revision. Incomplete answers become gaps, never
// versions.
func (c Recording) ask(ctx context.Context, s *unfinished, rev int) (Frame, error) {
	f := Frame{Times: make([]int32, len(c.Queries))}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	for i := range c.Queries {
		if err := c.waitForHealth(ctx); err != nil {
			return f, err
		}
		a := c.Ask.Execute(ctx, &c.Queries[i], s.memory[i], timeout)
		if ctx.Err() != nil {
			return f, ctx.Err() // a revision is complete or not there
		}
		f.Times[i] = int32(min(max(1, a.Elapsed.Round(time.Millisecond).Milliseconds()), math.MaxInt32))
		if !a.Outcome.Complete() {
			f.Gaps = append(f.Gaps, Gap{Rev: rev, Query: i, Outcome: string(a.Outcome), Error: a.Error})
			continue
		}
		s.memory[i] = a.Memory
		if a.Result == nil {
			continue // same bytes as the last answer
		}
		if rows := RowIDs(a.Result); !s.known[i] || !slices.Equal(rows, s.rows[i]) {
			s.known[i], s.rows[i] = true, rows
			f.Versions = append(f.Versions, NewVersion{Query: i, Rows: rows})
		}
	}
	return f, nil
}

// waitForHealth waits until the endpoint accepts requests.
func (c Recording) waitForHealth(ctx context.Context) error {
	for {
		h := c.Ask.Health()
		wait := time.Until(h.Until)
		if h.Until.IsZero() || wait <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// RowIDs returns an id for each row of a result: 53 bits of a hash, which every JSON
// reader keeps. The ids of an ordered result keep its order, others ascend. A boolean
// is one row, 1 or 0.
func RowIDs(r *diff.Result) []int64 {
	if r.Form() == diff.Ask {
		if r.Boolean() {
			return []int64{1}
		}
		return []int64{0}
	}
	out := make([]int64, r.Len())
	for i := range out {
		out[i] = int64(xxh3.Hash(r.Row(i)) >> 11)
	}
	if !r.Ordered() {
		slices.Sort(out)
	}
	return out
}

// An unfinished recording has its file open.
type unfinished struct {
	file   *os.File
	w      *Writer
	rows   [][]int64 // the last version of each query
	known  []bool
	memory []scheduler.Memory
}

func (s *unfinished) write(f Frame, durable bool) error {
	if err := s.w.Write(f); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	if !durable { // a repetition would be the same
		return nil
	}
	return s.file.Sync()
}

// head returns the header. The trace is ordered because some results are; the rows of
// other results are sorted, so that equal bags are equal lists.
func (c Recording) head() Header {
	return Header{Queries: len(c.Queries), Ordered: true, Features: sharedConstants(c.Queries), Templates: templates(c.Queries),
		About: c.about()}
}

func (c Recording) about() map[string]string {
	h := xxh3.New()
	for _, q := range c.Queries {
		fmt.Fprintf(h, "%s\x00%s\x00", q.ID, q.Text)
	}
	queries := h.Sum64()
	h.Reset()
	for _, s := range c.Steps {
		fmt.Fprintf(h, "%s\x00%t\x00", s.Name, s.Apply != nil)
	}
	out := map[string]string{"queries": fmt.Sprintf("%016x", queries), "revisions": fmt.Sprintf("%d:%016x", len(c.Steps), h.Sum64())}
	for k, v := range c.About {
		out[k] = v
	}
	return out
}

// open begins a recording or continues an unfinished one.
func (c Recording) open() (*unfinished, error) {
	path := c.Path + ".part"
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c.create(path)
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := c.resume(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func (c Recording) create(path string) (*unfinished, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	s := c.session(f)
	if s.w, err = NewWriter(f, c.head()); err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

func (c Recording) session(f *os.File) *unfinished {
	n := len(c.Queries)
	return &unfinished{file: f, rows: make([][]int64, n), known: make([]bool, n), memory: make([]scheduler.Memory, n)}
}

// resume reads the whole lines of a file and writes them again, up to what a crash has left
// incomplete or damaged.
func (c Recording) resume(f *os.File) (*unfinished, error) {
	r, err := newFrameReader(f)
	if err != nil && !errors.Is(err, errCutOff) {
		return nil, err
	}
	var frames []Frame
	for err == nil {
		var frame Frame
		if frame, err = r.next(); err == nil {
			frames = append(frames, frame)
		}
	}
	if r != nil {
		want := c.about()
		for k, v := range r.head.About {
			if want[k] != v {
				return nil, fmt.Errorf("an unfinished recording of something else (%s) is there: finish it as it was begun, or remove the file", k)
			}
		}
	}
	return c.rewrite(frames)
}

// rewrite begins the file with revisions that have been recorded before.
func (c Recording) rewrite(frames []Frame) (*unfinished, error) {
	part, next := c.Path+".part", c.Path+".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s, err := c.create(next)
	if err != nil {
		return nil, err
	}
	for _, f := range frames {
		for _, v := range f.Versions {
			s.known[v.Query], s.rows[v.Query] = true, v.Rows
		}
		err = errors.Join(err, s.write(f, false))
	}
	if err = errors.Join(err, s.file.Sync()); err == nil {
		err = rename(next, part)
	}
	if err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}
