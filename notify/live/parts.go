package live

import (
	"encoding/json"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// smallPart is the size in bytes up to which each connection encodes the rows of a part
// itself. Larger parts are shared, so that a client that does not read holds none.
const smallPart = 4 << 10

// snapshot sends a result, after subscribed where it is a beginning. If a newer result
// replaces it meanwhile, the error is notify.ErrMoved. That one is then sent from its part 1, which
// clients treat as a new start.
func (sub *subscription) snapshot(ev *notify.StreamEvent) error {
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
	for n, from := 1, 0; ; n++ {
		part, err := sub.c.srv.hub.OpenPart(sub.follows, st.Position, sub.options.Filter, from, sub.c.srv.opts.Limits.Part)
		if err != nil {
			return err
		}
		from = part.To
		if err := sub.part(st, part, n); err != nil {
			return err
		}
		if part.Last {
			sub.sent(st.Position.Seq)
			return nil
		}
		if sub.ctx.Err() != nil {
			return errGone
		}
	}
}

func (sub *subscription) part(st *registry.Status, part *notify.Part, n int) error {
	head, out := sub.head(st, part, n), &sub.c.out
	if part.Size <= smallPart && !out.full() {
		out.add(appendMember(head, "results", json.RawMessage(part.JSON())), endOfMessage)
		return nil
	}
	doc, err := part.Open()
	if err != nil {
		return err
	}
	part.Release()
	return out.document(append(head, `,"results":`...), doc, endOfMessage)
}

// head returns the members before the rows of a part.
func (sub *subscription) head(st *registry.Status, part *notify.Part, n int) []byte {
	b := appendMember([]byte(`{"type":"snapshot"`), "id", sub.id)
	b = appendMember(b, "epoch", st.Position.Epoch)
	b = appendMember(b, "seq", st.Position.Seq)
	b = appendMember(b, "time", st.ChangedAt)
	b = appendMember(b, "checked_at", st.CheckedAt)
	if n == 1 {
		if until := sub.c.srv.hub.Proved(sub.follows, st.Position); !until.IsZero() {
			b = appendMember(b, "proved", until)
		}
	}
	b = appendMember(b, "form", string(sub.form))
	if sub.ordered {
		b = append(b, `,"ordered":true`...)
	}
	if !sub.options.Filter.All() {
		b = append(b, `,"filtered":true`...)
	} else {
		b = appendMember(b, "hash", st.Hash)
	}
	if n > 1 || !part.Last {
		b = appendMember(b, "part", n)
		if part.Last {
			b = append(b, `,"last":true`...)
		}
	}
	return b
}
