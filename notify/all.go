package notify

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// mostHeld is how many queries' changes a store-wide stream keeps back at a
// time. It bounds memory and the length of an id.
const mostHeld = 64

// All answers a caller's request for the changes of all queries that allow lets
// through, with server-sent events.
//
//	event: change   id: epoch:offset   a change of any query; prev and seq are
//	                                   the query's
//	event: alive    id: epoch:offset   {"query","epoch","seq"}: what waited of the
//	                                   query up to there cancelled out, or the
//	                                   filter shows nothing of it
//	event: gap      id: epoch:offset   {"reason","query"?}: changes of the query, or
//	                                   without it of any, cannot be told; the
//	                                   stream goes on after them
//	event: complete                    {"reason":"dropped"}
//
// Without Last-Event-ID and after the stream begins with the next change. A
// request may wish for a filter and a rate, see ReadWish: they hold for every
// query on its own. What is kept back of a query waits in the log, and goes out
// as one exact net change whose prev is what the reader was told of the query
// last. The id then names, after the offset, the queries of which something is
// kept back and from where: epoch:offset~query:seq~…, so that who comes back
// with it loses nothing and is told nothing twice. A filter of rows (vars, where)
// leaves out queries that it cannot be applied to.
//
// At most 64 queries are kept back at a time: of more, the one that has waited
// longest is told although its filter would have it wait, and what changed within
// one rate comes in several rounds.
func (s *Server) All(w http.ResponseWriter, r *http.Request, caller string, allow func(*registry.Change) bool) {
	filter, rate, err := ReadWish(r.URL.Query())
	if err != nil {
		problem(w, http.StatusBadRequest, "malformed", err.Error())
		return
	}
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	t := &allStream{s: s, allow: allow, filter: filter, rate: rate, held: map[string]*heldBack{}}
	if text != "" {
		err = t.parse(text)
	} else {
		t.at, err = s.opts.Head()
	}
	switch {
	case errors.Is(err, errPosition):
		problem(w, http.StatusBadRequest, "bad-position", "after and Last-Event-ID must be the id of an event: epoch:number")
		return
	case err != nil:
		s.sseError(w, err)
		return
	}
	about := eventsOf(r, caller)
	about.Tag, about.Endpoint, about.Filter, about.Rate = r.URL.Query().Get("tag"), r.URL.Query().Get("endpoint"), filter.JSON(), registry.Duration(rate)
	s.stream(w, r, func(ctx context.Context, e *events) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		t.ctx, t.e, t.awake = ctx, e, s.opts.Hub.FollowAll() // before the first read, so that no commit slips between
		defer t.awake.Close()
		t.listed = s.list(about, t.at, func() { cancel(ErrDropped) }, t.awake.signal)
		defer s.listing.remove(t.listed)
		return t.run(ctx)
	})
}

// An allStream is the cursor behind All: everything up to at was looked at, and
// all of it told but what is held.
type allStream struct {
	ctx    context.Context
	s      *Server
	e      *events
	awake  *Follower
	listed *listed
	allow  func(*registry.Change) bool
	filter Filter
	rate   time.Duration

	at        registry.Offset
	toldID    string               // that its reader was told last
	held      map[string]*heldBack // by query, mostHeld at most
	told      bool                 // something, in the rounds since notBefore
	notBefore time.Time
}

// heldBack is the net change of one query that its reader was not told of.
type heldBack struct {
	base  registry.Position // what the reader knows of the query
	first uint64            // the oldest offset kept back
	last  registry.Change   // the newest change looked at, without rows
	kept  bool              // net is there; otherwise it is added up from the log again
	net   *diff.Delta
	bound bound // of one that is not kept
	fresh bool  // something came since it was held against the filter
}

func (t *allStream) run(ctx context.Context) error {
	err := t.restore()
	for err == nil && ctx.Err() == nil {
		if err = t.step(ctx); err == nil || ctx.Err() != nil {
			continue
		}
		var gap *registry.GapError
		if errors.As(err, &gap) {
			err = t.skip(gap)
		}
	}
	if context.Cause(ctx) == ErrDropped {
		return t.e.dropped()
	}
	return err
}

// skip goes on with the next change when the log does not continue.
func (t *allStream) skip(gap *registry.GapError) (err error) {
	if t.at, err = t.s.opts.Head(); err != nil {
		return err
	}
	clear(t.held)
	return t.tell("gap", frameless(field{"reason", gap.Reason}))
}

