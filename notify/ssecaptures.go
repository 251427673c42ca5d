package notify

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/freshet/freshet/registry"
)

// ProfileCaptures answers a request for a profile's captures with server-sent events.
// The caller must check that the client may read the profile.
//
//	event: captured   id: epoch:seq   every item of a round was executed in time
//	event: expired                    a round was missed, and why
//	event: gap        id: epoch:seq   {"reason"}: the log does not continue from the
//	                                  requested position; the stream continues here
//	event: complete                   {"reason"}: the profile ended
//
// A request names the position to resume from in Last-Event-ID or else in the
// parameter after. Without either, the stream starts with the next event. After a
// reconnection, expiries since the named capture are sent again with the same round.
func (s *Server) ProfileCaptures(w http.ResponseWriter, r *http.Request, caller string, p registry.Profile) {
	at, given, ok := eventPosition(w, r)
	if !ok {
		return
	}
	c := capturesCursor{profile: p.ID}
	err := c.begin(s.opts.Captures, at, given)
	var gap *registry.GapError
	if err != nil && !errors.As(err, &gap) {
		s.sseError(w, err)
		return
	}
	s.stream(w, r, func(ctx context.Context, e *events) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		awake := s.opts.Waker.Follow(p.ID) // before the first read, so that no commit slips between
		defer awake.Close()
		about := eventsOf(r, caller)
		about.Profile, about.Endpoint = p.ID, p.Endpoint
		c.listed = s.list(about, c.pos, func() { cancel(ErrDropped) }, awake.signal)
		defer s.listing.remove(c.listed)
		t := &capturesStream{s: s, e: e, c: &c, awake: awake}
		if gap != nil {
			if err := t.gap(gap); err != nil {
				return err
			}
		}
		err := t.run(ctx)
		if errors.Is(context.Cause(ctx), ErrDropped) {
			return e.complete("dropped")
		}
		return err
	})
}

// A capturesStream writes the events of a profile.
type capturesStream struct {
	s     *Server
	e     *events
	c     *capturesCursor
	awake *Follower
}

func (t *capturesStream) gap(gap *registry.GapError) error {
	t.c.pos, t.c.end = registry.Position{}, 0
	if err := t.c.newest(t.s.opts.Captures); err != nil {
		return t.endOfProfile(err)
	}
	return t.e.event("gap", t.c.pos.String(), frameless(field{"reason", gap.Reason}))
}

// endOfProfile writes the end of a stream whose profile is gone.
func (t *capturesStream) endOfProfile(err error) error {
	if errors.Is(err, registry.ErrNotFound) {
		return t.e.complete("released")
	}
	return err
}

func (t *capturesStream) run(ctx context.Context) error {
	beat := time.NewTicker(t.s.opts.Timing.Ping)
	defer beat.Stop()
	for ctx.Err() == nil {
		wrote := false
		if !t.c.listed.paused.Load() {
			var err error
			if wrote, err = t.roundEnds(); err != nil {
				return err
			}
		}
		if wrote {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.awake.C():
		case <-beat.C:
		}
		if err := t.e.comment(); err != nil {
			return err
		}
	}
	return nil
}

// roundEnds writes the next page of ends, and reports whether there was one.
func (t *capturesStream) roundEnds() (wrote bool, err error) {
	page, err := t.c.next(t.s.opts.Captures)
	var gap *registry.GapError
	if errors.As(err, &gap) {
		return true, t.gap(gap)
	}
	if err != nil {
		return false, t.endOfProfile(err)
	}
	for i := range page {
		if err := t.roundEnd(&page[i]); err != nil {
			return false, err
		}
		t.c.passed(&page[i])
		t.c.listed.delivered(time.Now())
	}
	return len(page) > 0, nil
}

func (t *capturesStream) roundEnd(x *registry.RoundEnd) error {
	t.s.sent.Add(1)
	if x.State == registry.RoundCaptured {
		return t.e.event("captured", x.Position.String(), frameless(captured(x)...))
	}
	return t.e.event("expired", "", frameless(expired(x)...))
}
