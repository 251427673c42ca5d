package notify

import (
	"context"
	"fmt"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// OpenChange opens the members of the JSON object of an event's change, without the braces, as MarshalChange writes them. They are
// encoded once for all followers of a query.
func (s *Server) OpenChange(ev *StreamEvent) (*Document, error) {
	return s.openChange(ev.Change, ev.filter)
}

// openChange opens the members of a change. It keeps no rows: if they are needed again, they are read from the log.
func (s *Server) openChange(c *registry.Change, filter *cursor.Filter) (*Document, error) {
	if c.Delta == nil {
		return nil, fmt.Errorf("change %s of %s: %w", c.Position(), c.Query, errNoDelta)
	}
	key := documentKey{changeKey: changeKey{c.Query, c.Epoch, c.Prev, c.Seq}}
	if !filter.All() {
		key.as = filterKey(filter)
	}
	return s.documents.open(key, func() ([]byte, error) { return appendChange(nil, c, s.format(filter)), nil }, func() ([]byte, error) {
		again, err := s.rereadChange(key.changeKey, filter)
		if err != nil {
			return nil, err
		}
		return appendChange(nil, &again, s.format(filter)), nil
	})
}

// rereadChange reads the net change between two positions from the log.
func (s *Server) rereadChange(at changeKey, filter *cursor.Filter) (registry.Change, error) {
	from := registry.Position{Epoch: at.epoch, Seq: at.prev}
	c, _, err := cursor.Sum(context.Background(), &s.reader, at.query, from, registry.Position{Epoch: at.epoch, Seq: at.seq}, 0)
	if err != nil {
		return c, err
	}
	if c.Delta = filter.Delta(c.Delta); c.Delta == nil {
		return c, ErrMoved
	}
	return c, nil
}

// OpenEvent opens a change or a snapshot in the encoding of another protocol, whose
// name is as. What write returns must depend on the content only.
func (s *Server) OpenEvent(query, as string, ev *StreamEvent, write func(*StreamContent) []byte) (*Document, error) {
	filter, at := ev.filter, ev.At
	key := documentKey{changeKey{query, at.Epoch, at.Seq, at.Seq}, as + filterKey(filter)}
	again := func() (*StreamContent, error) {
		rows, err := s.table(query, at, filter)
		if err != nil {
			return nil, err
		}
		return &StreamContent{Result: rows.res, filter: filter}, nil
	}
	if ev.Kind == StreamChange {
		key.prev = ev.Change.Prev
		again = func() (*StreamContent, error) {
			c, err := s.rereadChange(key.changeKey, filter)
			return &StreamContent{Change: &c, filter: filter}, err
		}
	}
	now := *ev.StreamContent
	return s.documents.open(key, func() ([]byte, error) { return write(&now), nil }, func() ([]byte, error) {
		c, err := again()
		if err != nil {
			return nil, err
		}
		return write(c), nil
	})
}

// table returns a result at a position, or what a filter leaves of it. The error is
// ErrMoved if the query has another result by now and the old one is not kept.
func (s *Server) table(query string, at registry.Position, f *cursor.Filter) (*tableRows, error) {
	key := documentKey{changeKey{query, at.Epoch, at.Seq, at.Seq}, filterKey(f)}
	return s.tables.Get(key, func() (*tableRows, error) {
		if !f.All() {
			whole, err := s.table(query, at, nil)
			if err != nil {
				return nil, err
			}
			return tableOf(f, whole.res), nil
		}
		st, res, err := s.opts.Log.Current(query, true)
		switch {
		case err != nil:
			return nil, err
		case res == nil || st.Position != at:
			return nil, ErrMoved
		}
		return tableOf(nil, res), nil
	}, weighTable)
}

// OpenPart returns the rows of a result from one on, of about size bytes, and which one follows them; last says that
// there is none. The error is ErrMoved if the query has another result by now and the old one is not kept.
func (s *Server) OpenPart(query string, at registry.Position, f *cursor.Filter, from, size int) (doc *Document, to int, last bool,
	err error) {
	rows, err := s.table(query, at, f)
	if err != nil {
		return nil, 0, false, err
	}
	to, last = rows.split(from, size)
	doc, err = s.openRows(query, at, f, rows, fmt.Sprintf("rows %d to %d ", from, to), from, to)
	return doc, to, last, err
}

// openRows opens a range of the rows of a result. as names the encoding.
func (s *Server) openRows(query string, at registry.Position, f *cursor.Filter, rows *tableRows, as string, from,
	to int) (*Document, error) {
	key := documentKey{changeKey{query, at.Epoch, at.Seq, at.Seq}, as + filterKey(f)}
	return s.documents.open(key, func() ([]byte, error) { return rows.json(from, to), nil }, func() ([]byte, error) {
		rows, err := s.table(query, at, f)
		if err != nil {
			return nil, err
		}
		return rows.json(from, to), nil
	})
}

// format returns how changes are written that a filter has left.
func (s *Server) format(filter *cursor.Filter) Format {
	return Format{MaxChange: s.opts.Limits.Change, PublicURL: s.opts.PublicURL, Filtered: !filter.All()}
}
