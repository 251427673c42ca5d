package notify

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// Changes answers a caller's request for one query's changes with server-sent events: the channel queryChanges of
// web/docs/asyncapi.yaml. The caller of Changes must check that the client may read the query. A deadline of the
// request's context, such as the expiry of a token, ends the stream.
func (s *Server) Changes(w http.ResponseWriter, r *http.Request, caller string, query registry.Query) {
	p, given, ok := eventPosition(w, r)
	if !ok {
		return
	}
	o := StreamOptions{Limited: true, As: eventsOf(r, caller)}
	var err error
	if o.Filter, o.Rate, err = cursor.ParseParams(r.URL.Query()); err == nil {
		err = o.Filter.Fits(&query)
	}
	if err != nil {
		malformed(w, err)
		return
	}
	if !given {
		err = s.opts.Confirm()
	}
	var st registry.Status
	if err == nil {
		st, _, err = s.opts.Log.Current(query.ID, false)
	}
	if err != nil {
		s.sseError(w, err)
		return
	}
	if given {
		o.After = &p
	} else if st.Position.Seq == 0 { // no result yet: the first event is a change
		o.After = &st.Position
	}
	s.stream(w, r, func(ctx context.Context, e *events) error {
		o.Lagging = func() bool { return e.lagging }
		t := changesStream{s: s, e: e, query: query.ID}
		return e.ended(s.Follow(ctx, t.query, &o, t.write))
	})
}

// eventsOf returns the listing entry of an event stream.
func eventsOf(r *http.Request, caller string) *registry.Subscription {
	return &registry.Subscription{Way: registry.SSE, Caller: caller, Client: Program(r),
		Remote: registry.ClientAddress(r.RemoteAddr, r.Header["X-Forwarded-For"])}
}

// lastEventID returns the event id to resume from, "" for none.
func lastEventID(r *http.Request) string {
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		return text
	}
	return r.URL.Query().Get("after")
}

func eventPosition(w http.ResponseWriter, r *http.Request) (p registry.Position, given, ok bool) {
	text := lastEventID(r)
	if text == "" {
		return p, false, true
	}
	p, err := registry.ParsePosition(text)
	if err != nil {
		badPosition(w, r, "have the form epoch:number")
		return p, true, false
	}
	return p, true, true
}

func (s *Server) sseError(w http.ResponseWriter, err error) {
	if errors.Is(err, registry.ErrNotFound) {
		Problem(w, http.StatusNotFound, registry.KindNotFound, "no such query")
		return
	}
	s.opts.Logger.Error("begin an event stream", "error", err)
	w.Header().Set("Retry-After", "5")
	Problem(w, http.StatusServiceUnavailable, registry.KindUnavailable, cmp.Or(Elsewhere(err), "not now; try again later"))
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, run func(context.Context, *events) error) {
	place, ok := s.Connect(w, r, registry.SSE)
	if !ok {
		return
	}
	defer place.Leave()
	if place.Refused != "" {
		w.Header().Set("Retry-After", "10")
		Problem(w, http.StatusTooManyRequests, registry.KindTooMany, place.Refused)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.down, cancel)()
	e := newEvents(w, s.opts.Timing.Write)
	defer e.control.SetWriteDeadline(time.Time{})
	err := e.open(s.opts.Timing.Retry)
	if err == nil {
		err = run(ctx, e)
	}
	if err == nil && r.Context().Err() == nil {
		err = e.retry(s.opts.Timing.Retry / 2) // going down: the next server may be up already
	}
	if e.slow {
		place.Slow()
	}
	s.opts.Logger.Debug("event stream closed", "reason", err)
}

// errEnded reports that a stream has ended and its reader was informed.
var errEnded = errors.New("stream ended")

func (e *events) complete(reason string) error {
	e.event("complete", "", frameless(field{"reason", reason}))
	return errEnded
}

// ended writes the last event if what was followed is gone, or an operator has ended the stream.
func (e *events) ended(err error) error {
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return e.complete("released")
	case errors.Is(err, ErrDropped):
		return e.complete("dropped")
	}
	return err
}

// A changesStream writes the stream of one query as events.
type changesStream struct {
	s     *Server
	e     *events
	query string
}

func (t *changesStream) write(ev *StreamEvent) error {
	id := ev.At.String()
	switch ev.Kind {
	case StreamGap:
		return t.e.event("gap", "", frameless(field{"reason", ev.Reason}))
	case StreamMoved:
		return t.e.event("alive", id, frameless(field{"query", t.query}, field{"epoch", ev.At.Epoch}, field{"seq", ev.At.Seq},
			field{"checked_at", TimeOrNil(ev.CheckedAt)}, field{"proved", TimeOrNil(t.s.Proved(t.query, ev.At))}))
	case StreamChange:
		doc, err := t.s.OpenChange(ev)
		if err != nil {
			return err
		}
		ev.Release()
		return t.e.document("change", id, []byte("{"), doc, []byte("}"))
	case StreamSnapshot:
		if ev.Result == nil { // nothing to show before the first result
			return nil
		}
		head, doc, err := t.snapshot(ev)
		if err != nil {
			return err
		}
		ev.Release()
		return t.e.document("snapshot", id, head, doc, []byte("}"))
	}
	return t.e.comment()
}

// snapshot returns a result as an event: its head, and its rows unless there are
// too many.
func (t *changesStream) snapshot(ev *StreamEvent) (head []byte, doc *Document, err error) {
	st, at, res := &ev.Status, ev.At, ev.Result
	rows, err := t.s.table(t.query, at, ev.filter)
	if errors.Is(err, ErrMoved) { // since the event was made
		rows, err = tableOf(ev.filter, res), nil
	}
	if err != nil {
		return nil, nil, err
	}
	fields := []field{{"query", t.query}, {"epoch", at.Epoch}, {"seq", at.Seq}, {"time", st.ChangedAt}, {"checked_at", st.CheckedAt},
		{"proved", TimeOrNil(t.s.Proved(t.query, at))}, {"form", string(res.Form())}, {"ordered", OrNil(res.Ordered())}}
	if ev.Filtered {
		fields = append(fields, field{"filtered", true})
	} else {
		fields = append(fields, field{"hash", st.Hash})
	}
	if limit := t.s.opts.Limits.Change; limit > 0 && int64(rows.size(0, rows.len())) > limit {
		fields = append(fields, field{"truncated", true}, field{"count", rows.len()}, field{"results", t.s.format(nil).ResultsURL(t.query)})
		head = frameless(fields...)
		return head[:len(head)-1], nil, nil
	}
	head = frameless(fields...)
	head = append(head[:len(head)-1], `,"results":`...)
	doc, err = t.s.openRows(t.query, at, ev.filter, rows, "result ", 0, rows.len())
	return head, doc, err
}
