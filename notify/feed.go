package notify

import (
	"context"
	"iter"
	"time"

	"github.com/freshet/freshet/registry"
)

// pageSize is how many changes are read from the log at once. A page is the
// most that a cursor holds in memory; the log bounds its bytes.
const pageSize = 64

// A Feed reads the log from a position on and goes on for as long as its reader
// wants: what was missed and what is yet to come are one sequence.
type Feed struct {
	Log Log
	Hub *Hub
	// Heartbeat is the longest silence; 0 means that a feed stays silent until
	// there is something new.
	Heartbeat time.Duration
}

// Query yields the changes of one query that follow p, in pages, oldest first.
// An empty page says that nothing came for the length of a heartbeat or that
// the query was woken without a change; the position stands. The sequence ends
// with ctx (silently) or with an error: a *registry.GapError when the log does
// not continue, registry.ErrNotFound (wrapped) when nobody holds the query.
func (f Feed) Query(ctx context.Context, query string, p registry.Position) iter.Seq2[[]registry.Change, error] {
	return func(yield func([]registry.Change, error) bool) {
		w := f.Hub.Follow(query) // before the first read, so that no commit slips between
		defer w.Close()
		f.loop(ctx, w, yield, func() ([]registry.Change, error) {
			page, err := f.Log.After(query, p, pageSize)
			if n := len(page); n > 0 {
				p = page[n-1].Position()
			}
			return page, err
		})
	}
}

// All yields the changes of all queries that follow o, in pages like Query.
func (f Feed) All(ctx context.Context, o registry.Offset) iter.Seq2[[]registry.Change, error] {
	return func(yield func([]registry.Change, error) bool) {
		w := f.Hub.FollowAll()
		defer w.Close()
		f.loop(ctx, w, yield, func() ([]registry.Change, error) {
			page, err := f.Log.All(o, pageSize)
			if n := len(page); n > 0 {
				o.Seq = page[n-1].Offset
			}
			return page, err
		})
	}
}

func (f Feed) loop(ctx context.Context, w *Follower, yield func([]registry.Change, error) bool, read func() ([]registry.Change, error)) {
	for ctx.Err() == nil {
		page, err := read()
		if err != nil {
			yield(nil, err)
			return
		}
		if len(page) == 0 && !f.wait(ctx, w) {
			return
		}
		if !yield(page, nil) {
			return
		}
	}
}

// wait returns false when ctx ended.
func (f Feed) wait(ctx context.Context, w *Follower) bool {
	var beat <-chan time.Time
	if f.Heartbeat > 0 {
		t := time.NewTimer(f.Heartbeat)
		defer t.Stop()
		beat = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-w.C():
	case <-beat:
	}
	return true
}