// step looks at the log once, or waits until that makes sense.
func (t *allStream) step(ctx context.Context) error {
	if t.listed.halted.Load() {
		return t.wait(ctx, 0)
	}
	if hold := time.Until(t.notBefore); hold > 0 {
		return t.wait(ctx, hold)
	}
	more, full, err := t.gather()
	if err != nil {
		return err
	}
	told, err := t.tellHeld(full)
	t.told = t.told || told
	at := t.at
	t.listed.at.Store(&at)
	switch {
	case err != nil:
		return err
	case more:
		return nil
	case t.told && t.rate > 0:
		t.told, t.notBefore = false, time.Now().Add(t.rate)
		return nil
	}
	return t.wait(ctx, 0)
}

// wait waits for a wake-up, or for the length of hold whatever comes. A reader
// that hears nothing for long is moved on past what it may not see, by an id without
// data.
func (t *allStream) wait(ctx context.Context, hold time.Duration) error {
	quiet := t.s.opts.Timing.Ping
	timer := time.NewTimer(min(quiet, cmpOr(hold, quiet)))
	defer timer.Stop()
	awake := t.awake.C()
	if hold > 0 {
		awake = nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-awake:
		return nil
	case <-timer.C:
	}
	if hold > 0 && hold <= quiet {
		return nil
	}
	id := t.id()
	if id == t.toldID {
		return t.e.comment()
	}
	t.toldID = id
	return t.e.write([]byte("id: "+id+"\n:\n\n"), nil, nil)
}

func cmpOr(d, other time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return other
}

// gather reads on: a page, or with a rate all there is. more says that there may
// be more to read at once, full that it cannot be read before something is told.
func (t *allStream) gather() (more, full bool, err error) {
	for {
		if err := t.ctx.Err(); err != nil {
			return false, false, err
		}
		page, err := t.page()
		if err != nil || len(page) == 0 {
			return false, false, err
		}
		if full, err := t.take(page); full || err != nil {
			return full, full, err
		}
		if t.rate == 0 {
			return true, false, nil
		}
	}
}

// page is what comes next, read once for all who go the same step.
func (t *allStream) page() ([]registry.Change, error) {
	head, err := t.s.opts.Head()
	if err != nil {
		return nil, err
	}
	read := func() ([]registry.Change, error) { return t.s.opts.Log.All(t.at, pageSize) }
	if t.at == head || t.at.Epoch != head.Epoch || t.at.Seq > head.Seq {
		return read() // nothing, or a gap
	}
	return t.s.pages.get(documentKey{step: step{"", head.Epoch, t.at.Seq, head.Seq}}, read, pageWeight)
}

