package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

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

// A giving is a result on its way to a client: one snapshot message, or parts that
// each are a complete document of some of the rows, in order; the last one says so.
// What is held between two parts is a place in the result.
type giving struct {
	status registry.Status
	part   int // the next one
	from   int // its first row
}

// sendResult begins with a result. What does not fit into one message follows in
// the turns of the subscription, see deliverNext.
func (s *session) sendResult(sub *subscription, st *registry.Status, res *diff.Result) error {
	sub.giving = &giving{status: *st, part: 1}
	return s.givePart(sub)
}

// givePart says the next part of a result. A result that is not kept any more
// because another came begins again, with the present one: a client takes part 1
// for a new beginning.
func (s *session) givePart(sub *subscription) error {
	g := sub.giving
	query, at := sub.query.ID, g.status.Position
	rows, err := s.srv.table(query, at, Filter{sub.filter})
	if errors.Is(err, errMoved) {
		sub.giving = nil
		return s.snapshot(sub)
	}
	if err != nil {
		return err
	}
	to, last := rows.split(g.from, s.srv.opts.Limits.Part)
	if err := s.sayPart(sub, rows, to, last); err != nil {
		return err
	}
	sub.lastSent = time.Now()
	if !last {
		g.part, g.from = g.part+1, to
		s.enqueue(sub)
		return nil
	}
	sub.giving = nil
	s.srv.sent.Add(1)
	sub.moved(at)
	sub.counts(s.srv.opts.Limits.Window)
	s.enqueue(sub) // for the status, and for what came meanwhile
	return nil
}

// smallPart is the size in bytes up to which each session writes the rows of a part
// for itself. Larger ones are shared, so that a client that does not read holds none.
const smallPart = 4 << 10

func (s *session) sayPart(sub *subscription, rows *tableRows, to int, last bool) error {
	g := sub.giving
	head := g.head(sub, rows.res, last)
	if rows.size(g.from, to) <= smallPart {
		b := appendMember(head, "results", json.RawMessage(rows.json(g.from, to)))
		s.say(len(b)+1, b, endOfMessage)
		return nil
	}
	query, at, filter, from := sub.query.ID, g.status.Position, Filter{sub.filter}, g.from
	key := documentKey{step{query, at.Epoch, at.Seq, at.Seq}, fmt.Sprintf("rows %d to %d %s", from, to, filter.key())}
	doc, err := s.srv.documents.open(key, func() ([]byte, error) {
		rows, err := s.srv.table(query, at, filter)
		if err != nil {
			return nil, err
		}
		return rows.json(from, to), nil
	})
	if err != nil {
		return err
	}
	s.sayDocument(append(head, `,"results":`...), doc)
	return nil
}

// head is what comes before the rows of a part.
func (g *giving) head(sub *subscription, res *diff.Result, last bool) []byte {
	b := appendField([]byte(`{"type":"snapshot"`), field{"id", sub.id})
	b = appendMember(b, "epoch", g.status.Position.Epoch)
	b = appendMember(b, "seq", g.status.Position.Seq)
	b = appendMember(b, "time", g.status.ChangedAt)
	b = appendMember(b, "checked_at", g.status.CheckedAt)
	b = appendMember(b, "form", string(res.Form()))
	if res.Ordered() {
		b = append(b, `,"ordered":true`...)
	}
	if sub.filter != nil {
		b = append(b, `,"filtered":true`...)
	} else {
		b = appendMember(b, "hash", g.status.Hash)
	}
	if g.part > 1 || !last {
		b = appendMember(b, "part", g.part)
		if last {
			b = append(b, `,"last":true`...)
		}
	}
	return b
}

// table is a result at a position, or what a filter leaves of it. It is errMoved
// when there is another one by now and that one is not kept.
func (s *Server) table(query string, at registry.Position, f Filter) (*tableRows, error) {
	key := documentKey{step{query, at.Epoch, at.Seq, at.Seq}, f.key()}
	return s.tables.get(key, func() (*tableRows, error) {
		st, res, err := s.results.current(query)
		switch {
		case err != nil:
			return nil, err
		case res == nil || st.Position != at:
			return nil, errMoved
		}
		return f.f.rows(res), nil
	}, weighTable)
}

// keepTables is the weight of the results that are kept for those who are on the
// way through them, in bytes.
const keepTables = 64 << 20

func weighTable(t *tableRows) int {
	n := t.res.Size() + 16*t.res.Len()
	for _, row := range t.kept {
		n += len(row) + 24
	}
	return n + 1
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

// size is about the length in bytes of some of the rows.
func (t *tableRows) size(from, to int) (n int) {
	for i := from; i < to; i++ {
		n += len(t.row(i)) + 1
	}
	return n
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
