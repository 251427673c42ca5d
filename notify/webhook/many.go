package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// mostHeld is how many queries' changes a webhook of many queries keeps back at
// a time. Of more, the one that has waited longest is told.
const mostHeld = 64

// planMany is for a webhook of many queries with a filter or a rate: what it
// reads is kept back by query and told as one net change of each.
func (w *Sender) planMany(s *registry.Subscription, filter *cursor.Filter, now time.Time) (deliver.Step, error) {
	if s.Rate > 0 && s.RateCursor.Epoch == s.Cursor.Epoch && s.Cursor.Seq < s.RateCursor.Seq {
		return w.gather(s, filter)
	}
	if h := oldest(s.Held, true); h != nil {
		return w.judge(*h, filter, false)
	}
	if s.Rate == 0 {
		return w.gather(s, filter)
	}
	if s.LastDelivery != nil {
		if due := s.LastDelivery.Add(time.Duration(s.Rate)); now.Before(due) {
			return deliver.Step{Hold: due}, nil
		}
	}
	return w.round(s, filter)
}

// round begins a round of a webhook with a rate: everything that waits by now is
// read, however much it is, before the next pause. Otherwise a webhook could fall
// behind for ever.
func (w *Sender) round(s *registry.Subscription, filter *cursor.Filter) (deliver.Step, error) {
	head, err := w.opts.Head()
	if err != nil || head == s.Cursor {
		return deliver.Step{}, err
	}
	if head.Epoch != s.Cursor.Epoch || head.Seq < s.Cursor.Seq {
		return w.gather(s, filter) // which finds the gap
	}
	return deliver.Step{Edit: func(s *registry.Subscription) error {
		s.RateCursor = head
		return nil
	}}, nil
}

// oldest is what has waited longest, of what is fresh or of all.
func oldest(held []registry.Withheld, fresh bool) *registry.Withheld {
	var first *registry.Withheld
	for i := range held {
		if h := &held[i]; (h.Fresh || !fresh) && (first == nil || h.First < first.First) {
			first = h
		}
	}
	return first
}

func heldAt(held []registry.Withheld, query string) int {
	return slices.IndexFunc(held, func(h registry.Withheld) bool { return h.Query == query })
}

// gather reads a page of the log. In a round that has to wait for room, what is
// fresh goes out before it.
func (w *Sender) gather(s *registry.Subscription, filter *cursor.Filter) (deliver.Step, error) {
	page, err := w.opts.Log.All(s.Cursor, pageSize)
	var gap *registry.GapError
	if errors.As(err, &gap) {
		head, err := w.opts.Head()
		return w.pledge(s, TypeGap, head, gap.Reason), err
	}
	if err != nil {
		return deliver.Step{}, err
	}
	from := s.Cursor
	if len(page) == 0 {
		return passed(from, s.RateCursor), nil
	}
	wanted := make([]bool, len(page))
	for i := range page {
		if wanted[i], err = w.concerns(s, &page[i]); err != nil {
			return deliver.Step{}, err
		}
	}
	if first := slices.Index(wanted, true); first == 0 && len(s.Held) >= mostHeld && heldAt(s.Held, page[0].Query) < 0 {
		if h := oldest(s.Held, true); h != nil {
			return w.judge(*h, filter, false)
		}
		return w.judge(*oldest(s.Held, false), filter, true)
	}
	return deliver.Step{Edit: func(s *registry.Subscription) error {
		if s.Cursor != from {
			return nil
		}
		for i := range page {
			if wanted[i] && !hold(s, &page[i]) {
				return nil
			}
			s.Cursor.Seq = page[i].Offset
		}
		return nil
	}}, nil
}

// passed ends a round whose last changes are there no more, as their queries.
func passed(from, round registry.Offset) deliver.Step {
	if round.Epoch != from.Epoch || from.Seq >= round.Seq {
		return deliver.Step{}
	}
	return deliver.Step{Edit: func(s *registry.Subscription) error {
		if s.Cursor == from {
			s.Cursor = round
		}
		return nil
	}}
}

