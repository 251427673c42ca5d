package notify

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// smallPart is the size in bytes up to which each connection encodes the rows of a part
// itself. Larger parts are shared, so that a client that does not read holds none.
const smallPart = 4 << 10

// snapshot sends a result, after subscribed where it is a beginning. If a newer result
// replaces it meanwhile, that one is sent from its part 1, which clients treat as a new start.
func (f *queryFollower) snapshot(ev *StreamEvent) error {
	st, empty := ev.Status, ev.Result == nil
	ev.Release()
	for {
		if empty && f.begun && f.reason == "" {
			f.reason = registry.OtherEpoch // history began again and has no result yet
		}
		if !f.begun || f.reason != "" {
			f.subscribed(st.Position, false, f.reason)
			f.reason = ""
		}
		if empty {
			return nil
		}
		err := f.parts(&st)
		if !errors.Is(err, errMoved) {
			return err
		}
		var res *diff.Result
		if st, res, err = f.c.srv.results.current(f.follows); err != nil {
			return err
		}
		empty = res == nil
		f.stream.cursor.Jump(st.Position)
	}
}

// parts sends a result as one message or as parts in order. Each part is a complete document
// of some of the rows, and the last one is marked. Between two parts only the place in the
// result is held.
func (f *queryFollower) parts(st *registry.Status) error {
	for part, from := 1, 0; ; part++ {
		rows, err := f.c.srv.table(f.follows, st.Position, f.stream.cursor.Filter)
		if err != nil {
			return err
		}
		to, last := rows.split(from, f.c.srv.opts.Limits.Part)
		if err := f.part(st, rows, part, from, to, last); err != nil {
			return err
		}
		if last {
			f.stream.listed.moved(st.Position)
			f.sent(st.Position.Seq)
			return nil
		}
		if from = to; f.ctx.Err() != nil {
			return errGone
		}
	}
}

func (f *queryFollower) part(st *registry.Status, rows *tableRows, part, from, to int, last bool) error {
	s, filter := f.c.srv, f.stream.cursor.Filter
	head := f.head(st, rows.res, part, last)
	if rows.size(from, to) <= smallPart && !f.c.out.full() {
		f.c.out.add(appendMember(head, "results", json.RawMessage(rows.json(from, to))), endOfMessage)
		return nil
	}
	query, at := f.follows, st.Position
	key := documentKey{changeKey{query, at.Epoch, at.Seq, at.Seq}, fmt.Sprintf("rows %d to %d %s", from, to, filterKey(filter))}
	now := func() ([]byte, error) { return rows.json(from, to), nil }
	doc, err := s.documents.open(key, now, func() ([]byte, error) {
		rows, err := s.table(query, at, filter)
		if err != nil {
			return nil, err
		}
		return rows.json(from, to), nil
	})
	if err != nil {
		return err
	}
	return f.c.out.document(append(head, `,"results":`...), doc, endOfMessage)
}

// head returns the members before the rows of a part.
func (f *queryFollower) head(st *registry.Status, res *diff.Result, part int, last bool) []byte {
	b := appendField([]byte(`{"type":"snapshot"`), field{"id", f.id})
	b = appendMember(b, "epoch", st.Position.Epoch)
	b = appendMember(b, "seq", st.Position.Seq)
	b = appendMember(b, "time", st.ChangedAt)
	b = appendMember(b, "checked_at", st.CheckedAt)
	b = appendMember(b, "form", string(res.Form()))
	if res.Ordered() {
		b = append(b, `,"ordered":true`...)
	}
	if !f.stream.cursor.Filter.All() {
		b = append(b, `,"filtered":true`...)
	} else {
		b = appendMember(b, "hash", st.Hash)
	}
	if part > 1 || !last {
		b = appendMember(b, "part", part)
		if last {
			b = append(b, `,"last":true`...)
		}
	}
	return b
}
