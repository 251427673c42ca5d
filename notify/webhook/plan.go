package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// plan decides the next message of a webhook of one query.
func (w *Target) plan(ctx context.Context, s *registry.Subscription, now time.Time) (deliver.Step, error) {
	st, _, err := w.opts.Log.Current(s.Query, false)
	if errors.Is(err, registry.ErrNotFound) {
		return w.ended(ctx, s)
	}
	if err != nil || st.Position.Seq == 0 {
		return deliver.Step{}, err
	}
	c, err := w.cursor(s, now)
	if err != nil {
		return disableStep("its filter cannot be read: " + err.Error()), nil
	}
	if c.At() == st.Position {
		return deliver.Step{}, nil
	}
	ev, err := c.Next(ctx, &w.reader, st.Position, now)
	switch {
	case err != nil || !ev.Until.IsZero():
		return deliver.Step{Hold: ev.Until}, err
	case ev.Kind == cursor.Change:
		return deliver.Prepare(s, registry.OutboxMessage{Type: TypeChanged, Until: ev.At}, now), nil
	case ev.Kind == cursor.Snapshot:
		if ev.Reason == cursor.Begin && s.GaveUp > 0 {
			ev.Reason = "given_up"
		}
		return deliver.Prepare(s, snapshotOf(&st, ev.Reason), now), nil
	}
	if settled, moved := c.Settle(); moved {
		ev = settled
	}
	if ev.Kind == cursor.Moved {
		return markSeen(s, ev.At), nil
	}
	return deliver.Step{}, nil // too little so far
}

// cursor returns the cursor of a webhook of one query. It includes changes that were
// examined without a message.
func (w *Target) cursor(s *registry.Subscription, now time.Time) (*cursor.Cursor, error) {
	filter, err := cursor.ParseFilter(s.Filter)
	if err != nil {
		return nil, err
	}
	c := &cursor.Cursor{Query: s.Query, Filter: filter, Rate: time.Duration(s.Rate), Rules: &w.rules}
	if s.Seen.Epoch != "" {
		c.Jump(s.Seen)
	} else {
		c.Jump(s.Cursor)
	}
	c.Sent(deliver.LastDelivery(s, now))
	return c, nil
}

// markSeen returns a step that records that there is nothing to send up to a
// position.
func markSeen(s *registry.Subscription, until registry.Position) deliver.Step {
	from := s.Cursor
	return deliver.Step{Edit: func(s *registry.Subscription) {
		if s.Cursor == from && s.Outbox == nil {
			s.Seen = until
		}
	}}
}

func (w *Target) planAll(ctx context.Context, s *registry.Subscription, now time.Time) (deliver.Step, error) {
	filter, err := cursor.ParseFilter(s.Filter)
	if err != nil {
		return disableStep("its filter cannot be read: " + err.Error()), nil
	}
	m := cursor.MultiCursor{Filter: filter, Rate: time.Duration(s.Rate), Limit: w.opts.Format.MaxChange, Stored: true,
		Wants: func(c *registry.Change) (bool, error) { return w.concerns(s, c) }}
	before := cursor.State{At: s.Cursor, Round: s.RateCursor, Withheld: s.Withheld, Sent: deliver.LastDelivery(s, now)}
	m.Restore(before)
	ev, err := m.Next(ctx, &w.reader, now)
	if err != nil {
		return deliver.Step{}, err
	}
	after := m.State()
	switch {
	case ev.Kind == cursor.Gap && ev.Query == "":
		return deliver.Prepare(s, registry.OutboxMessage{Type: TypeGap, Until: ev.At, Info: ev.Reason}, now), nil
	case ev.Kind == cursor.Change && filter.All() && s.Rate == 0 && len(s.Withheld) == 0: // as it is in the log
		return deliver.Prepare(s, registry.OutboxMessage{Type: TypeChanged, Until: after.At, Info: ev.Query}, now), nil
	case ev.Kind != cursor.Wait:
		return saveState(before, after, w.message(&ev)), nil
	case after.At != before.At || after.Round != before.Round || !slices.Equal(after.Withheld, before.Withheld):
		return saveState(before, after, nil), nil
	}
	return deliver.Step{Hold: ev.Until}, nil
}

// saveState returns a step that stores the cursor of a webhook of many queries and
// its next message.
func saveState(before, after cursor.State, next *registry.OutboxMessage) deliver.Step {
	return deliver.Step{Edit: func(s *registry.Subscription) {
		if s.Outbox == nil && s.Cursor == before.At && slices.Equal(s.Withheld, before.Withheld) {
			s.Cursor, s.RateCursor, s.Withheld, s.Outbox = after.At, after.Round, after.Withheld, next
		}
	}}
}

// message returns the message about an event of a query whose changes were withheld.
func (w *Target) message(ev *cursor.Event) *registry.OutboxMessage {
	m := &registry.OutboxMessage{ID: "msg_" + rand.Text(), Type: TypeChanged, Query: ev.Query, Until: ev.At, At: w.opts.Now().UTC(),
		Info: ev.Reason}
	if ev.Change != nil {
		m.From = registry.Position{Epoch: ev.Change.Epoch, Seq: ev.Change.Prev}
	}
	switch ev.Kind {
	case cursor.Gap:
		m.Type = TypeGap
	case cursor.Moved:
		m.Type = TypeMoved
	}
	return m
}

// concerns reports whether a webhook of many queries includes the query of a change.
func (w *Target) concerns(s *registry.Subscription, c *registry.Change) (bool, error) {
	if s.Endpoint != "" && c.Endpoint != s.Endpoint {
		return false, nil
	}
	if s.Tag != "" {
		q, err := w.opts.Query(c.Query)
		if errors.Is(err, registry.ErrNotFound) {
			return false, nil
		}
		if err != nil || !slices.Contains(q.Tags(), s.Tag) {
			return false, err
		}
	}
	return true, nil
}

// release removes the withheld changes of a query up to a position, because their
// message is settled. Subscriptions stored by earlier versions keep them until then.
func release(s *registry.Subscription, query string, until registry.Position) {
	s.Withheld = slices.DeleteFunc(s.Withheld, func(h registry.Withheld) bool { return h.Query == query && h.Until == until })
}
