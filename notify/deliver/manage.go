package deliver

import (
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// Pause stops deliveries of a subscription until Resume. Its changes wait in the log.
func (e *Engine) Pause(id string) (registry.Subscription, error) {
	return e.Edit(id, existing(func(s *registry.Subscription) error {
		if s.State != registry.Active {
			return registry.Conflict("only an active subscription can be paused; this one is " + string(s.State))
		}
		s.State = registry.SubscriptionPaused
		return nil
	}))
}

// Resume makes a paused or disabled subscription active and delivers at once what
// waits. A callback that has not confirmed yet is asked again.
func (e *Engine) Resume(id string) (registry.Subscription, error) {
	return e.Edit(id, existing(func(s *registry.Subscription) error {
		s.NextTry, s.Failures, s.FailingSince = nil, 0, nil
		switch {
		case s.State == registry.Disabled && s.Intent != nil && s.Intent.Mode == "denied":
			return registry.Conflict("the subscription is being ended")
		case s.State == registry.Disabled && s.Intent != nil:
			s.State, s.Reason = registry.Pending, ""
		case s.State == registry.Disabled || s.State == registry.SubscriptionPaused:
			s.State, s.Reason = registry.Active, ""
		}
		return nil
	}))
}

// Prepare returns a step that fixes the next message of a subscription. Another node may have taken over
// meanwhile, so it replaces only the message that was the next one.
func Prepare(s *registry.Subscription, m registry.OutboxMessage, now time.Time) Step {
	from, seen, pending := s.Cursor, s.Seen, Pending(s)
	m.ID, m.From, m.At = "msg_"+rand.Text(), from, now.UTC()
	return Step{Edit: func(s *registry.Subscription) {
		if s.Cursor == from && s.Seen == seen && Pending(s) == pending {
			s.Outbox = &m
		}
	}}
}

// Pending returns the id of the next message, "" if it is not fixed yet.
func Pending(s *registry.Subscription) string {
	if s.Outbox == nil {
		return ""
	}
	return s.Outbox.ID
}

// Sendable returns an error if nothing is sent for a subscription now.
func Sendable(s *registry.Subscription) error {
	switch s.State {
	case registry.Active:
		return nil
	case registry.Pending:
		return registry.Conflict("the subscription is pending: its address has not answered webhook.verify yet")
	}
	return registry.Conflict("the subscription is " + string(s.State) + ": resume it first")
}

// Resend sends a dead letter of a subscription again, or all of them for "".
func (e *Engine) Resend(id, letter string) (registry.Subscription, error) {
	return e.Edit(id, existing(func(s *registry.Subscription) error {
		if err := Sendable(s); err != nil {
			return err
		}
		found := false
		for i := range s.Dead {
			if letter == "" || s.Dead[i].ID == letter {
				s.Dead[i].Replay, found = true, true
			}
		}
		if !found {
			return fmt.Errorf("dead letter: %w", registry.ErrNotFound)
		}
		s.NextTry = nil
		return nil
	}))
}

// DropLetter forgets a dead letter of a subscription, or all of them for "".
func (e *Engine) DropLetter(id, letter string) (registry.Subscription, error) {
	return e.Edit(id, existing(func(s *registry.Subscription) error {
		n := len(s.Dead)
		s.Dead = slices.DeleteFunc(s.Dead, func(d registry.DeadLetter) bool {
			drop := letter == "" || d.ID == letter
			if drop && d.Seq > 0 {
				s.Drop = append(s.Drop, d.Seq)
			}
			return drop
		})
		if len(s.Dead) == n {
			return fmt.Errorf("dead letter: %w", registry.ErrNotFound)
		}
		return nil
	}))
}

// Drop ends a subscription. If end is not nil, it may set another state than
// registry.Ended to have something done first.
func (e *Engine) Drop(id string, end func(s *registry.Subscription)) error {
	_, err := e.Edit(id, existing(func(s *registry.Subscription) error {
		s.State = registry.Ended
		if end != nil {
			end(s)
		}
		return nil
	}))
	return err
}
