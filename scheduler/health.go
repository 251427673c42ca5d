package scheduler

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
)

// currentHealth returns the endpoint's health according to its client and the last
// executions. The caller holds the lock.
func (l *Loop) currentHealth() registry.Health { return l.healthFrom(l.executor) }

func (l *Loop) healthFrom(x Executor) registry.Health {
	h, s := x.Health(), &l.streak
	h.Incomplete = s.n
	fails := s.n >= fruitless && s.wide || s.n >= noneLive && l.planner.Count(registry.Live) == 0
	switch {
	case h.State == registry.HealthFailing && s.n > 0 && s.since.Before(h.Since):
		h.Since = s.since
	case fails && !restricted(h):
		h.State, h.Since, h.Error = registry.HealthFailing, s.since, s.why
	}
	return h
}

// recordHealth records the endpoint's health if that is urgent, or if always is set.
// The handover keeps the executor from being replaced meanwhile. The loop's lock is
// free while the ledger writes.
func (l *Loop) recordHealth(always bool) error {
	l.handover.Lock()
	defer l.handover.Unlock()
	l.mu.Lock()
	h, name, space := l.currentHealth(), l.set.endpoint.Name, l.space
	due := always || urgent(h, l.health)
	l.mu.Unlock()
	if !due {
		return nil
	}
	if _, err := l.ledger.Record(name, Batch{Space: space, Health: &h}); err != nil {
		return fmt.Errorf("record the health of endpoint %s: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.health = h
	return nil
}

// restricted reports whether an endpoint's health allows no requests, or only one at a
// time. A failing endpoint without a back-off is not restricted.
func restricted(h registry.Health) bool {
	return h.State == registry.HealthThrottled || h.State == registry.HealthFailing && !h.Until.IsZero()
}

// urgent reports whether a health change must be persisted at once (a back-off or a
// newly learnt row cap).
func urgent(h, recorded registry.Health) bool {
	waits := restricted(h) && (h.State != recorded.State || !h.Until.Equal(recorded.Until))
	return waits || h.MaxRows > 0 && h.MaxRows != recorded.MaxRows
}

// refusedBy returns the answer to a trial run that the endpoint's health forbids.
func refusedBy(h registry.Health) Answer {
	a := Answer{Outcome: registry.Failed, Error: healthReason(h)}
	if h.State == registry.HealthThrottled {
		a.Outcome = registry.Throttled
	}
	return a
}

// healthReason returns why no requests are sent to an endpoint.
func healthReason(h registry.Health) string {
	s := "the endpoint fails, the next try is at "
	if h.State == registry.HealthThrottled {
		s = "the endpoint asked us to wait until "
	}
	s += h.Until.UTC().Format(time.RFC3339)
	if h.Error != "" {
		s += ": " + h.Error
	}
	return s
}

// logHealth logs a change of the endpoint's health since the last record.
func (l *Loop) logHealth(was, now registry.Health) {
	switch {
	case was.State == now.State:
	case now.State == registry.HealthFailing:
		words := []any{"failures", now.Failures, "incomplete", now.Incomplete, "error", now.Error}
		if !now.Until.IsZero() { // otherwise requests continue as usual
			words = append(words, "until", now.Until)
		}
		l.log.Warn("the endpoint fails", words...)
	case now.State == registry.HealthThrottled:
		l.log.Warn("the endpoint asks us to wait", "until", now.Until, "error", now.Error)
	case was.State == registry.HealthFailing || was.State == registry.HealthThrottled:
		l.log.Info("the endpoint has recovered", "was", was.State, "down", l.clock.Now().Sub(was.Since))
	}
}