// take goes through a page. It lets go of it while the reader keeps it waiting;
// what is left is read again.
func (t *allStream) take(page []registry.Change) (full bool, err error) {
	var held loan[[]registry.Change]
	held.put(page)
	for i, n := 0, len(page); i < n; i++ {
		rest, ok := held.take()
		if !ok {
			return false, nil
		}
		c := rest[i]
		rest = nil
		wanted, plain := t.wants(&c), t.plain()
		if wanted && t.held[c.Query] == nil && len(t.held) >= mostHeld {
			return true, nil
		}
		if t.at.Seq = c.Offset; !wanted {
			continue
		}
		if !plain {
			t.hold(&c)
			continue
		}
		if i == n-1 {
			held.drop()
		}
		held.lend()
		err := t.tellOne(&c)
		held.back()
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// plain says whether changes go out as they are.
func (t *allStream) plain() bool { return t.filter.All() && t.rate == 0 && len(t.held) == 0 }

// tellOne tells a change, of which it lets go.
func (t *allStream) tellOne(c *registry.Change) error {
	doc, err := t.s.openChange(c, Filter{})
	if c.Delta = nil; err != nil {
		return err
	}
	return t.tellChange(doc)
}

func (t *allStream) tellChange(doc *Document) error {
	t.toldID = t.id()
	if err := t.e.document("change", t.toldID, []byte("{"), doc, []byte("}")); err != nil {
		return err
	}
	t.s.sent.Add(1)
	t.listed.delivered(time.Now())
	return nil
}

// tell tells something small.
func (t *allStream) tell(kind string, data []byte) error {
	t.toldID = t.id()
	return t.e.event(kind, t.toldID, data)
}

// wants says whether the reader may and can see anything of a change.
func (t *allStream) wants(c *registry.Change) bool {
	if !t.allow(c) {
		return false
	}
	d := c.Delta
	if !t.filter.ByRow() || d == nil {
		return true
	}
	vars := t.filter.f.Vars
	known := vars == nil || slices.ContainsFunc(vars, func(v string) bool { return slices.Contains(d.Vars, v) || slices.Contains(d.OldVars, v) })
	return d.Form == diff.Select && !d.Ordered && known
}

// hold adds a change to what waits of its query.
func (t *allStream) hold(c *registry.Change) {
	h := t.held[c.Query]
	if h == nil || c.Baseline || h.base.Epoch != c.Epoch { // what came before a new beginning does not count
		h = &heldBack{base: registry.Position{Epoch: c.Epoch, Seq: c.Prev}, first: c.Offset, kept: true}
		t.held[c.Query] = h
	}
	if h.kept {
		net, err := diff.Compose(h.net, c.Delta)
		h.net = nil
		if h.kept = err == nil && (net == nil || deltaSize(net)+t.keeps() <= keepPending); h.kept {
			h.net = compact(net)
		}
	}
	h.bound.add(t.filter.f, c.Delta)
	h.last, h.fresh = *c, true
	h.last.Delta = nil
}

// keeps is the size of what is held back and kept.
func (t *allStream) keeps() (n int64) {
	for _, h := range t.held {
		if h.net != nil {
			n += deltaSize(h.net)
		}
	}
	return n
}

// tellHeld tells what the filter lets through of what is new, in the order of
// offsets; with relieve something is told in any case.
func (t *allStream) tellHeld(relieve bool) (told bool, err error) {
	var oldest *heldBack
	fresh := make([]*heldBack, 0, len(t.held))
	for _, h := range t.held {
		if h.fresh {
			fresh = append(fresh, h)
		}
		if oldest == nil || h.first < oldest.first {
			oldest = h
		}
	}
	slices.SortFunc(fresh, func(a, b *heldBack) int { return int(int64(a.last.Offset) - int64(b.last.Offset)) })
	for _, h := range fresh {
		one, err := t.judge(h, false)
		if err != nil {
			return told, err
		}
		told = told || one
	}
	if relieve && len(t.held) >= mostHeld {
		return t.judge(oldest, true)
	}
	return told, nil
}

// judge tells the net change of a query, or goes on keeping it back.
func (t *allStream) judge(h *heldBack, anyway bool) (told bool, err error) {
	h.fresh = false
	query := h.last.Query
	if !anyway && !h.kept && h.bound.short(t.filter.f) {
		return false, nil
	}
	net := h.net
	if !h.kept {
		var sum registry.Change
		sum, _, err = t.s.net(t.ctx, query, h.base, h.last.Position(), t.s.opts.Limits.Change)
		net = sum.Delta
	}
	var gap *registry.GapError
	switch {
	case errors.Is(err, registry.ErrNotFound):
		delete(t.held, query)
		return false, nil
	case errors.As(err, &gap):
		return false, t.lose(query, gap.Reason)
	case errors.Is(err, errTooLarge) || errors.Is(err, diff.ErrMismatch):
		return true, t.lose(query, "too_large")
	case err != nil:
		return false, err
	}
	left, passes := t.filter.Apply(registry.Change{Delta: net})
	switch {
	case left.Delta == nil:
		delete(t.held, query)
		p := h.last.Position()
		return false, t.tell("alive", frameless(field{"query", query}, field{"epoch", p.Epoch}, field{"seq", p.Seq}, field{"checked_at", timeOrNil(h.last.CheckedAt)}))
	case !passes && !anyway:
		h.bound = boundOf(t.filter.f, net, left.Delta)
		return false, nil
	}
	delete(t.held, query)
	c := h.last
	c.Prev, c.Delta, c.Baseline = h.base.Seq, left.Delta, left.Delta.Baseline
	doc, err := t.s.openChange(&c, t.filter)
	if err != nil {
		return true, err
	}
	c.Delta, left.Delta, net, h.net = nil, nil, nil, nil
	return true, t.tellChange(doc)
}

// lose tells that changes of a query cannot be told.
func (t *allStream) lose(query, reason string) error {
	delete(t.held, query)
	return t.tell("gap", frameless(field{"reason", reason}, field{"query", query}))
}
