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

// MaxWithheld is the largest number of queries whose changes a MultiCursor withholds at a
// time. It bounds memory and the length of an event id. Beyond it, the change that has
// waited longest is sent regardless of its filter.
const MaxWithheld = 64

// A MultiCursor is a reader's position in the changes of all queries. Everything up to At
// has been examined, and everything except the withheld changes has been sent. Filter and
// Rate apply to each query separately, and the waiting changes of a query are sent as one
// net change. With a rate, everything that waits is read before the next pause; this is a
// round. The exported fields are set before the first Next and do not change.
type MultiCursor struct {
	Filter *Filter
	Rate   time.Duration
	Limit  int64 // maximum bytes of what the filter leaves of a query's net change, beyond which a Gap is sent; 0: no limit
	// Wants reports whether the reader wants a change and may read it.
	Wants func(*registry.Change) (bool, error)
	// Stored means that the cursor is stored between steps, so it keeps no rows.
	Stored bool

	at    registry.Offset
	round registry.Offset // end of the current round
	held  map[string]*held
	full  bool // there is no room for further withheld changes
	sent  time.Time
	page  loan.Loan[[]registry.Change] // the unread rest of the last page
}

// A held is the withheld net change of one query.
type held struct {
	base  registry.Position // the reader's position in the query
	first uint64            // the oldest offset that is withheld
	last  registry.Change   // the newest change examined, without rows; zero: not found yet
	kept  bool              // net is valid; otherwise the log is added up again
	net   *diff.Delta
	bound bound // of a net change that is not kept
	fresh bool  // there are changes since the last comparison with the filter
}

// At returns the offset up to which everything was examined.
func (m *MultiCursor) At() registry.Offset { return m.at }

// Jump moves the cursor to an offset, with nothing withheld.
func (m *MultiCursor) Jump(o registry.Offset) {
	m.page.Drop()
	m.at, m.round, m.held, m.full = o, registry.Offset{}, nil, false
}

// Sent records the time of the last message to the reader. The rate counts from it.
func (m *MultiCursor) Sent(at time.Time) { m.sent = at }

// During runs a write that may wait for the reader. Meanwhile the page may be dropped.
func (m *MultiCursor) During(write func()) { m.page.During(write) }

// Next returns the reader's next event. It reads at most one page. If there may be more,
// it returns Wait with Until set to now. Every event advances the cursor. The error comes
// from the log, Wants or ctx.
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

// reading reports whether the current round has more to read.
func (m *MultiCursor) reading() bool {
	return m.Rate > 0 && m.round.Epoch == m.at.Epoch && m.at.Seq < m.round.Seq
}

// mayCompare reports whether withheld changes may be sent now. With a rate they are sent
// only at the end of a round, or if there is no room for the rest of it.
func (m *MultiCursor) mayCompare() bool { return m.full || !m.reading() }

// pick chooses the query to compare with the filter next: one with new changes, in log
// order, or, if there is no room, the one that has waited longest. It returns nil if there
// is nothing to compare. anyway means that the change is sent regardless of the filter.
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

func (m *MultiCursor) readOn(r *Reader, now time.Time) (Event, error) {
	var rest []registry.Change
	if kept := m.page.Get(); kept != nil {
		rest = *kept
	} else {
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
		if m.reading() { // the last changes of the round were deleted with their queries
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
				m.page.Put(&rest)
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

func (m *MultiCursor) hold(c *registry.Change) {
	if m.held == nil {
		m.held = make(map[string]*held)
	}
	h := m.held[c.Query]
	if h == nil || c.Baseline || h.base.Epoch != c.Epoch { // changes before a baseline or a new epoch no longer count
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

// size returns the number of bytes of rows that are withheld in memory.
func (m *MultiCursor) size() (n int64) {
	for _, h := range m.held {
		if h.net != nil {
			n += DeltaSize(h.net)
		}
	}
	return n
}

// compare returns the net change of a query if it passes the filter, else withholds it.
func (m *MultiCursor) compare(ctx context.Context, r *Reader, h *held, anyway bool) (Event, error) {
	h.fresh = false
	query, at := h.last.Query, h.last.Position()
	if !anyway && !h.kept && h.bound.fails(m.Filter) {
		return Event{}, nil
	}
	net := h.net
	var sum *summation
	if !h.kept {
		var err error
		sum, err = m.sum(ctx, r, h, anyway)
		var gap *registry.GapError
		switch {
		case err == nil && sum == nil:
			return Event{}, nil
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
		net = sum.net
	}
	left := m.Filter.Delta(net)
	switch {
	case left != nil && !anyway && !m.Filter.Passes(left):
		if h.bound = boundOf(m.Filter, net, left); !h.kept {
			r.Memory.keep(query, h.base, m.Filter, withhold(m.Filter, sum, left))
		}
		return Event{}, nil
	case !h.kept && above(m.Limit, left):
		return m.lose(h, TooLarge), nil
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

// sum adds up the withheld changes of a query. It returns nil if they are certainly too little for the filter.
func (m *MultiCursor) sum(ctx context.Context, r *Reader, h *held, anyway bool) (*summation, error) {
	query, until := h.last.Query, h.last.Seq
	p := r.Memory.of(query, h.base, m.Filter)
	var page []registry.Change
	if p != nil && p.last.Seq > until { // of a reader that is ahead
		p = nil
	}
	if p != nil && p.last.Seq < until {
		var err error
		if page, err = r.Log.After(query, p.last.Position(), int(min(PageSize, until-p.last.Seq))); err != nil {
			return nil, err
		}
	}
	if next := p.skip(m.Filter, page); !anyway && next != nil && next.last.Seq == until {
		r.Memory.keep(query, h.base, m.Filter, next)
		return nil, nil
	}
	return p.sum(ctx, r, query, h.base, page, until, m.Filter.limitOfSum(m.Limit))
}

// lose returns a Gap for changes of a query that cannot be shown.
func (m *MultiCursor) lose(h *held, reason string) Event {
	delete(m.held, h.last.Query)
	return Event{Kind: Gap, At: h.last.Position(), Query: h.last.Query, Reason: reason}
}

// restore completes the queries that an event id only names. It returns a Gap if the log
// no longer has their changes.
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
			delete(m.held, query) // no change is left, or the query has a new epoch
		case err != nil:
			return Event{}, false, err
		}
	}
	if named && m.Rate > 0 { // later changes belong to the same round
		m.round, err = r.Head()
	}
	return Event{}, false, err
}

// find looks up the newest change of a query that the cursor has passed.
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