// hold adds a change to what waits of its query, unless there is no room.
func hold(s *registry.Subscription, c *registry.Change) bool {
	at := heldAt(s.Held, c.Query)
	if at < 0 {
		if len(s.Held) >= mostHeld {
			return false
		}
		at, s.Held = len(s.Held), append(s.Held, registry.Withheld{Query: c.Query})
	}
	h := &s.Held[at]
	if c.Baseline || h.From.Epoch != c.Epoch { // what came before a new beginning does not count
		h.From, h.First = registry.Position{Epoch: c.Epoch, Seq: c.Prev}, c.Offset
	}
	h.Until, h.Fresh = c.Position(), true
	return true
}

// judge holds what waits of a query against the filter.
func (w *Sender) judge(h registry.Withheld, filter *cursor.Filter, anyway bool) (deliver.Step, error) {
	net, _, err := cursor.Sum(context.Background(), &cursor.Reader{Log: w.opts.Log}, h.Query, h.From, h.Until, w.opts.Format.MaxChange)
	if errors.Is(err, registry.ErrNotFound) {
		return deliver.Step{Edit: func(s *registry.Subscription) error {
			release(s, h.Query, h.Until)
			return nil
		}}, nil
	}
	if reason := snapshotReason(err); reason != "" {
		return w.pledgeHeld(h, TypeGap, reason), nil
	}
	if err != nil {
		return deliver.Step{}, err
	}
	left, passes := filter.Apply(net)
	switch {
	case left.Delta == nil:
		return w.pledgeHeld(h, TypeMoved, ""), nil
	case passes || anyway:
		return w.pledgeHeld(h, TypeChanged, ""), nil
	}
	return deliver.Step{Edit: func(s *registry.Subscription) error {
		if at := heldAt(s.Held, h.Query); at >= 0 && s.Held[at] == h {
			s.Held[at].Fresh = false
		}
		return nil
	}}, nil
}

func (w *Sender) pledgeHeld(h registry.Withheld, typ, info string) deliver.Step {
	p := &registry.OutboxMessage{ID: "msg_" + rand.Text(), Type: typ, Query: h.Query, From: h.From, Until: h.Until, At: w.opts.Now().UTC(), Info: info}
	return deliver.Step{Edit: func(s *registry.Subscription) error {
		if at := heldAt(s.Held, h.Query); at >= 0 && s.Held[at] == h {
			s.Pledge = p
		}
		return nil
	}}
}

// release notes that a receiver knows a query up to a position, or is not told.
func release(s *registry.Subscription, query string, until registry.Position) {
	if at := heldAt(s.Held, query); at >= 0 && s.Held[at].Until == until {
		s.Held = slices.Delete(s.Held, at, at+1)
	}
}

// held writes what a message about a query that was kept back tells.
func (w *Sender) held(s *registry.Subscription, p registry.OutboxMessage) ([]byte, *registry.OutboxMessage, error) {
	if p.Type != TypeChanged {
		about := map[string]any{"query": p.Query, "epoch": p.Until.Epoch, "seq": p.Until.Seq}
		if p.Info != "" {
			about["reason"] = p.Info
		}
		data, err := json.Marshal(about)
		return data, nil, err
	}
	net, _, err := cursor.Sum(context.Background(), &cursor.Reader{Log: w.opts.Log}, p.Query, p.From, p.Until, w.opts.Format.MaxChange)
	reason := snapshotReason(err)
	if errors.Is(err, registry.ErrNotFound) {
		reason = registry.TooOld
	}
	if reason != "" || err == nil && net.Delta == nil {
		other := w.instead(p, TypeGap, p.Until, reason)
		if other.Query = p.Query; reason == "" {
			other.Type = TypeMoved
		}
		return nil, other, nil
	}
	if err != nil {
		return nil, nil, err
	}
	filter, err := cursor.ParseFilter(s.Filter)
	if err != nil {
		return nil, nil, err
	}
	write := notify.MarshalChange
	if !filter.All() {
		write = notify.MarshalFiltered
	}
	data, err := write(net, w.opts.Format)
	return data, nil, err
}
