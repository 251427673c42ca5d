package notify

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/freshet/freshet/registry"
)

// Changes answers a request for one query's changes with server-sent events.
// Whether the caller may read the query is for the caller of Changes to check;
// a deadline of the request's context (a token's end, say) ends the stream.
//
//	event: snapshot   id: epoch:seq   the present result; first, unless the
//	                                  request says where to go on
//	event: change     id: epoch:seq   a change (see MarshalChange), folded for a
//	                                  reader that lags: prev is then less than
//	                                  seq-1
//	event: alive      id: epoch:seq   the changes up to here cancelled out
//	event: gap                        {"reason"}: the log does not continue from
//	                                  there; a snapshot follows
//	event: complete                   {"reason"}: the query ended
//
// A request says where to go on by Last-Event-ID or, failing that, by after, both
// in the form epoch:seq. Results and changes above Limits.Change come truncated,
// with a link. Comments keep the stream alive.
func (s *Server) Changes(w http.ResponseWriter, r *http.Request, query string) {
	p, given, ok := eventPosition(w, r)
	if !ok {
		return
	}
	if _, _, err := s.opts.Log.Current(query, false); err != nil {
		s.sseError(w, err)
		return
	}
	s.stream(w, r, func(ctx context.Context, e *events) error {
		t := queryStream{s: s, e: e, query: query, pos: p}
		if !given {
			if err := t.snapshot(); err != nil {
				return err
			}
		}
		return t.follow(ctx)
	})
}

// All answers a request for the changes of all queries that allow lets through.
// The id of an event is "epoch:offset" of the store; without Last-Event-ID and
// after the stream begins with the next change. On a gap it says so (event gap)
// and goes on with the next change.
func (s *Server) All(w http.ResponseWriter, r *http.Request, allow func(*registry.Change) bool) {
	o, given, ok := eventPosition(w, r)
	if !ok {
		return
	}
	if !given {
		head, err := s.opts.Head()
		if err != nil {
			s.sseError(w, err)
			return
		}
		o = head
	}
	s.stream(w, r, func(ctx context.Context, e *events) error {
		return s.followAll(ctx, e, o, allow)
	})
}

func eventPosition(w http.ResponseWriter, r *http.Request) (p registry.Position, given, ok bool) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	if text == "" {
		return p, false, true
	}
	p, err := registry.ParsePosition(text)
	if err != nil {
		problem(w, http.StatusBadRequest, "bad-position", "after and Last-Event-ID must have the form epoch:number")
		return p, true, false
	}
	return p, true, true
}

func (s *Server) sseError(w http.ResponseWriter, err error) {
	if errors.Is(err, registry.ErrNotFound) {
		problem(w, http.StatusNotFound, "not-found", "no such query")
		return
	}
	s.opts.Logger.Error("begin an event stream", "error", err)
	w.Header().Set("Retry-After", "5")
	problem(w, http.StatusServiceUnavailable, "unavailable", "not now; try again later")
}

// stream runs one event stream to its end.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, run func(context.Context, *events) error) {
	n, ok := s.enter()
	if !ok {
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusServiceUnavailable, "unavailable", "the server is going down")
		return
	}
	defer s.leave()
	if s.full(n) {
		w.Header().Set("Retry-After", "10")
		problem(w, http.StatusTooManyRequests, "too-many", "too many connections")
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-s.drain:
			cancel()
		case <-ctx.Done():
		}
	}()
	e := newEvents(w, s.opts.Timing.Write)
	defer e.control.SetWriteDeadline(time.Time{})
	err := e.open(s.opts.Timing.Retry)
	if err == nil {
		err = run(ctx, e)
	}
	if err == nil && r.Context().Err() == nil {
		err = e.retry(s.opts.Timing.Retry / 2) // going down: somebody else may be up already
	}
	if e.slow {
		s.slow.Add(1)
	}
	s.opts.Logger.Debug("event stream closed", "reason", err)
}

// A queryStream is the event stream of one query.
type queryStream struct {
	s     *Server
	e     *events
	query string
	pos   registry.Position
}

// errEnded says that a stream is over and its reader has been told.
var errEnded = errors.New("stream ended")

