package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// data writes the content of a message. If that is not possible, it returns the
// message to send instead; one without a type means that there is nothing to send.
func (w *Target) data(ctx context.Context, s *registry.Subscription, p registry.OutboxMessage) (data []byte,
	other *registry.OutboxMessage, err error) {
	if p.Query != "" {
		return w.withheldData(ctx, s, p)
	}
	switch p.Type {
	case TypeEnded:
		data, err = json.Marshal(map[string]string{"query": s.Query})
		return data, nil, err
	case TypeGap:
		data, err = json.Marshal(map[string]any{"epoch": p.Until.Epoch, "offset": p.Until.Seq, "reason": p.Info})
		return data, nil, err
	case TypeSnapshot:
		return w.snapshot(s, p)
	}
	if s.Query == "" {
		return w.changeAt(p)
	}
	return w.change(ctx, s, p)
}

// changeAt writes the change of any query that has an offset.
func (w *Target) changeAt(p registry.OutboxMessage) ([]byte, *registry.OutboxMessage, error) {
	page, err := w.opts.Log.All(registry.Offset{Epoch: p.Until.Epoch, Seq: p.Until.Seq - 1}, 1)
	var gap *registry.GapError
	switch {
	case errors.As(err, &gap):
		head, err := w.opts.Head()
		return nil, w.replacement(p, registry.OutboxMessage{Type: TypeGap, Until: head, Info: gap.Reason}), err
	case err != nil:
		return nil, nil, err
	case len(page) == 0 || page[0].Offset != p.Until.Seq:
		return nil, &registry.OutboxMessage{Until: p.Until}, nil // its query has ended
	}
	data, err := notify.MarshalChange(page[0], w.opts.Format)
	return data, nil, err
}

// replacement completes the message that takes the place of another one.
func (w *Target) replacement(p, other registry.OutboxMessage) *registry.OutboxMessage {
	other.ID, other.From, other.At = p.ID+"s", p.From, w.opts.Now().UTC()
	return &other
}

// snapshotOf returns a message with the result of a query. It fixes when the result was checked, because a later check would
// change the content.
func snapshotOf(st *registry.Status, reason string) registry.OutboxMessage {
	return registry.OutboxMessage{Type: TypeSnapshot, Until: st.Position, Check: st.CheckedAt, Info: reason}
}

func (w *Target) change(ctx context.Context, s *registry.Subscription, p registry.OutboxMessage) ([]byte, *registry.OutboxMessage, error) {
	filter, err := cursor.ParseFilter(s.Filter)
	if err != nil {
		return nil, nil, err
	}
	// A single change may be of any size: it is truncated. A sum may not, which is about what the filter leaves.
	limit := w.opts.Format.MaxChange
	if p.Until.Seq == p.From.Seq+1 || !filter.All() {
		limit = 0
	}
	from := p.From
	if s.Outbox != nil && s.Outbox.ID == p.ID && s.Seen.Epoch != "" {
		from = s.Seen
	}
	net, _, err := cursor.Sum(ctx, &w.reader, s.Query, from, p.Until, limit)
	if err == nil {
		net, _ = filter.Apply(net)
	}
	if err == nil && !filter.All() && w.opts.Format.TooLarge(net.Delta) {
		err = cursor.ErrTooLarge
	}
	if reason := snapshotReason(err); reason != "" {
		st, _, err := w.opts.Log.Current(s.Query, false)
		return nil, w.replacement(p, snapshotOf(&st, reason)), err
	}
	if err != nil {
		return nil, nil, err
	}
	if net.Prev = p.From.Seq; net.Delta == nil {
		return nil, &registry.OutboxMessage{Until: p.Until}, nil
	}
	data, err := w.marshal(net, filter)
	return data, nil, err
}

// marshal writes what a filter left of a change.
func (w *Target) marshal(c registry.Change, filter *cursor.Filter) ([]byte, error) {
	format := w.opts.Format
	format.Filtered = !filter.All()
	return notify.MarshalChange(c, format)
}

