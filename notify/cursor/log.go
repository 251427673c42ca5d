package cursor

import (
	"context"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A Log is the committed history of all queries. Its methods may be called concurrently.
// The caller may modify what they return.
type Log interface {
	// After returns the changes of one query that follow p, oldest first: at most
	// limit changes and a few MiB, and none if p is the newest position. The error is
	// a *registry.GapError if the log does not continue from p. It wraps
	// registry.ErrNotFound if the query has no holder.
	After(query string, p registry.Position, limit int) ([]registry.Change, error)

	// All returns the changes of all queries that follow o, oldest first, at most
	// limit of them. The error is a *registry.GapError if o has another epoch or the
	// log was trimmed beyond it. A zero Offset means the oldest change that is kept.
	All(o registry.Offset, limit int) ([]registry.Change, error)

	// Current returns a query's status and, if withResult is true, its last complete
	// result at the same moment. The result is nil before the first execution.
	Current(query string, withResult bool) (registry.Status, *diff.Result, error)
}

// PageSize is the number of changes read from the log at once. A MultiCursor holds at most one
// page in memory; the log bounds its bytes.
const PageSize = 64

// A Reader reads the log for cursors. Only the field Log is required.
type Reader struct {
	Log Log
	// Head returns the offset of the newest change of all queries. MultiCursor needs it.
	Head func() (registry.Offset, error)
	// Share returns the result of read, which it calls once for all cursors with the
	// same positions from and newest. An empty query means all queries. The pages are
	// shared, so they must not be modified.
	Share func(query string, from, newest registry.Position, read func() ([]registry.Change, error)) ([]registry.Change, error)
	// Long is called before more than one page is added up. It may wait for processor
	// time, or until ctx ends.
	Long func(ctx context.Context) (leave func())
	// Memory is for cursors that are made again at each step.
	Memory *Memory
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
		return read() // a gap, or newest is older than the reader's position
	}
	return r.Share(query, from, newest, read)
}
