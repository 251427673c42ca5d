package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// ErrTooLarge says that a net change grew above what is sent as one: its
// receiver is better served with the result.
var ErrTooLarge = errTooLarge

// A Filter says which changes, and what of them, a subscriber wants. The zero
// Filter wants everything.
type Filter struct{ f *filter }

// ParseFilter reads what freshet.v1 calls a filter: {min_jaccard?, min_rows?,
// vars?, where?}. Its errors are for whoever wrote it.
func ParseFilter(raw json.RawMessage) (Filter, error) {
	f, err := parseFilter(raw)
	return Filter{f}, plain(err)
}

// Fits says why the filter cannot be applied to a query, if it cannot.
func (f Filter) Fits(q *registry.Query) error {
	if f.f == nil {
		return nil
	}
	return plain(f.f.fits(q))
}

// JSON is the filter as ParseFilter reads it, nil for one that wants everything.
func (f Filter) JSON() json.RawMessage {
	if f.f == nil {
		return nil
	}
	b, _ := json.Marshal(f.f) // numbers and texts that came from JSON
	return b
}

// key tells filters apart.
func (f Filter) key() string { return short(string(f.JSON())) }

// All says whether the filter wants everything.
func (f Filter) All() bool { return f.f == nil }

// ByRow says whether the filter looks into rows, which ties it to one query.
func (f Filter) ByRow() bool { return f.f.byRow() }

// Apply leaves of a change what the filter wants. passes says whether that is
// worth a message; its Delta is nil when nothing is left.
func (f Filter) Apply(c registry.Change) (left registry.Change, passes bool) {
	if f.f != nil {
		c.Delta = f.f.delta(c.Delta)
	}
	if c.Delta == nil {
		return c, false
	}
	return c, f.f == nil || f.f.passes(c.Delta)
}

// ResultJSON writes what the filter leaves of a result, as SPARQL results JSON
// or {"triples":[…]}.
func (f Filter) ResultJSON(r *diff.Result) []byte {
	t := &tableRows{res: r, vars: r.Vars()}
	if f.f != nil {
		t = f.f.rows(r)
	}
	return t.json(0, t.len())
}

func plain(err error) error {
	var r *refusal
	if errors.As(err, &r) {
		return errors.New(r.message)
	}
	return err
}

// Net adds up the changes of a query from a position to another into one exact
// net change, whose Delta is nil when they cancel out. until.Seq 0 stands for
// the newest. A sum above limit bytes (0: no limit) is ErrTooLarge. There being
// nothing after from, count is 0. Errors of the log are returned as they are.
func Net(log Log, query string, from, until registry.Position, limit int64) (net registry.Change, count int, err error) {
	return netOf(context.Background(), nil, log, query, from, until, limit)
}

// net is Net for a follower. ctx ends the work, and few long ones are done at a time.
func (s *Server) net(ctx context.Context, query string, from, until registry.Position, limit int64) (net registry.Change, count int, err error) {
	return netOf(ctx, s.longFold, s.opts.Log, query, from, until, limit)
}

func netOf(ctx context.Context, long func(context.Context) func(), log Log, query string, from, until registry.Position, limit int64) (net registry.Change, count int, err error) {
	f := folding{last: registry.Change{Query: query, Epoch: from.Epoch, Seq: from.Seq}}
	if err := f.rest(ctx, long, log, query, until.Seq, limit); err != nil {
		return net, 0, err
	}
	if until.Seq > 0 && f.last.Seq != until.Seq {
		return net, 0, fmt.Errorf("net change of %s: %w", query, &registry.GapError{Reason: registry.Ahead})
	}
	return f.change(from), f.count, nil
}

// MarshalFiltered is MarshalChange for what a filter left of a change: it says
// "filtered":true and carries no hash.
func MarshalFiltered(c registry.Change, f Format) ([]byte, error) {
	if c.Delta == nil {
		return nil, fmt.Errorf("change %s of %s: %w", c.Position(), c.Query, errNoDelta)
	}
	return append(appendChange([]byte("{"), &c, f, true), '}'), nil
}
