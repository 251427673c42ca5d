package cursor

import (
	"context"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A Log is the committed history of all queries. Methods may be called
// concurrently; what they return is the caller's.
type Log interface {
	// After returns the changes of one query that follow p, oldest first, at
	// most limit of them and a few MiB, and none when p is the newest. The error
	// is a *registry.GapError when the log does not continue from p, and wraps
	// registry.ErrNotFound when no one holds the query (any more).
	After(query string, p registry.Position, limit int) ([]registry.Change, error)

	// All returns the changes of all queries that follow o, oldest first, at
	// most limit of them, and a *registry.GapError when o's epoch is another or
	// the log has been trimmed beyond it. A zero Offset means the oldest change
	// kept.
	All(o registry.Offset, limit int) ([]registry.Change, error)

	// Current returns a query's status and, when withResult is true, its last
	// complete result (nil before the first), both of one moment.
	Current(query string, withResult bool) (registry.Status, *diff.Result, error)
}

// PageSize is how many changes are read from the log at once. A page is the
// most that a cursor holds in memory; the log bounds its bytes.
const PageSize = 64

// A Reader reads the log for cursors. Only Log is needed.
type Reader struct {
	Log Log
	// Head returns the offset of the newest change of all. MultiCursor needs it.
	Head func() (registry.Offset, error)
	// Share returns what read returns, read once for all cursors that go from the
	// same position to the same newest one. An empty query means all queries. Pages
	// are then shared: no one may write to them.
	Share func(query string, from, newest registry.Position, read func() ([]registry.Change, error)) ([]registry.Change, error)
	// Long is called before more than a page is added up. It may wait until there
	// is processor time for that, or until ctx ends.
	Long func(ctx context.Context) (leave func())
}

// page returns at most limit changes that follow from.
func (r *Reader) page(query string, from, newest registry.Position, limit int) ([]registry.Change, error) {
	read := func() ([]registry.Change, error) {
		if query == "" {
			return r.Log.All(from, limit)
		}
		return r.Log.After(query, from, limit)
	}
	if r.Share == nil || from.Epoch != newest.Epoch || from.Seq >= newest.Seq {
		return read() // a gap, or newest is older than what the reader has seen
	}
	return r.Share(query, from, newest, read)
}
