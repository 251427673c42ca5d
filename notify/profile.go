package notify

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/freshet/freshet/registry"
)

// subscribeProfile opens a subscription to a profile's captures. Subscriptions to
// queries and to profiles share everything that is not about results: ids, windows,
// wake-ups, the listing and the end.
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
	p, err := s.srv.opts.ResolveProfile(s.login.caller, ref)
	if errors.Is(err, registry.ErrNotFound) {
		return &refusal{code: CodeUnknownQuery, message: "no profile has this id or name"}
	}
	if r := ambiguous(err); r != nil {
		return r
	}
	if err := s.srv.unavailable("resolve a profile", err); err != nil {
		return err
	}
	sub := &subscription{id: r.ID, session: s, release: func() {}, follows: p.ID, endpoint: p.Endpoint, captures: &capturesCursor{profile: p.ID}}
	s.subs.enter(sub) // first the wake-ups, then the log
	sub.list(nil)
	sub.captures.listed = sub.listed
	return sub.begun(sub.beginCaptures(from, given), "the profile ended")
}

func (sub *subscription) beginCaptures(from registry.Position, given bool) error {
	if !given {
		return sub.restartCaptures("")
	}
	err := sub.captures.from(sub.session.srv.opts.Captures, from)
	var gap *registry.GapError
	if errors.As(err, &gap) {
		return sub.restartCaptures(gap.Reason)
	}
	if err != nil {
		return err
	}
	return sub.followed(true, "")
}

// restartCaptures starts again after the newest capture.
func (sub *subscription) restartCaptures(reason string) error {
	sub.captures.pos, sub.captures.end = registry.Position{}, 0
	if err := sub.captures.newest(sub.session.srv.opts.Captures); err != nil {
		return err
	}
	return sub.followed(false, reason)
}

func (sub *subscription) followed(resumed bool, reason string) error {
	sub.moved()
	sub.session.enqueue(sub)
	p := sub.at()
	return sub.session.out.write(frame("subscribed", field{"id", sub.id}, field{"profile", sub.follows}, field{"epoch", p.Epoch},
		field{"seq", p.Seq}, field{"resumed", resumed}, field{"reason", reason}))
}

// deliverCaptures sends a page of the following ends while the client keeps up.
// Captures are never folded, because each is about its own results.
func (sub *subscription) deliverCaptures() error {
	page, err := sub.captures.next(sub.session.srv.opts.Captures)
	if err != nil || len(page) == 0 {
		return err
	}
	for i := range page {
		if sub.full() {
			return nil // ack will queue it again
		}
		if err := sub.addEnd(&page[i]); err != nil {
			return err
		}
	}
	sub.session.enqueue(sub) // until the log has no more
	return nil
}

func (sub *subscription) addEnd(e *registry.RoundEnd) error {
	kind, fields := "status", expired
	if e.State == registry.RoundCaptured {
		kind, fields = "captured", captured
	}
	if err := sub.session.out.write(frame(kind, append([]field{{"id", sub.id}}, fields(e)...)...)); err != nil {
		return err
	}
	sub.captures.passed(e)
	sub.lastSent = time.Now()
	if e.State == registry.RoundCaptured {
		sub.sent()
	}
	return nil
}

// heartbeatOfCaptures confirms to a quiet client that nothing was captured, or
// enqueues the subscription if something was.
func (sub *subscription) heartbeatOfCaptures() error {
	s := sub.session
	page, err := sub.captures.next(s.srv.opts.Captures)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return sub.end("released")
	case err != nil || len(page) > 0:
		s.enqueue(sub)
		return nil
	}
	return sub.alive(time.Now())
}
