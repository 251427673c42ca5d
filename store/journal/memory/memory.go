// Package memory implements journals in memory, for tests. A Log takes the place of the engine;
// each node has a Journal on it. A Log outlives its journals, as an engine outlives its clients.
package memory

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/internal/engine"
)

// A Log is the log that the journals of several nodes share.
type Log struct {
	name string

	mu      sync.Mutex
	first   uint64 // number of entries[0]
	entries []stored
	ids     map[string]uint64
	changed chan struct{} // closed and replaced when entries change
}

// A stored is an entry with its time, and the bytes of all commands up to it.
type stored struct {
	journal.Entry
	at    time.Time
	total int64
}

// New returns an empty log.
func New(name string) *Log {
	return &Log{name: name, first: 1, ids: map[string]uint64{}, changed: make(chan struct{})}
}

// Open returns a journal of one node.
func (l *Log) Open() *Journal { return l.open(0) }

func (l *Log) open(inFlight int64) *Journal {
	j := &Journal{log: l}
	j.writer = engine.NewWriter(j.commit, inFlight)
	j.ctx, j.stop = context.WithCancel(context.Background())
	return j
}

// head returns the last position. The caller holds mu.
func (l *Log) head() journal.Position {
	if n := len(l.entries); n > 0 {
		return l.entries[n-1].Position
	}
	return journal.Genesis(l.name)
}

// A Journal is the journal of one node. It implements journal.Journal.
type Journal struct {
	log    *Log
	writer *engine.Writer
	ctx    context.Context
	stop   context.CancelFunc
	mark   engine.Watermark
}

var _ journal.Journal = (*Journal)(nil)

// Append implements journal.Journal.
func (j *Journal) Append(ctx context.Context, id string, cmd []byte) (uint64, error) {
	return j.writer.Append(ctx, id, cmd)
}

func (j *Journal) commit(_ context.Context, items []engine.Item) ([]uint64, error) {
	l := j.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := engine.Continues(j.mark.Position(), l.head()); err != nil {
		return nil, err
	}
	seqs := make([]uint64, len(items))
	for i, it := range items {
		if l.ids[it.ID] == 0 {
			l.add(l.head().Next(it.ID, bytes.Clone(it.Command)))
		}
		seqs[i] = l.ids[it.ID]
	}
	j.mark.Raise(l.head())
	return seqs, nil
}

// add stores an entry. The caller holds mu.
func (l *Log) add(e journal.Entry) {
	s := stored{Entry: e, at: time.Now(), total: int64(len(e.Command))}
	if n := len(l.entries); n > 0 {
		s.total += l.entries[n-1].total
	}
	l.entries = append(l.entries, s)
	l.ids[e.ID] = e.Seq
	close(l.changed)
	l.changed = make(chan struct{})
}

// Head implements journal.Journal.
func (j *Journal) Head(ctx context.Context) (journal.Position, error) {
	if j.ctx.Err() != nil {
		return journal.Position{}, journal.ErrClosed
	}
	j.log.mu.Lock()
	defer j.log.mu.Unlock()
	return j.log.head(), ctx.Err()
}

// Read implements journal.Journal.
func (j *Journal) Read(ctx context.Context, after journal.Position, f func(journal.Entry) error) error {
	return engine.Reader{Name: j.log.name, Mark: &j.mark, Closed: j.ctx}.Read(ctx, source{j}, after, f)
}

// Old implements journal.Journal.
func (j *Journal) Old(_ context.Context, age time.Duration, limit int64) (uint64, error) {
	l := j.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 {
		return 0, nil
	}
	now, total := time.Now(), l.entries[len(l.entries)-1].total
	young, err := engine.Search(l.first, l.first+uint64(len(l.entries)), func(seq uint64) (bool, error) {
		e := l.entries[seq-l.first]
		return !(age > 0 && now.Sub(e.at) > age || limit > 0 && total-e.total > limit), nil
	})
	if young == l.first {
		return 0, err
	}
	return young - 1, err
}

// Drop implements journal.Journal.
func (j *Journal) Drop(_ context.Context, upTo uint64) error {
	l := j.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.entries) > 1 && l.first <= upTo {
		delete(l.ids, l.entries[0].ID)
		l.entries = l.entries[1:]
		l.first++
	}
	return nil
}

// Close implements journal.Journal.
func (j *Journal) Close() error {
	j.stop()
	j.writer.Close()
	return nil
}

// A source reads the log for Read.
type source struct{ *Journal }

func (s source) Span(context.Context, uint64) (uint64, journal.Position, error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.first, s.log.head(), nil
}

// mostEntries is the size of a page.
const mostEntries = 64

func (s source) Page(_ context.Context, after uint64) (page []journal.Entry, err error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for i := max(after+1, s.log.first) - s.log.first; i < uint64(len(s.log.entries)) && len(page) < mostEntries; i++ {
		e := s.log.entries[i].Entry
		e.Command = bytes.Clone(e.Command)
		page = append(page, e)
	}
	return page, nil
}

func (s source) Wait(ctx context.Context, after uint64) (journal.Position, error) {
	s.log.mu.Lock()
	head, changed := s.log.head(), s.log.changed
	s.log.mu.Unlock()
	if head.Seq != after {
		return head, nil
	}
	select {
	case <-changed:
	case <-ctx.Done():
	}
	return journal.Position{}, ctx.Err()
}
