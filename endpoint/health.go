package endpoint

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
)

// Waiting times. An endpoint that is down is left alone after a few consecutive
// failures and probed at growing intervals. One that answers 429 or 503 without
// a time is left alone at once.
const (
	failuresToRest  = 5
	firstProbe      = 5 * time.Second
	longestProbe    = 5 * time.Minute
	firstThrottle   = 10 * time.Second
	longestThrottle = 10 * time.Minute
	longestWait     = 24 * time.Hour // maximum of a Retry-After
)

// health is the state machine of registry.Health.
type health struct {
	clock func() time.Time

	mu      sync.Mutex
	h       registry.Health
	moved   uint64 // number of state transitions
	probing bool
}

// A permit allows one request.
type permit struct {
	moved uint64 // the state when it was issued
	probe bool
}

func newHealth(h registry.Health, clock func() time.Time) *health {
	// Other code judges whether answers are complete. An endpoint that is failing only
	// because of incomplete answers may receive requests.
	if h.Incomplete = 0; h.State == "" || h.State == registry.HealthFailing && h.Until.IsZero() {
		h.State, h.Since, h.Error = registry.Healthy, time.Time{}, ""
	}
	now := clock()
	if h.Since.After(now) { // the clock was set back
		h.Since, h.Until = now, h.Until.Add(now.Sub(h.Since))
	}
	most := now.Add(longestWait)
	if h.State == registry.HealthFailing {
		most = now.Add(longestProbe)
	}
	if h.Until.After(most) {
		h.Until = most
	}
	return &health{h: h, clock: clock}
}

func (s *health) snapshot() registry.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.h
}

// maxRows is the last X-SPARQL-MaxRows; 0: none.
func (s *health) maxRows() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.h.MaxRows
}

// afterEdit returns the health under new settings, see
// registry.Health.AfterEdit. For another host it is a new one, which running
// requests do not affect.
func (s *health) afterEdit(was, now registry.Endpoint) *health {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.h.AfterEdit(was, now)
	if rest == (registry.Health{}) {
		return newHealth(rest, s.clock)
	}
	s.h = rest
	return s
}

func (s *health) told(maxRows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.MaxRows = maxRows
}

// exceeded records a complete answer of n rows without a reported cap.
func (s *health) exceeded(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.h.MaxRows {
		s.h.MaxRows = 0
	}
}

// refuses returns why no request may be sent now; "" if one may.
func (s *health) refuses() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why()
}

// rests reports whether the endpoint is to be left alone now.
func (s *health) rests() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock().Before(s.h.Until)
}

func (s *health) why() string {
	h := s.h
	if h.State == registry.Healthy {
		return ""
	}
	if s.clock().Before(h.Until) || s.probing {
		until := h.Until.UTC().Format(time.RFC3339)
		if h.State == registry.HealthThrottled {
			return fmt.Sprintf("not asked: the endpoint wants us to wait until %s (%s)", until, h.Error)
		}
		return fmt.Sprintf("not asked: %d failures in a row, next probe at %s (%s)", h.Failures, until, h.Error)
	}
	return ""
}

// begin returns a permit, or why there is none. If the endpoint is not healthy,
// only one request at a time gets one.
func (s *health) begin() (permit, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := s.why(); why != "" {
		return permit{}, why
	}
	p := permit{moved: s.moved, probe: s.h.State != registry.Healthy}
	s.probing = p.probe
	return p, ""
}

// end records the outcome of a request.
func (s *health) end(p permit, v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.probe {
		s.probing = false
	}
	switch {
	case !v.sent || v.Outcome == registry.Cut:
		// Throttling says nothing about the endpoint's failures.
	case v.Outcome == registry.Throttled:
		s.throttled(v)
	case v.down && !p.probe && p.moved != s.moved && s.h.State == registry.HealthFailing:
		// It began before the endpoint was known to fail, beside the one that showed it.
	case v.down && v.first && (v.status == http.StatusInternalServerError || v.Outcome == registry.Timeout):
		s.failedMaybeByQuery(v)
	case v.down:
		s.failed(v)
	case p.moved == s.moved:
		// An answer to a request from before the failures does not end them.
		s.recovered()
	}
}

func (s *health) throttled(v verdict) {
	s.h.Failures++
	wait := min(v.wait, longestWait)
	if wait <= 0 {
		wait = doubled(firstThrottle, s.h.Failures-1, longestThrottle)
	}
	until := s.clock().Add(wait)
	if s.h.State == registry.HealthThrottled && s.h.Until.After(until) {
		until = s.h.Until
	}
	s.transition(registry.HealthThrottled, until, v.Error)
}

func (s *health) failed(v verdict) {
	s.h.Failures++
	s.h.Error = v.Error
	if s.h.Failures < failuresToRest {
		return
	}
	wait := doubled(firstProbe, s.h.Failures-failuresToRest, longestProbe)
	s.transition(registry.HealthFailing, s.clock().Add(wait), v.Error)
}

// failedMaybeByQuery records a 500 or a timeout of a query that was never
// answered. Many engines answer 500 when one query exceeds them, so the query
// may be the cause. Consecutive failures of this kind also pause the endpoint,
// but the pause does not grow, and several requests may follow at once.
// Otherwise a few such queries would block all others.
func (s *health) failedMaybeByQuery(v verdict) {
	s.h.Failures++
	s.h.Error = v.Error
	if s.h.Failures%failuresToRest == 0 {
		s.transition(registry.HealthFailing, s.clock().Add(firstProbe), v.Error)
	}
}

func (s *health) recovered() {
	if s.h.State != registry.Healthy {
		s.transition(registry.Healthy, time.Time{}, "")
	}
	s.h.Failures, s.h.Error = 0, ""
}

func (s *health) transition(state string, until time.Time, why string) {
	if state != s.h.State {
		s.h.Since = s.clock()
	}
	s.h.State, s.h.Until, s.h.Error = state, until, why
	s.moved++
}

// doubled returns first, doubled n times, but at most limit.
func doubled(first time.Duration, n int, limit time.Duration) time.Duration {
	for ; n > 0 && first < limit; n-- {
		first *= 2
	}
	return min(first, limit)
}
