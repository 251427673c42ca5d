package notify

import (
	"encoding/json"
	"errors"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// start answers a subscribe: with the deltas after from, when the log continues
// there, else with a snapshot.
func (s *session) start(sub *subscription, from *registry.Position) error {
	err := s.begin(sub, from)
	var gone *closing
	switch {
	case err == nil || errors.Is(err, errGone) || errors.As(err, &gone):
		return err
	}
	s.leave(sub)
	if errors.Is(err, registry.ErrNotFound) {
		return &refusal{code: CodeUnknownQuery, message: "the query ended"}
	}
	return s.unavailable("start a subscription", err)
}

func (s *session) begin(sub *subscription, from *registry.Position) error {
	if from == nil {
		return s.restart(sub, "")
	}
	_, err := s.srv.opts.Log.After(sub.query.ID, *from, 1)
	var gap *registry.GapError
	if errors.As(err, &gap) {
		return s.restart(sub, gap.Reason)
	}
	if err != nil {
		return err
	}
	sub.moved(*from)
	s.enqueue(sub)
	return s.subscribed(sub, *from, true, "")
}

// restart gives the client a new beginning: the present result as a whole.
func (s *session) restart(sub *subscription, reason string) error {
	if sub.captures != nil {
		return s.restartCaptures(sub, reason)
	}
	st, res, err := s.srv.results.current(sub.query.ID)
	if err != nil {
		return err
	}
	sub.moved(st.Position)
	s.enqueue(sub) // for the status, and for what came meanwhile
	if err := s.subscribed(sub, st.Position, false, reason); err != nil || res == nil {
		return err
	}
	return s.sendResult(sub, &st, res)
}

func (s *session) subscribed(sub *subscription, p registry.Position, resumed bool, reason string) error {
	b := frame("subscribed",
		field{"id", sub.id}, field{"query", sub.query.ID}, field{"topic", s.format().ResultsURL(sub.query.ID)},
		field{"form", string(sub.query.Form)}, field{"ordered", orNil(sub.query.Ordered)},
		field{"epoch", p.Epoch}, field{"seq", p.Seq}, field{"resumed", resumed}, field{"reason", reason})
	return s.write(b)
}

func orNil(v bool) any {
	if !v {
		return nil
	}
	return v
}

// snapshot replaces what the client has by the present result.
func (s *session) snapshot(sub *subscription) error {
	st, res, err := s.srv.results.current(sub.query.ID)
	if err != nil {
		return err
	}
	if res == nil { // history began anew and has no result yet
		return s.restart(sub, registry.OtherEpoch)
	}
	return s.sendResult(sub, &st, res)
}

// sendResult writes a result as one snapshot message, or as parts that each are
// a complete document of some of the rows, in order; the last one says so.
func (s *session) sendResult(sub *subscription, st *registry.Status, res *diff.Result) error {
	rows := sub.filter.rows(res)
	head := appendField([]byte(`{"type":"snapshot"`), field{"id", sub.id})
	head = appendMember(head, "epoch", st.Position.Epoch)
	head = appendMember(head, "seq", st.Position.Seq)
	head = appendMember(head, "time", st.ChangedAt)
	head = appendMember(head, "checked_at", st.CheckedAt)
	head = appendMember(head, "form", string(res.Form()))
	if res.Ordered() {
		head = append(head, `,"ordered":true`...)
	}
	if sub.filter != nil {
		head = append(head, `,"filtered":true`...)
	} else {
		head = appendMember(head, "hash", st.Hash)
	}
	head = head[:len(head):len(head)]
	for part, from := 1, 0; ; part++ {
		to, last := rows.split(from, s.srv.opts.Limits.Part)
		b := head
		if part > 1 || !last {
			b = appendMember(b, "part", part)
			if last {
				b = append(b, `,"last":true`...)
			}
		}
		b = appendMember(b, "results", json.RawMessage(rows.json(from, to)))
		if err := s.write(append(b, '}')); err != nil {
			return err
		}
		if from = to; last {
			break
		}
	}
	s.srv.sent.Add(1)
	sub.moved(st.Position)
	sub.counts(s.srv.opts.Limits.Window)
	return nil
}

// tableRows are the rows of a result, or what a filter leaves of them.
type tableRows struct {
	res  *diff.Result
	vars []string
	kept diff.Rows // nil: all of res
}

func (t *tableRows) len() int {
	if t.kept != nil {
		return len(t.kept)
	}
	return t.res.Len()
}

func (t *tableRows) row(i int) []byte {
	if t.kept != nil {
		return t.kept[i]
	}
	return t.res.Row(i)
}

// split says where the part ends that begins at from, with at least one row.
func (t *tableRows) split(from, size int) (to int, last bool) {
	n := 0
	for to = from; to < t.len(); to++ {
		if n += len(t.row(to)) + 1; n > size && to > from {
			return to, false
		}
	}
	return to, true
}

func (t *tableRows) json(from, to int) []byte {
	if t.res.Form() == diff.Ask {
		return t.res.Document()
	}
	rows := make(diff.Rows, 0, to-from)
	for i := from; i < to; i++ {
		rows = append(rows, t.row(i))
	}
	return diff.RowsJSON(t.res.Form(), t.vars, rows)
}
