package cursor

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/loan"
	"github.com/freshet/freshet/registry"
)

// MaxWithheld is how many queries' changes a MultiCursor holds back at a time. It
// bounds memory and the length of an event id. Of more, the one that has waited
// longest is sent although its filter would have it wait.
const MaxWithheld = 64

// A MultiCursor is a reader's place in the changes of all queries: everything up
// to At was looked at, and all of it sent but what is held back. Filter and Rate
// hold for each query on its own, and what waits of a query goes out as one net
// change. With a rate everything that waits is read before the next pause: a
// round. The exported fields are set before the first Next and stay.
type MultiCursor struct {
	Filter *Filter
	Rate   time.Duration
	Limit  int64 // bytes of a net change of one query; above it is a Gap; 0: no limit
	// Wants reports whether the reader may and wants to see a change.
	Wants func(*registry.Change) (bool, error)
	// Stored says that the cursor is written down between steps: it keeps no rows.
	Stored bool

	at    registry.Offset
	round registry.Offset // where the present round ends
	held  map[string]*held
	full  bool // there is no room for what comes next
	sent  time.Time
	page  loan.Loan[[]registry.Change] // the rest of what was read
}

// A held is the net change of one query that the reader was not sent.
type held struct {
	base  registry.Position // what the reader knows of the query
	first uint64            // the oldest offset held back
	last  registry.Change   // the newest change looked at, without rows; zero: to be found
	kept  bool              // net is there; otherwise it is added up from the log again
	net   *diff.Delta
	bound bound // of one that is not kept
	fresh bool  // something came since it was compared with the filter
}

// At is the offset up to which everything was looked at.
func (m *MultiCursor) At() registry.Offset { return m.at }

// Jump places the cursor at an offset, with nothing held back.
func (m *MultiCursor) Jump(o registry.Offset) {
	m.page.Drop()
	m.at, m.round, m.held, m.full = o, registry.Offset{}, nil, false
}

// Sent notes when the reader was sent its last message. The rate counts from then.
func (m *MultiCursor) Sent(at time.Time) { m.sent = at }

// Lend is called before a write that may wait for the reader, and Back after it:
// the cursor then keeps no page while the write takes long.
func (m *MultiCursor) Lend() { m.page.Lend() }

// Back ends what Lend began.
func (m *MultiCursor) Back() { m.page.Back() }

// Next decides what the reader is sent next. It reads a page at most, and then
// says Wait until now where there may be more. The cursor moves with every event.
// The error is the log's, or that of Wants or ctx.
func (m *MultiCursor) Next(ctx context.Context, r *Reader, now time.Time) (Event, error) {
	if ev, lost, err := m.restore(r); lost || err != nil {
		return ev, err
	}
	for {
		for m.mayCompare() {
			h, anyway := m.pick()
			if h == nil {
				break
			}
			if ev, err := m.compare(ctx, r, h, anyway); err != nil || ev.Kind != Wait {
				return ev, err
			}
		}
		if !m.reading() && m.Rate > 0 && !m.sent.IsZero() {
			if due := m.sent.Add(m.Rate); now.Before(due) {
				return Event{Until: due}, nil
			}
		}
		if ev, err := m.readOn(r, now); err != nil || !m.full {
			return ev, err
		}
	}
}

// reading reports whether the present round is not over.
func (m *MultiCursor) reading() bool {
	return m.Rate > 0 && m.round.Epoch == m.at.Epoch && m.at.Seq < m.round.Seq
}

// mayCompare reports whether what is held back may be sent now: with a rate only
// at the end of a round, or where there is no room for the rest of it.
func (m *MultiCursor) mayCompare() bool { return m.full || !m.reading() }

// pick chooses what is compared with the filter next: what is fresh, in the order
// of the log; where there is no room, then what has waited longest. It is nil when
// nothing is to be compared.
func (m *MultiCursor) pick() (h *held, anyway bool) {
	var fresh, oldest *held
	for _, h := range m.held {
		if h.fresh && (fresh == nil || cmp.Or(cmp.Compare(h.last.Offset, fresh.last.Offset), cmp.Compare(h.first, fresh.first)) < 0) {
			fresh = h
		}
		if oldest == nil || h.first < oldest.first {
			oldest = h
		}
	}
	if fresh != nil {
		return fresh, false
	}
	relieve := m.full && len(m.held) >= MaxWithheld
	m.full = false
	if relieve {
		return oldest, true
	}
	return nil, false
}

// readOn looks at a page of the log.
func (m *MultiCursor) readOn(r *Reader, now time.Time) (Event, error) {
	rest, ok := m.page.Get()
	if !ok {
		head, err := r.Head()
		if err != nil {
			return Event{}, err
		}
		if m.Rate > 0 && !m.reading() && head != m.at {
			m.round = head
		}
		rest, err = r.page("", m.at, head, PageSize)
		var gap *registry.GapError
		if errors.As(err, &gap) {
			m.Jump(head)
			return Event{Kind: Gap, At: head, Reason: gap.Reason}, nil
		}
		if err != nil {
			return Event{}, err
		}
	}
	if len(rest) == 0 {
		if m.reading() { // its last changes are gone, as their queries
			m.at = m.round
			return Event{Until: now}, nil
		}
		return Event{}, nil
	}
	for i := range rest {
		next := &rest[i]
		wanted, err := m.wants(next)
		if err != nil {
			return Event{}, err
		}
		if wanted && m.held[next.Query] == nil && len(m.held) >= MaxWithheld {
			m.full = true
			break
		}
		m.at.Seq = next.Offset
		if wanted && m.Filter.All() && m.Rate == 0 && len(m.held) == 0 {
			if rest = rest[i+1:]; len(rest) > 0 {
				m.page.Put(rest)
			} else {
				m.page.Drop()
			}
			return Event{Kind: Change, At: next.Position(), Query: next.Query, Change: next, CheckedAt: next.CheckedAt}, nil
		}
		if wanted {
			m.hold(next)
		}
	}
	m.page.Drop()
	return Event{Until: now}, nil
}

