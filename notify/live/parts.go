package notify

import (
	"encoding/json"
	"fmt"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// smallPart is the size in bytes up to which each connection encodes the rows of a part
// itself. Larger parts are shared, so that a client that does not read holds none.
const smallPart = 4 << 10

// snapshot sends a result, after subscribed where it is a beginning. If a newer result
// replaces it meanwhile, the error is errMoved. That one is then sent from its part 1, which
// clients treat as a new start.
func (sub *subscription) snapshot(ev *StreamEvent) error {
	st, empty := ev.Status, ev.Result == nil
	ev.Release()
	if empty && sub.begun && sub.reason == "" {
		sub.reason = registry.OtherEpoch // history began again and has no result yet
	}
	if !sub.begun || sub.reason != "" {
		sub.subscribed(st.Position, false, sub.reason)
		sub.reason = ""
	}
	if empty {
		return nil
	}
	return sub.parts(&st)
}

// parts sends a result as one message or as parts in order. Each part is a complete document
// of some of the rows, and the last one is marked. Between two parts only the place in the
// result is held.
func (sub *subscription) parts(st *registry.Status) error {
	for part, from := 1, 0; ; part++ {
		rows, err := sub.c.srv.table(sub.follows, st.Position, sub.options.Filter)
		if err != nil {
			return err
		}
		to, last := rows.split(from, sub.c.srv.opts.Limits.Part)
		if err := sub.part(st, rows, part, from, to, last); err != nil {
			return err
		}
		if last {
			sub.sent(st.Position.Seq)
			return nil
		}
		if from = to; sub.ctx.Err() != nil {
			return errGone
		}
	}
}

func (sub *subscription) part(st *registry.Status, rows *tableRows, part, from, to int, last bool) error {
	head := sub.head(st, rows.res, part, last)
	if rows.size(from, to) <= smallPart && !sub.c.out.full() {
		sub.c.out.add(appendMember(head, "results", json.RawMessage(rows.json(from, to))), endOfMessage)
		return nil
	}
	doc, err := sub.c.srv.openRows(sub.follows, st.Position, sub.options.Filter, rows, fmt.Sprintf("rows %d to %d ", from, to), from, to)
	if err != nil {
		return err
	}
	return sub.c.out.document(append(head, `,"results":`...), doc, endOfMessage)
}

// head returns the members before the rows of a part.
func (sub *subscription) head(st *registry.Status, res *diff.Result, part int, last bool) []byte {
	b := appendField([]byte(`{"type":"snapshot"`), field{"id", sub.id})
	b = appendMember(b, "epoch", st.Position.Epoch)
	b = appendMember(b, "seq", st.Position.Seq)
	b = appendMember(b, "time", st.ChangedAt)
	b = appendMember(b, "checked_at", st.CheckedAt)
	b = appendMember(b, "form", string(res.Form()))
	if res.Ordered() {
		b = append(b, `,"ordered":true`...)
	}
	if !sub.options.Filter.All() {
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
