package cursor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// ErrTooLarge means that a net change is larger than what is sent as one change. The
// receiver should fetch the result instead.
var ErrTooLarge = errors.New("net change too large")

// Sum adds up the changes of a query between two positions into one exact net change. Its
// Delta is nil if they cancel out. until.Seq 0 means the newest position. A sum of more than
// limit bytes (0: no limit) gives ErrTooLarge. count is the number of changes. Errors of the
// log are returned unchanged. ctx ends the work.
func Sum(ctx context.Context, r *Reader, query string, from, until registry.Position, limit int64) (net registry.Change,
	count int, err error) {
	var none *pending
	s, err := none.sum(ctx, r, query, from, nil, until.Seq, limit)
	if err != nil {
		return net, 0, err
	}
	return s.change(from), s.count, nil
}

// DeltaSize returns the approximate size of a delta's rows on the wire, in bytes.
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
	limit int64           // maximum bytes of the sum; 0: none
	last  registry.Change // the last change of the sum, without its rows
	steps diff.Chain
	net   *diff.Delta // valid after end; nil if everything cancelled out
	count int
	edits []registry.DataEdit // of all changes
}

// mostEdits is how many edits of the data a sum has, the newest.
const mostEdits = 10

func (s *summation) add(page []registry.Change) error {
	for i := range page {
		part, err := s.steps.Add(page[i].Delta)
		if err != nil {
			return err
		}
		s.last = page[i]
		s.count++
		for _, e := range page[i].Edits {
			if !slices.Contains(s.edits, e) {
				s.edits = append(s.edits, e)
			}
		}
		s.edits = s.edits[max(0, len(s.edits)-mostEdits):]
		if above(s.limit, part) {
			return ErrTooLarge
		}
	}
	s.last.Delta = nil
	return nil
}

// above reports whether a change is larger than a limit; 0: no limit.
func above(limit int64, d *diff.Delta) bool { return limit > 0 && d != nil && DeltaSize(d) > limit }

func (s *summation) end() (err error) {
	if s.net, err = s.steps.Sum(); err != nil {
		return err
	}
	if s.steps = (diff.Chain{}); above(s.limit, s.net) {
		return ErrTooLarge
	}
	return nil
}

// readOn adds the changes of the log up to a position (0: all), page by page, and ends the
// sum.
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
	if until > 0 && s.last.Seq != until {
		return fmt.Errorf("net change of %s: %w", query, &registry.GapError{Reason: registry.Ahead})
	}
	return s.end()
}

// change returns the sum as one change that follows from.
func (s *summation) change(from registry.Position) registry.Change {
	c := s.last
	c.Prev, c.Delta, c.Edits = from.Seq, s.net, s.edits
	c.Baseline = s.net != nil && s.net.Baseline
	return c
}

// unsendable reports whether a net change cannot be sent as one.
func unsendable(err error) bool {
	return errors.Is(err, ErrTooLarge) || errors.Is(err, diff.ErrMismatch)
}
