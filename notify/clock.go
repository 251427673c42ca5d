package notify

import "time"

// nextTime is when there is something to do next, whatever comes.
func (s *session) nextTime() time.Time {
	next := s.beat
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if !s.ready {
		earlier(s.hello)
	}
	if !s.expiry.IsZero() {
		earlier(s.expiry)
	}
	for _, due := range s.holds {
		earlier(due)
	}
	return next
}

// arm sees to it that the timer fires in time. A delivery sets no timer.
func (s *session) arm() {
	if !s.armed.IsZero() && len(s.holds) == 0 {
		return
	}
	if next := s.nextTime(); s.armed.IsZero() || next.Before(s.armed) {
		s.armed = next
		s.timer.Reset(time.Until(next))
	}
}

// clock does what it is time for.
func (s *session) clock(now time.Time) error {
	s.armed = time.Time{}
	switch {
	case !s.ready && !now.Before(s.hello):
		return &closing{CloseInitTimeout, "no init in time"}
	case !s.expiry.IsZero() && !now.Before(s.expiry):
		return &closing{CloseExpired, "token expired"}
	}
	for sub, due := range s.holds {
		if !now.Before(due) {
			delete(s.holds, sub)
			s.enqueue(sub)
		}
	}
	if now.Before(s.beat) {
		return nil
	}
	s.beat = now.Add(s.srv.opts.Timing.Ping)
	return s.heartbeat(now)
}

// heartbeat keeps the connection and what the client knows fresh.
func (s *session) heartbeat(now time.Time) error {
	s.sayPing()
	if !s.ready {
		return nil
	}
	if c := s.authenticate(); c != nil { // the token may have been withdrawn
		return c
	}
	quiet := now.Add(-s.srv.opts.Timing.Ping)
	for _, sub := range s.subs {
		if sub.lastSent.After(quiet) {
			continue
		}
		if err := sub.heartbeat(); err != nil {
			return err
		}
	}
	return nil
}

// awaken is told by a topic that there is something to look at.
func (s *session) awaken(sub *subscription) {
	s.mail.Lock()
	if !sub.awake {
		sub.awake = true
		s.awake = append(s.awake, sub)
	}
	s.mail.Unlock()
	s.poke(dueMail)
}

// dropping asks for the end of a subscription.
func (s *session) dropping(sub *subscription) {
	s.mail.Lock()
	s.drops = append(s.drops, sub)
	s.mail.Unlock()
	s.poke(dueMail)
}

// collect takes what others left.
func (s *session) collect() error {
	s.mail.Lock()
	for i, sub := range s.awake {
		s.awake[i], sub.awake = nil, false
		if !sub.over {
			s.enqueue(sub)
		}
	}
	s.awake = s.awake[:0]
	drops := s.drops
	s.drops = nil
	s.mail.Unlock()
	for _, sub := range drops {
		if sub.over {
			continue // it has ended meanwhile
		}
		if err := s.complete(sub, "dropped"); err != nil {
			return err
		}
	}
	return nil
}
