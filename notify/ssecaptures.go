package notify

import (
	"context"
	"iter"
	"net/http"

	"github.com/freshet/freshet/registry"
)

// ProfileCaptures answers a request for a profile's captures with server-sent events: the channel captures of
// web/docs/asyncapi.yaml. The caller must check that the client may read the profile.
func (s *Server) ProfileCaptures(w http.ResponseWriter, r *http.Request, caller string, p registry.Profile) {
	at, given, ok := eventPosition(w, r)
	if !ok {
		return
	}
	o := StreamOptions{As: eventsOf(r, caller)}
	if given {
		o.After = &at
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	next, stop := iter.Pull2(s.FollowCaptures(ctx, p, o))
	defer stop()
	ev, err, more := next() // before the response, which is followed by all that happens later
	if err != nil {
		s.sseError(w, err)
		return
	}
	s.stream(w, r, func(streaming context.Context, e *events) error {
		defer context.AfterFunc(streaming, cancel)()
		for ; more; ev, err, more = next() {
			if err == nil {
				err = e.capture(&ev)
			}
			if err != nil {
				return e.ended(err)
			}
		}
		return nil
	})
}

func (e *events) capture(ev *CaptureEvent) error {
	switch ev.Kind {
	case StreamGap:
		return e.event("gap", ev.At.String(), frameless(field{"reason", ev.Reason}))
	case StreamChange:
		if ev.End.State == registry.RoundCaptured {
			return e.event("captured", ev.At.String(), frameless(ev.Members()...))
		}
		return e.event("expired", "", frameless(ev.Members()...))
	case StreamIdle:
		return e.comment()
	}
	return nil
}