func (t *queryStream) follow(ctx context.Context) error {
	for {
		err := t.read(ctx)
		var gap *registry.GapError
		switch {
		case errors.As(err, &gap):
			err = t.e.event("gap", "", frameless(field{"reason", gap.Reason}))
			if err == nil {
				err = t.snapshot()
			}
			if err != nil {
				return err
			}
			continue
		case errors.Is(err, registry.ErrNotFound):
			t.e.event("complete", "", frameless(field{"reason", "released"}))
			return errEnded
		}
		return err
	}
}

func (t *queryStream) read(ctx context.Context) error {
	feed := Feed{Log: t.s.opts.Log, Hub: t.s.opts.Hub, Heartbeat: t.s.opts.Timing.Ping}
	for page, err := range feed.Query(ctx, t.query, t.pos) {
		if err != nil {
			return err
		}
		if len(page) == 0 {
			err = t.e.comment()
		} else {
			err = t.page(page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *queryStream) page(page []registry.Change) error {
	if len(page) > t.s.opts.Limits.Fold || len(page) > 1 && t.e.lagging {
		var f folding
		if f.add(page, t.s.opts.Limits.Change) == nil {
			return t.folded(&f)
		}
	}
	for i := range page {
		if err := t.change(page[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *queryStream) folded(f *folding) error {
	t.s.folded.Add(uint64(f.count - 1))
	if f.net != nil {
		return t.change(f.change(t.pos))
	}
	t.pos = f.last.Position()
	return t.e.event("alive", t.pos.String(), frameless(field{"query", t.query}, field{"epoch", t.pos.Epoch}, field{"seq", t.pos.Seq}, field{"checked_at", timeOrNil(f.last.CheckedAt)}))
}

func (t *queryStream) change(c registry.Change) error {
	data, err := MarshalChange(c, t.s.format())
	if err != nil {
		return err
	}
	t.pos = c.Position()
	t.s.sent.Add(1)
	return t.e.event("change", t.pos.String(), data)
}

// snapshot sends the present result; before the first one it sends nothing.
func (t *queryStream) snapshot() error {
	st, res, err := t.s.results.current(t.query)
	if err != nil {
		return err
	}
	t.pos = st.Position
	if res == nil {
		return nil
	}
	fields := []field{{"query", t.query}, {"epoch", t.pos.Epoch}, {"seq", t.pos.Seq}, {"time", st.ChangedAt}, {"checked_at", st.CheckedAt},
		{"form", string(res.Form())}, {"ordered", orNil(res.Ordered())}, {"hash", st.Hash}}
	if limit := t.s.opts.Limits.Change; limit > 0 && int64(res.Size()) > limit {
		fields = append(fields, field{"truncated", true}, field{"count", res.Len()}, field{"results", t.s.format().ResultsURL(t.query)})
	} else {
		all := tableRows{res: res, vars: res.Vars()}
		fields = append(fields, field{"results", json.RawMessage(all.json(0, all.len()))})
	}
	t.s.sent.Add(1)
	return t.e.event("snapshot", t.pos.String(), frameless(fields...))
}

func (s *Server) followAll(ctx context.Context, e *events, o registry.Offset, allow func(*registry.Change) bool) error {
	for {
		err := s.readAll(ctx, e, &o, allow)
		var gap *registry.GapError
		if !errors.As(err, &gap) {
			return err
		}
		if o, err = s.opts.Head(); err != nil {
			return err
		}
		if err := e.event("gap", o.String(), frameless(field{"reason", gap.Reason})); err != nil {
			return err
		}
	}
}

func (s *Server) readAll(ctx context.Context, e *events, o *registry.Offset, allow func(*registry.Change) bool) error {
	feed := Feed{Log: s.opts.Log, Hub: s.opts.Hub, Heartbeat: s.opts.Timing.Ping}
	for page, err := range feed.All(ctx, *o) {
		if err != nil {
			return err
		}
		if len(page) == 0 { // an id without data moves the reader on, past what it may not see
			if err := e.write("id: " + o.String() + "\n:\n\n"); err != nil {
				return err
			}
			continue
		}
		for i := range page {
			o.Seq = page[i].Offset
			if !allow(&page[i]) {
				continue
			}
			data, err := MarshalChange(page[i], s.format())
			if err != nil {
				return err
			}
			s.sent.Add(1)
			if err := e.event("change", o.String(), data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Server) format() Format {
	return Format{MaxChange: s.opts.Limits.Change, PublicURL: s.opts.PublicURL}
}
