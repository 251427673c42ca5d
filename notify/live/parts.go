package live

import (
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

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
// of some of the rows, and the last one is marked. All followers share it, so a client that does
// not read holds none, and between two parts only the place in the result is held.
func (sub *subscription) parts(st *registry.Status) error {
	for n, from := 1, 0; ; n++ {
		doc, to, last, err := sub.c.srv.hub.OpenPart(sub.follows, st.Position, sub.options.Filter, from, sub.c.srv.opts.Limits.Part)
		if err == nil {
			if last {
				sub.sent(st.Position.Seq)
			}
			err = sub.c.out.document(sub.head(st, n, last), doc, endOfMessage, sub.large)
		}
		switch {
		case err != nil || last:
			return err
		case sub.ctx.Err() != nil:
			return errGone
		}
		from = to
	}
}

func (sub *subscription) head(st *registry.Status, n int, last bool) []byte {
	var proved time.Time
	if n == 1 {
		proved = sub.c.srv.hub.Proved(sub.follows, st.Position)
	}
	hash, filtered, part := st.Hash, !sub.options.Filter.All(), any(nil)
	if filtered {
		hash = ""
	}
	if n > 1 || !last {
		part = n
	}
	b := frame("snapshot", member("id", sub.id), member("epoch", st.Position.Epoch), member("seq", st.Position.Seq),
		member("time", st.ChangedAt), member("checked_at", st.CheckedAt), member("proved", timeOrNil(proved)),
		member("form", string(sub.form)), member("ordered", orNil(sub.ordered)), member("filtered", orNil(filtered)),
		member("hash", hash), member("part", part), member("last", orNil(last && n > 1)))
	return append(b[:len(b)-1], `,"results":`...)
}
