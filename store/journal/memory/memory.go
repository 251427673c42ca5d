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

const (
	poll        = time.Second // commits wake the readers, too
	mostEntries = 64          // of a page
)

// A Log is the log that the journals of several nodes share.
type Log struct {
	name string

	mu      sync.Mutex
	first   uint64 // number of entries[0]
	entries []stored
	ids     map[string]uint64
	nodes   []*engine.Node
}

// A stored is an entry with the bytes of all commands up to it.
type stored struct {
	journal.Entry
	total int64
}

// New returns an empty log.
func New(name string) *Log {
	return &Log{name: name, first: 1, ids: map[string]uint64{}}
}

// Open returns a journal of one node.
func (l *Log) Open() *Journal {
	j := &Journal{log: l}
	j.Node = engine.Engine{Name: l.name, Poll: poll, Commit: j.commit, Span: j.span, Page: j.page}.Open()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = append(l.nodes, j.Node)
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
	*engine.Node
	log *Log
}

var _ journal.Journal = (*Journal)(nil)

func (j *Journal) commit(_ context.Context, items []engine.Item) ([]uint64, error) {
	l := j.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := engine.Within(j.Mark.Position(), 0, l.head()); err != nil {
		return nil, err
	}
	seqs := make([]uint64, len(items))
	for i, it := range items {
		if l.ids[it.ID] == 0 {
			l.add(l.head().Next(it.ID, bytes.Clone(it.Command)))
		}
		seqs[i] = l.ids[it.ID]
	}
	j.Mark.Raise(l.head())
	for _, n := range l.nodes {
		n.Wake()
	}
	return seqs, nil
}

// add stores an entry. The caller holds mu.
func (l *Log) add(e journal.Entry) {
	s := stored{Entry: e, total: int64(len(e.Command))}
	if n := len(l.entries); n > 0 {
		s.total += l.entries[n-1].total
	}
	l.entries = append(l.entries, s)
	l.ids[e.ID] = e.Seq
}

func (j *Journal) Head(ctx context.Context) (journal.Position, error) {
	if err := j.Closed(); err != nil {
		return journal.Position{}, err
	}
	j.log.mu.Lock()
	defer j.log.mu.Unlock()
	return j.log.head(), ctx.Err()
}

func (j *Journal) Old(_ context.Context, limit int64) (uint64, error) {
	l := j.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 {
		return 0, nil
	}
	total := l.entries[len(l.entries)-1].total
	young, err := engine.Search(l.first, l.first+uint64(len(l.entries)), func(seq uint64) (bool, error) {
		return total-l.entries[seq-l.first].total <= limit, nil
	})
	if young == l.first {
		return 0, err
	}
	return young - 1, err
}

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

func (j *Journal) span(context.Context, uint64) (uint64, journal.Position, error) {
	j.log.mu.Lock()
	defer j.log.mu.Unlock()
	return j.log.first, j.log.head(), nil
}

func (j *Journal) page(_ context.Context, after uint64, _ bool) (page []journal.Entry, err error) {
	l := j.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := max(after+1, l.first) - l.first; i < uint64(len(l.entries)) && len(page) < mostEntries; i++ {
		e := l.entries[i].Entry
		e.Command = bytes.Clone(e.Command)
		page = append(page, e)
	}
	return page, nil
}
