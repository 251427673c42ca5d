package notify

import (
	"context"
	"errors"
	"time"

	"github.com/freshet/freshet/registry"
)

// A capturesFollower sends the captures of a profile. They are never folded, because each
// is about its own results.
type capturesFollower struct {
	*subscription
	cursor capturesCursor
	from   *registry.Position
	awake  *Follower
	last   time.Time // when the client last got something
}

func newCapturesFollower(sub *subscription, from registry.Position, given bool) *capturesFollower {
	s := sub.c.srv
	f := &capturesFollower{subscription: sub, cursor: capturesCursor{profile: sub.follows}, awake: s.opts.Waker.followOne(sub.follows, &sub.c.out)}
	if given {
		f.from = &from
	}
	sub.wake = f.awake.signal
	about := sub.about()
	about.Profile, about.Endpoint = sub.follows, sub.endpoint
	f.cursor.listed = s.list(about, f.cursor.pos, func() { sub.cancel(ErrDropped) }, f.awake.signal)
	return f
}

func (f *capturesFollower) close() {
	f.c.srv.listing.remove(f.cursor.listed)
	f.awake.Close()
}

func (f *capturesFollower) begin() error {
	if f.from == nil {
		return f.restart("")
	}
	err := f.cursor.from(f.c.srv.opts.Captures, *f.from)
	var gap *registry.GapError
	if errors.As(err, &gap) {
		return f.restart(gap.Reason)
	}
	if err == nil {
		f.subscribed(true, "")
	}
	return err
}

// restart starts again after the newest capture.
func (f *capturesFollower) restart(reason string) error {
	f.cursor.pos, f.cursor.end = registry.Position{}, 0
	err := f.cursor.newest(f.c.srv.opts.Captures)
	if err == nil {
		f.subscribed(false, reason)
	}
	return err
}

func (f *capturesFollower) subscribed(resumed bool, reason string) {
	p := f.cursor.pos
	f.cursor.listed.moved(p)
	f.last = time.Now()
	defer f.start()
	f.c.out.add(frame("subscribed", field{"id", f.id}, field{"profile", f.follows}, field{"epoch", p.Epoch},
		field{"seq", p.Seq}, field{"resumed", resumed}, field{"reason", reason}))
}

func (f *capturesFollower) run() error {
	for f.ctx.Err() == nil {
		page, err := f.cursor.next(f.c.srv.opts.Captures)
		var gap *registry.GapError
		switch {
		case errors.As(err, &gap):
			err = f.restart(gap.Reason)
		case err == nil && (len(page) == 0 || f.cursor.listed.paused.Load() || f.full()):
			if f.awake.wait(f.ctx, f.last.Add(f.c.srv.opts.Timing.Ping), time.Time{}) {
				f.last = time.Now()
				if len(page) == 0 {
					f.alive(f.cursor.pos, f.last)
				}
			}
		}
		if err != nil {
			return err
		}
		for i := 0; i < len(page) && !f.full() && !f.cursor.listed.paused.Load(); i++ {
			f.add(&page[i])
		}
	}
	return context.Cause(f.ctx)
}

// add adds the end of a round to the output.
func (f *capturesFollower) add(e *registry.RoundEnd) {
	kind, fields := "status", expired
	if e.State == registry.RoundCaptured {
		kind, fields = "captured", captured
	}
	f.c.out.add(frame(kind, append([]field{{"id", f.id}}, fields(e)...)...))
	f.cursor.passed(e)
	f.last = time.Now()
	if e.State == registry.RoundCaptured {
		f.c.srv.sent.Add(1)
		f.cursor.listed.delivered(f.last)
		f.sent(e.Position.Seq)
	}
}
