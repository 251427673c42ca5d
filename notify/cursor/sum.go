package cursor

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// ErrTooLarge says that a net change grew above what is sent as one: its
// receiver is better served with the result.
var ErrTooLarge = errors.New("net change too large")

// Sum adds up the changes of a query from a position to another into one exact
// net change, whose Delta is nil when they cancel out. until.Seq 0 means the
// newest. A sum above limit bytes (0: no limit) is ErrTooLarge. count is how many
// were added up. Errors of the log are returned as they are. ctx ends the work.
func Sum(ctx context.Context, r *Reader, query string, from, until registry.Position, limit int64) (net registry.Change, count int, err error) {
	s := summation{last: registry.Change{Query: query, Epoch: from.Epoch, Seq: from.Seq}, limit: limit}
	if err := s.readOn(ctx, r, query, until.Seq); err != nil {
		return net, 0, err
	}
	if until.Seq > 0 && s.last.Seq != until.Seq {
		return net, 0, fmt.Errorf("net change of %s: %w", query, &registry.GapError{Reason: registry.Ahead})
	}
	return s.change(from), s.count, nil
}

// DeltaSize is about what the rows of a delta take on the wire, in bytes.
func DeltaSize(d *diff.Delta) int64 {
	return rowsSize(d.Added) + rowsSize(d.Removed) + 8*int64(len(d.AddedAt)+len(d.RemovedAt))
}

func rowsSize(rows diff.Rows) (n int64) {
	for _, r := range rows {
		n += int64(len(r)) + 1
	}
	return n
}

// A summation adds up changes into one exact net change.
type summation struct {
	limit int64           // bytes of the sum; 0: none
	last  registry.Change // what the sum ends at, without its rows
	steps diff.Chain
	net   *diff.Delta // after end; nil when everything cancelled out
	count int
}

// add takes more changes.
func (s *summation) add(page []registry.Change) error {
	for i := range page {
		part, err := s.steps.Add(page[i].Delta)
		if err != nil {
			return err
		}
		s.last = page[i]
		s.count++
		if s.tooLarge(part) {
			return ErrTooLarge
		}
	}
	s.last.Delta = nil
	return nil
}

func (s *summation) tooLarge(d *diff.Delta) bool {
	return s.limit > 0 && d != nil && DeltaSize(d) > s.limit
}

// end adds everything up.
func (s *summation) end() (err error) {
	if s.net, err = s.steps.Sum(); err != nil {
		return err
	}
	if s.steps = (diff.Chain{}); s.tooLarge(s.net) {
		return ErrTooLarge
	}
	return nil
}

// readOn adds what the log has up to a position (until 0: all of it), page by
// page, and ends.
func (s *summation) readOn(ctx context.Context, r *Reader, query string, until uint64) error {
	for pages := 0; until == 0 || s.last.Seq < until; pages++ {
		if pages == 1 && r.Long != nil {
			defer r.Long(ctx)()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		n := PageSize
		if until > 0 {
			n = int(min(PageSize, until-s.last.Seq))
		}
		page, err := r.Log.After(query, s.last.Position(), n)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		if err := s.add(page); err != nil {
			return err
		}
	}
	return s.end()
}

// change is the sum as one change that follows from.
func (s *summation) change(from registry.Position) registry.Change {
	c := s.last
	c.Prev, c.Delta = from.Seq, s.net
	c.Baseline = s.net != nil && s.net.Baseline
	return c
}

// unsendable reports whether a net change cannot be sent as one.
func unsendable(err error) bool {
	return errors.Is(err, ErrTooLarge) || errors.Is(err, diff.ErrMismatch)
}
