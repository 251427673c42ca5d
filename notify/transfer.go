package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A transfer sends a result to a client, as one snapshot message or as parts in
// order. Each part is a complete document of some of the rows, and the last one is
// marked. Between two parts a transfer holds only its place in the result.
type transfer struct {
	status registry.Status
	part   int // the next one
	from   int // its first row
}

// smallPart is the size in bytes up to which each session encodes the rows of a part
// itself. Larger parts are shared, so that a client that does not read holds none.
const smallPart = 4 << 10

// transferResult starts to send a result. Parts that do not fit into one message
// follow in later turns.
func (sub *subscription) transferResult(st *registry.Status) error {
	sub.transfer = &transfer{status: *st, part: 1}
	return sub.nextPart()
}

// nextPart sends the next part of a result. If a newer result has replaced it, the
// transfer starts again with that one: clients treat part 1 as a new start.
func (sub *subscription) nextPart() error {
	s, t := sub.session, sub.transfer
	at := t.status.Position
	rows, err := s.srv.table(sub.follows, at, sub.cursor.Filter)
	if errors.Is(err, errMoved) {
		sub.transfer = nil
		return sub.snapshot("")
	}
	if err != nil {
		return err
	}
	to, last := rows.split(t.from, s.srv.opts.Limits.Part)
	if err := sub.addPart(rows, to, last); err != nil {
		return err
	}
	s.enqueue(sub) // for the next part, or for the status and what came meanwhile
	if !last {
		sub.lastSent = time.Now()
		t.part, t.from = t.part+1, to
		return nil
	}
	sub.transfer = nil
	sub.cursor.Jump(at)
	sub.sent()
	return nil
}

func (sub *subscription) addPart(rows *tableRows, to int, last bool) error {
	s, t, filter := sub.session, sub.transfer, sub.cursor.Filter
	head := t.head(sub, rows.res, last)
	if rows.size(t.from, to) <= smallPart {
		b := appendMember(head, "results", json.RawMessage(rows.json(t.from, to)))
		s.out.add(len(b)+1, b, endOfMessage)
		return nil
	}
	query, at, from := sub.follows, t.status.Position, t.from
	key := documentKey{changeKey{query, at.Epoch, at.Seq, at.Seq}, fmt.Sprintf("rows %d to %d %s", from, to, filterKey(filter))}
	now := func() ([]byte, error) { return rows.json(from, to), nil }
	doc, err := s.srv.documents.open(key, now, func() ([]byte, error) {
		rows, err := s.srv.table(query, at, filter)
		if err != nil {
			return nil, err
		}
		return rows.json(from, to), nil
	})
	if err != nil {
		return err
	}
	s.out.addDocument(append(head, `,"results":`...), doc)
	return nil
}

// head returns the members before the rows of a part.
func (t *transfer) head(sub *subscription, res *diff.Result, last bool) []byte {
	b := appendField([]byte(`{"type":"snapshot"`), field{"id", sub.id})
	b = appendMember(b, "epoch", t.status.Position.Epoch)
	b = appendMember(b, "seq", t.status.Position.Seq)
	b = appendMember(b, "time", t.status.ChangedAt)
	b = appendMember(b, "checked_at", t.status.CheckedAt)
	b = appendMember(b, "form", string(res.Form()))
	if res.Ordered() {
		b = append(b, `,"ordered":true`...)
	}
	if !sub.cursor.Filter.All() {
		b = append(b, `,"filtered":true`...)
	} else {
		b = appendMember(b, "hash", t.status.Hash)
	}
	if t.part > 1 || !last {
		b = appendMember(b, "part", t.part)
		if last {
			b = append(b, `,"last":true`...)
		}
	}
	return b
}
