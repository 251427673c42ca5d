package notify

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// Captures is the committed history of profiles. Methods may be called
// concurrently; what they return is the caller's. Errors wrap
// registry.ErrNotFound when there is no such profile (any more), and are a
// *registry.GapError where the log does not continue.
type Captures interface {
	// ProfileStatus returns the position of the newest capture, and the counts.
	ProfileStatus(profile string) (registry.ProfileStatus, error)
	// EndOf finds the place of a capture among the ends of its profile's rounds,
	// captured and expired; Seq 0 is before the first.
	EndOf(profile string, p registry.Position) (end uint64, err error)
	// Ends returns the ends that follow a place, oldest first, at most limit.
	Ends(profile, epoch string, end uint64, limit int) ([]registry.RoundEnd, error)
}

// A capturesCursor is a reader's place in a profile's history. A reader resumes from
// a capture. The cursor also counts all ends of rounds, so that each connection gets
// each expiry once.
type capturesCursor struct {
	profile string
	pos     registry.Position // the newest capture that was sent
	end     uint64
	listed  *listed // as others see it, nil before they do
}

// from places a cursor behind a capture.
func (c *capturesCursor) from(log Captures, p registry.Position) error {
	end, err := log.EndOf(c.profile, p)
	if err == nil {
		c.pos, c.end = p, end
	}
	return err
}

// newest places a cursor behind all there is.
func (c *capturesCursor) newest(log Captures) error {
	s, err := log.ProfileStatus(c.profile)
	if err != nil {
		return err
	}
	c.pos = s.Position
	for { // expiries may follow the newest capture
		list, err := log.Ends(c.profile, c.pos.Epoch, c.end, cursor.PageSize)
		if err != nil {
			var gap *registry.GapError
			if errors.As(err, &gap) && gap.Reason == registry.TooOld {
				if c.end, err = log.EndOf(c.profile, c.pos); err == nil {
					continue
				}
			}
			return err
		}
		if len(list) == 0 {
			return nil
		}
		for i := range list {
			c.passed(&list[i])
		}
	}
}

// next reads what follows.
func (c *capturesCursor) next(log Captures) ([]registry.RoundEnd, error) {
	return log.Ends(c.profile, c.pos.Epoch, c.end, cursor.PageSize)
}

// passed moves a cursor behind an end.
func (c *capturesCursor) passed(e *registry.RoundEnd) {
	c.end = e.End
	if e.State == registry.RoundCaptured {
		c.pos = e.Position
	}
	if c.listed != nil {
		c.listed.moved(c.pos)
	}
}

// A captureResult is the position of a result in a capture.
type captureResult struct {
	Query string `json:"query"`
	registry.Position
	At   any    `json:"captured_at"`
	Slot uint64 `json:"slot"`
	Why  string `json:"tier"`
}

// captured are the members of a message about a captured round, after its id.
func captured(e *registry.RoundEnd) []field {
	results := make([]captureResult, len(e.Intervals))
	for i := range e.Intervals {
		x := &e.Intervals[i]
		results[i].Query = x.Query
		if d := x.Done; d != nil {
			results[i] = captureResult{x.Query, d.Position, timeOrNil(d.At), d.Slot, d.Why}
		}
	}
	return []field{{"profile", e.Profile}, {"epoch", e.Position.Epoch}, {"seq", e.Position.Seq}, {"prev", e.Position.Seq - 1},
		{"round", e.Number}, {"time", e.EndedAt}, {"slot", e.EndedSlot}, {"opened_at", e.OpenedAt}, {"trigger", causeOrNil(e.Trigger)},
		{"results", results}, {"expired_count", e.Expired}}
}

func causeOrNil(c registry.Cause) any {
	if c.Query == "" {
		return nil
	}
	return c
}

// expired are those of one that has expired. It moves no position.
func expired(e *registry.RoundEnd) []field {
	type missed struct {
		Query  string `json:"query"`
		Reason string `json:"reason"`
	}
	var lost []missed
	for i := range e.Intervals {
		if x := &e.Intervals[i]; x.Reason != "" {
			lost = append(lost, missed{x.Query, x.Reason})
		}
	}
	return []field{{"profile", e.Profile}, {"state", string(registry.RoundExpired)}, {"round", e.Number}, {"time", e.EndedAt}, {"slot", e.EndedSlot},
		{"opened_at", e.OpenedAt}, {"trigger", causeOrNil(e.Trigger)}, {"error", e.Reason}, {"missed", lost}, {"expired_count", e.Expired}}
}

// ProfileCaptures answers a request for a profile's captures with server-sent
// events. Whether the caller may read it is for the caller to check.
//
//	event: captured   id: epoch:seq   every item of a round was executed in time
//	event: expired                    a round was missed, and why
//	event: gap        id: epoch:seq   {"reason"}: the log does not continue from
//	                                  where the request said; it goes on after here
//	event: complete                   {"reason"}: the profile ended
//
// A request says where to go on by Last-Event-ID or, failing that, by after;
// without them the stream begins with what comes next. After a reconnection
// expiries since the named capture are sent again, with the same round.
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
			e.event("complete", "", frameless(field{"reason", "dropped"}))
			return errEnded
		}
		return err
	})
}

func (c *capturesCursor) begin(log Captures, at registry.Position, given bool) error {
	if given {
		return c.from(log, at)
	}
	return c.newest(log)
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
		e.event("complete", "", frameless(field{"reason", "released"}))
		return errEnded
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