func (m *MultiCursor) wants(c *registry.Change) (bool, error) {
	if wanted, err := m.Wants(c); err != nil || !wanted {
		return false, err
	}
	return m.Filter.concerns(c.Delta), nil
}

// hold adds a change to what waits of its query.
func (m *MultiCursor) hold(c *registry.Change) {
	if m.held == nil {
		m.held = make(map[string]*held)
	}
	h := m.held[c.Query]
	if h == nil || c.Baseline || h.base.Epoch != c.Epoch { // what came before a new beginning does not count
		h = &held{base: registry.Position{Epoch: c.Epoch, Seq: c.Prev}, first: c.Offset, kept: !m.Stored}
		m.held[c.Query] = h
	}
	if h.kept {
		net, err := diff.Compose(h.net, c.Delta)
		h.net = nil
		if h.kept = err == nil && (net == nil || DeltaSize(net)+m.size() <= keepPending); h.kept {
			h.net = compact(net)
		}
	}
	h.bound.add(m.Filter, c.Delta)
	h.last, h.fresh = *c, true
	h.last.Delta = nil
}

// size is how many bytes of rows are held back and kept.
func (m *MultiCursor) size() (n int64) {
	for _, h := range m.held {
		if h.net != nil {
			n += DeltaSize(h.net)
		}
	}
	return n
}

// compare hands out the net change of a query, or goes on holding it back.
func (m *MultiCursor) compare(ctx context.Context, r *Reader, h *held, anyway bool) (Event, error) {
	h.fresh = false
	query, at := h.last.Query, h.last.Position()
	if !anyway && !h.kept && h.bound.fails(m.Filter) {
		return Event{}, nil
	}
	net := h.net
	if !h.kept {
		sum, _, err := Sum(ctx, r, query, h.base, at, m.Limit)
		var gap *registry.GapError
		switch {
		case errors.Is(err, registry.ErrNotFound):
			delete(m.held, query)
			return Event{}, nil
		case errors.As(err, &gap):
			return m.lose(h, gap.Reason), nil
		case unsendable(err):
			return m.lose(h, TooLarge), nil
		case err != nil:
			h.fresh = true
			return Event{}, err
		}
		net = sum.Delta
	}
	left := m.Filter.Delta(net)
	if left != nil && !anyway && !m.Filter.Passes(left) {
		h.bound = boundOf(m.Filter, net, left)
		return Event{}, nil
	}
	delete(m.held, query)
	ev := Event{Kind: Moved, At: at, Query: query, CheckedAt: h.last.CheckedAt}
	if left != nil {
		c := h.last
		c.Prev, c.Delta, c.Baseline = h.base.Seq, left, left.Baseline
		ev.Kind, ev.Change = Change, &c
	}
	return ev, nil
}

// lose hands out that changes of a query cannot be shown.
func (m *MultiCursor) lose(h *held, reason string) Event {
	delete(m.held, h.last.Query)
	return Event{Kind: Gap, At: h.last.Position(), Query: h.last.Query, Reason: reason}
}

// restore finds what ParseEventID only named, and hands out a Gap where the log
// has lost it.
func (m *MultiCursor) restore(r *Reader) (ev Event, lost bool, err error) {
	named := false
	for _, query := range slices.Sorted(maps.Keys(m.held)) {
		h := m.held[query]
		if h.last.Query != "" {
			continue
		}
		named = true
		err := m.find(r, query, h)
		var gap *registry.GapError
		switch {
		case errors.As(err, &gap) && gap.Reason == registry.TooOld:
			h.last.Query = query
			return m.lose(h, gap.Reason), true, nil
		case errors.As(err, &gap), errors.Is(err, registry.ErrNotFound), err == nil && h.last.Query == "":
			delete(m.held, query) // nothing of it is left, or it began again
		case err != nil:
			return Event{}, false, err
		}
	}
	if named && m.Rate > 0 { // what came since belongs to the same round
		m.round, err = r.Head()
	}
	return Event{}, false, err
}

// find looks for a query's newest change that the cursor has passed.
func (m *MultiCursor) find(r *Reader, query string, h *held) error {
	st, _, err := r.Log.Current(query, false)
	if err != nil {
		return err
	}
	h.base.Epoch = st.Position.Epoch
	for at := h.base; ; {
		page, err := r.Log.After(query, at, PageSize)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			c := &page[i]
			if wanted, err := m.wants(c); err != nil || !wanted || c.Offset > m.at.Seq {
				return err
			}
			if h.last.Query == "" {
				h.first = c.Offset
			}
			h.last, h.fresh, at = *c, true, c.Position()
			h.last.Delta = nil
		}
	}
}
