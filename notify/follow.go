package notify

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/freshet/freshet/registry"
)

// subscribeProfile opens a subscription to a profile's captures. It shares with
// those to queries whatever is not about results: ids, windows, wake-ups, the
// listing and the end.
func (s *session) subscribeProfile(r request) error {
	var ref string
	if json.Unmarshal(r.Profile, &ref) != nil || ref == "" {
		return badParams("profile must be an id or a name")
	}
	if s.srv.opts.Captures == nil || s.srv.opts.ResolveProfile == nil {
		return badParams("there are no profiles here")
	}
	if len(r.Query) > 0 || r.SPARQL != "" || r.Filter != nil || r.Rate != nil || r.Mode != "" {
		return badParams("a subscription to a profile has neither query, mode, filter nor rate: each capture is a message of its own")
	}
	from, given, err := r.position()
	if err != nil {
		return err
	}
	p, err := s.srv.opts.ResolveProfile(s.caller, ref)
	if errors.Is(err, registry.ErrNotFound) {
		return &refusal{code: CodeUnknownQuery, message: "no profile has this id or name"}
	}
	if r := ambiguous(err); r != nil {
		return r
	}
	if err := s.unavailable("resolve a profile", err); err != nil {
		return err
	}
	sub := &subscription{id: r.ID, release: func() {}, query: registry.Query{ID: p.ID, Endpoint: p.Endpoint}, captures: &capturesCursor{profile: p.ID}}
	s.enter(sub) // first the wake-ups, then the log
	s.list(sub, nil)
	sub.captures.listed = sub.listed
	if !given {
		return s.startProfile(sub, s.restartCaptures(sub, ""))
	}
	err = sub.captures.from(s.srv.opts.Captures, from)
	var gap *registry.GapError
	if errors.As(err, &gap) {
		return s.startProfile(sub, s.restartCaptures(sub, gap.Reason))
	}
	if err == nil {
		sub.movedTo(&from)
		s.enqueue(sub)
		err = s.followed(sub, true, "")
	}
	return s.startProfile(sub, err)
}

// startProfile ends a subscription that could not begin.
func (s *session) startProfile(sub *subscription, err error) error {
	var gone *closing
	if err == nil || errors.Is(err, errGone) || errors.As(err, &gone) {
		return err
	}
	s.leave(sub)
	if errors.Is(err, registry.ErrNotFound) {
		return &refusal{code: CodeUnknownQuery, message: "the profile ended"}
	}
	return s.unavailable("start a subscription", err)
}

// restartCaptures begins behind all that there is.
func (s *session) restartCaptures(sub *subscription, reason string) error {
	sub.captures.pos, sub.captures.end = registry.Position{}, 0
	if err := sub.captures.newest(s.srv.opts.Captures); err != nil {
		return err
	}
	at := sub.captures.pos
	sub.movedTo(&at)
	s.enqueue(sub)
	return s.followed(sub, false, reason)
}

func (s *session) followed(sub *subscription, resumed bool, reason string) error {
	return s.write(frame("subscribed", field{"id", sub.id}, field{"profile", sub.captures.profile}, field{"epoch", sub.pos.Epoch},
		field{"seq", sub.pos.Seq}, field{"resumed", resumed}, field{"reason", reason}))
}

// deliverCaptures sends a page of what follows, for as long as its reader keeps
// up. Captures are never folded: each is about its own results.
func (s *session) deliverCaptures(sub *subscription) error {
	page, err := sub.captures.next(s.srv.opts.Captures)
	if err != nil || len(page) == 0 {
		return err
	}
	for i := range page {
		if sub.full(s.srv.opts.Limits.Window) {
			return nil // ack will queue it again
		}
		if err := s.sayEnd(sub, &page[i]); err != nil {
			return err
		}
	}
	s.enqueue(sub) // until the log has no more
	return nil
}

func (s *session) sayEnd(sub *subscription, e *registry.RoundEnd) error {
	kind, fields := "status", expired
	if e.State == registry.RoundCaptured {
		kind, fields = "captured", captured
	}
	if err := s.write(frame(kind, append([]field{{"id", sub.id}}, fields(e)...)...)); err != nil {
		return err
	}
	sub.captures.passed(e)
	sub.lastSent = time.Now()
	if e.State == registry.RoundCaptured {
		s.srv.sent.Add(1)
		at := e.Position
		sub.movedTo(&at)
		sub.counts(s.srv.opts.Limits.Window)
	}
	return nil
}

// aliveCaptures tells a quiet subscription that nothing was captured, or finds
// that something was.
func (s *session) aliveCaptures(sub *subscription) error {
	page, err := sub.captures.next(s.srv.opts.Captures)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return s.complete(sub, "released")
	case err != nil || len(page) > 0:
		s.enqueue(sub)
		return nil
	}
	return s.sayAlive(sub, time.Now())
}
