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
		if gap != nil {
			if err := s.writeCapturesGap(e, &c, gap); err != nil {
				return err
			}
		}
		err := s.writeCaptures(ctx, e, &c, awake)
		if errors.Is(context.Cause(ctx), ErrDropped) {
			return e.complete("dropped")
		}
		return err
	})
}

func (s *Server) writeCapturesGap(e *events, c *capturesCursor, gap *registry.GapError) error {
	c.pos, c.end = registry.Position{}, 0
	if err := c.newest(s.opts.Captures); err != nil {
		return s.endOfProfile(e, err)
	}
	return e.event("gap", c.pos.String(), frameless(field{"reason", gap.Reason}))
}

// endOfProfile writes the end of a stream whose profile is gone.
func (s *Server) endOfProfile(e *events, err error) error {
	if errors.Is(err, registry.ErrNotFound) {
		return e.complete("released")
	}
	return err
}

func (s *Server) writeCaptures(ctx context.Context, e *events, c *capturesCursor, awake *Follower) error {
	beat := time.NewTicker(s.opts.Timing.Ping)
	defer beat.Stop()
	for ctx.Err() == nil {
		wrote := false
		if !c.listed.paused.Load() {
			var err error
			if wrote, err = s.writeRoundEnds(e, c); err != nil {
				return err
			}
		}
		if wrote {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-awake.C():
		case <-beat.C:
		}
		if err := e.comment(); err != nil {
			return err
		}
	}
	return nil
}

// writeRoundEnds writes the next page of ends, and reports whether there was one.
func (s *Server) writeRoundEnds(e *events, c *capturesCursor) (wrote bool, err error) {
	page, err := c.next(s.opts.Captures)
	var gap *registry.GapError
	if errors.As(err, &gap) {
		return true, s.writeCapturesGap(e, c, gap)
	}
	if err != nil {
		return false, s.endOfProfile(e, err)
	}
	for i := range page {
		if err := s.writeRoundEnd(e, &page[i]); err != nil {
			return false, err
		}
		c.passed(&page[i])
		c.listed.delivered(time.Now())
	}
	return len(page) > 0, nil
}

func (s *Server) writeRoundEnd(e *events, x *registry.RoundEnd) error {
	s.sent.Add(1)
	if x.State == registry.RoundCaptured {
		return e.event("captured", x.Position.String(), frameless(captured(x)...))
	}
	return e.event("expired", "", frameless(expired(x)...))
}
