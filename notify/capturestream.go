package notify

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// A CaptureEvent is one event of a profile for a consumer. At is the consumer's position after it.
type CaptureEvent struct {
	Kind   StreamKind // StreamResumed, StreamGap and StreamMoved begin; StreamChange and StreamIdle follow
	At     registry.Position
	Reason string             // of StreamGap
	End    *registry.RoundEnd // of StreamChange
}

// Members returns the members of a message about the end of a round.
func (e *CaptureEvent) Members() []Field {
	if e.End.State == registry.RoundCaptured {
		return captured(e.End)
	}
	return expired(e.End)
}

// FollowCaptures follows the rounds of a profile for one consumer, as Follow does a query. They are
// never folded, because each is about its own results. It begins after the newest capture, or goes on
// from After. Of the options, only After, As and Live apply.
func (s *Server) FollowCaptures(ctx context.Context, p registry.Profile, o StreamOptions) iter.Seq2[CaptureEvent, error] {
	return func(yield func(CaptureEvent, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		t := captureStream{s: s, ctx: ctx, live: o.Live, profile: p.ID, awake: s.opts.Waker.followOne(p.ID, o.Live.turn()), yield: yield}
		defer t.awake.Close()
		if t.listed = o.entry(); t.listed == nil {
			about := *o.As
			about.Profile, about.Endpoint = p.ID, p.Endpoint
			t.listed = s.Enlist(about, func() { cancel(ErrDropped) })
			defer t.listed.Leave()
		}
		t.listed.follow(t.pos, t.awake)
		err := t.begin(o.After)
		for err == nil && ctx.Err() == nil {
			err = t.step()
		}
		switch {
		case err == errStopped:
			return
		case context.Cause(ctx) == ErrDropped:
			err = ErrDropped
		case ctx.Err() != nil:
			return
		}
		yield(CaptureEvent{At: t.pos}, err)
	}
}

// entry returns the entry that a consumer has made, nil for none.
func (o *StreamOptions) entry() *Entry {
	if o.Live == nil {
		return nil
	}
	return o.Live.Entry
}

// errStopped reports that the consumer ended the iteration.
var errStopped = errors.New("the consumer stopped")

// A captureStream passes the ends of rounds to a consumer, which resumes from a capture.
type captureStream struct {
	s       *Server
	ctx     context.Context
	live    *LiveOptions
	profile string
	pos     registry.Position // of the newest capture that was sent
	ends    uint64            // of rounds that were sent, expiries included: each connection gets each of them once
	awake   *Follower
	listed  *Entry
	last    time.Time // when the consumer last got something
	yield   func(CaptureEvent, error) bool
}

func (t *captureStream) begin(after *registry.Position) error {
	if after == nil {
		return t.restart(CaptureEvent{Kind: StreamMoved})
	}
	end, err := t.s.opts.Captures.EndOf(t.profile, *after)
	var gap *registry.GapError
	switch {
	case errors.As(err, &gap):
		return t.restart(CaptureEvent{Kind: StreamGap, Reason: gap.Reason})
	case err != nil:
		return err
	}
	t.pos, t.ends = *after, end
	return t.emit(CaptureEvent{Kind: StreamResumed})
}

// restart goes on after the newest end. Expiries may follow the newest capture.
func (t *captureStream) restart(e CaptureEvent) error {
	st, err := t.s.opts.Captures.ProfileStatus(t.profile)
	if err != nil {
		return err
	}
	t.pos, t.ends = st.Position, st.Seq+st.Expired
	return t.emit(e)
}

func (t *captureStream) emit(e CaptureEvent) error {
	t.last, e.At = time.Now(), t.pos
	t.listed.moved(e.At)
	if !t.yield(e, nil) {
		return errStopped
	}
	return nil
}

// held reports whether the consumer takes nothing now.
func (t *captureStream) held() bool { return t.listed.paused.Load() || t.live != nil && t.live.Full() }

// step emits the next ends, or waits.
func (t *captureStream) step() error {
	page, err := t.s.opts.Captures.Ends(t.profile, t.pos.Epoch, t.ends, cursor.PageSize)
	var gap *registry.GapError
	switch {
	case errors.As(err, &gap):
		return t.restart(CaptureEvent{Kind: StreamGap, Reason: gap.Reason})
	case err != nil:
		return err
	case len(page) > 0 && !t.held():
		for i := 0; i < len(page) && err == nil && !t.held(); i++ {
			err = t.end(&page[i])
		}
		return err
	case t.awake.wait(t.ctx, t.last.Add(t.s.opts.Timing.Ping), time.Time{}):
		if t.last = time.Now(); len(page) == 0 || t.live == nil {
			return t.emit(CaptureEvent{Kind: StreamIdle})
		}
	}
	return nil
}

func (t *captureStream) end(e *registry.RoundEnd) error {
	t.ends = e.End
	if e.State == registry.RoundCaptured {
		t.pos = e.Position
	}
	if e.State == registry.RoundCaptured || t.live == nil {
		t.listed.delivered(time.Now())
	}
	return t.emit(CaptureEvent{Kind: StreamChange, End: e})
}