// withheldData writes a message about a query whose changes were withheld.
func (w *Target) withheldData(ctx context.Context, s *registry.Subscription, p registry.OutboxMessage) ([]byte,
	*registry.OutboxMessage, error) {
	if p.Type != TypeChanged {
		about := map[string]any{"query": p.Query, "epoch": p.Until.Epoch, "seq": p.Until.Seq}
		if p.Info != "" {
			about["reason"] = p.Info
		}
		data, err := json.Marshal(about)
		return data, nil, err
	}
	net, _, err := cursor.Sum(ctx, &w.reader, p.Query, p.From, p.Until, w.opts.Format.MaxChange)
	reason := snapshotReason(err)
	if errors.Is(err, registry.ErrNotFound) {
		reason = registry.TooOld
	}
	if reason != "" || err == nil && net.Delta == nil {
		other := registry.OutboxMessage{Type: TypeGap, Query: p.Query, Until: p.Until, Info: reason}
		if reason == "" {
			other.Type = TypeMoved
		}
		return nil, w.replacement(p, other), nil
	}
	if err != nil {
		return nil, nil, err
	}
	filter, err := cursor.ParseFilter(s.Filter)
	if err != nil {
		return nil, nil, err
	}
	data, err := w.marshal(net, filter)
	return data, nil, err
}

// A snapshot is the whole result at one moment.
type snapshot struct {
	Query     string          `json:"query"`
	Epoch     string          `json:"epoch"`
	Seq       uint64          `json:"seq"`
	Time      string          `json:"time"`
	CheckedAt string          `json:"checked_at"`
	Form      diff.Form       `json:"form"`
	Ordered   bool            `json:"ordered,omitempty"`
	Filtered  bool            `json:"filtered,omitempty"`
	Hash      string          `json:"hash,omitempty"` // not of a filtered one
	Reason    string          `json:"reason"`
	Truncated bool            `json:"truncated,omitempty"` // results is then a link
	Count     *int            `json:"count,omitempty"`     // rows of a truncated one
	Results   json.RawMessage `json:"results"`
}

func (w *Target) snapshot(s *registry.Subscription, p registry.OutboxMessage) ([]byte, *registry.OutboxMessage, error) {
	st, r, err := w.opts.Log.Current(s.Query, true)
	if err != nil {
		return nil, nil, err
	}
	if r == nil {
		return nil, &registry.OutboxMessage{Until: st.Position}, nil
	}
	if st.Position != p.Until { // it is another by now
		return nil, w.replacement(p, snapshotOf(&st, p.Info)), nil
	}
	filter, err := cursor.ParseFilter(s.Filter)
	if err != nil {
		return nil, nil, err
	}
	if !p.Check.IsZero() { // else an earlier version has stored it
		st.CheckedAt = p.Check
	}
	const layout = "2006-01-02T15:04:05.999999999Z07:00"
	v := snapshot{Query: s.Query, Epoch: st.Position.Epoch, Seq: st.Position.Seq, Time: st.ChangedAt.UTC().Format(layout),
		CheckedAt: st.CheckedAt.UTC().Format(layout), Form: r.Form(), Ordered: r.Ordered(), Filtered: !filter.All(), Reason: p.Info}
	if filter.All() {
		v.Hash = st.Hash
	}
	n, size := r.Len(), int64(r.Size())
	if filter.ByRow() {
		_, rows := filter.Rows(r)
		n, size = len(rows), cursor.DeltaSize(&diff.Delta{Added: rows})
	}
	if size > w.opts.Format.MaxChange {
		v.Truncated, v.Count = true, &n
		v.Results, err = json.Marshal(w.opts.Format.ResultsURL(s.Query))
	} else {
		v.Results = filter.ResultJSON(r)
	}
	if err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // as changes are written
	err = e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil, err
}
