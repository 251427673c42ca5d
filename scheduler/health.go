package scheduler

import (
	"time"

	"github.com/freshet/freshet/registry"
)

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

// Rests returns why an endpoint with these settings and this recorded health must not be asked now, "" if it may be asked: its
// service has asked to wait, or it is paused or in a blackout. One that fails may be asked why.
func Rests(e registry.Endpoint, h registry.Health, now time.Time) (why string, wished bool) {
	if h.State == registry.HealthThrottled && h.Until.After(now) {
		return healthReason(h), true
	}
	if e.Pause != nil {
		return ErrPaused.Error(), false
	}
	if s, err := read(e); err == nil {
		if end := s.blackouts.end(now); !end.IsZero() {
			return ErrBlackout.Error() + " until " + end.UTC().Format(time.RFC3339), false
		}
	}
	return "", false
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
