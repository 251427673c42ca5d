package notify

import "time"

// An alarm fires at the earliest of the moments that it is set to.
type alarm struct {
	timer *time.Timer
	at    time.Time // zero: it has fired
}

func (a *alarm) set(at time.Time, fire func()) {
	a.at, a.timer = at, time.AfterFunc(time.Until(at), fire)
}

// earlier makes the alarm fire at a time unless it fires before.
func (a *alarm) earlier(at time.Time) {
	if a.off() || at.Before(a.at) {
		a.at = at
		a.timer.Reset(time.Until(at))
	}
}

func (a *alarm) off() bool { return a.at.IsZero() }

// reset notes that the alarm has fired, or is to be set to another moment.
func (a *alarm) reset() { a.at = time.Time{} }

func (a *alarm) stop() { a.timer.Stop() }

// nextTime is the earliest deadline of the session.
func (s *session) nextTime() time.Time {
	next := s.subs.earliest(s.beat)
	if !s.login.ready && s.hello.Before(next) {
		next = s.hello
	}
	if e := s.login.expiry; !e.IsZero() && e.Before(next) {
		next = e
	}
	return next
}

// runTimer handles the deadlines that have passed.
func (s *session) runTimer(now time.Time) error {
	s.alarm.reset()
	switch {
	case !s.login.ready && !now.Before(s.hello):
		return &closing{CloseInitTimeout, "no init in time"}
	case s.login.expired(now):
		return &closing{CloseExpired, "token expired"}
	}
	s.subs.endHolds(now)
	if now.Before(s.beat) {
		return nil
	}
	s.beat = now.Add(s.srv.opts.Timing.Ping)
	return s.heartbeat(now)
}

// heartbeat pings the client, checks its token, and reports quiet subscriptions.
func (s *session) heartbeat(now time.Time) error {
	s.out.addPing()
	if !s.login.ready {
		return nil
	}
	if err := s.login.check(s.srv); err != nil { // the token may have been withdrawn
		return err
	}
	quiet := now.Add(-s.srv.opts.Timing.Ping)
	for _, sub := range s.subs.byID {
		if sub.lastSent.After(quiet) {
			continue
		}
		if err := sub.heartbeat(); err != nil {
			return err
		}
	}
	return nil
}
