package deliver

import (
	"net/url"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// A subscriber is the engine's entry in memory for a subscription.
type subscriber struct {
	id, query, host, caller string

	way     registry.Way
	deaf    bool // it follows no query
	limiter int  // index of its limiter

	state   state
	again   bool      // a wake-up came while it was running
	edited  bool      // an edit came while it was running
	granted bool      // its host's rate allows the next call
	gone    bool      // forgotten
	hold    time.Time // wake-ups before are ignored
	probe   time.Time // while it fails: when it may be tried before the end of its hold
	tried   time.Time // while it fails: its last attempt
	probing bool      // its next turn does not wait for the time of its next attempt
	due     time.Time // the time of its timer, zero for none
	at      int       // index in the timers, -1 for none
}

type state uint8

// hostOf returns the name under which the host of a subscription's callback is counted. All e-mail goes
// to one server, where each caller counts alone.
func hostOf(s *registry.Subscription) string {
	if strings.HasPrefix(s.Callback, "mailto:") {
		return "e-mail of " + s.Caller
	}
	return Host(s.Callback)
}

// Host returns the name under which the host of a callback is counted.
func Host(callback string) string {
	u, err := url.Parse(callback)
	if err != nil {
		return ""
	}
	return hostKey(u.Hostname())
}

func hostKey(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// timers is a heap of entries by due.
type timers []*subscriber

func (t timers) Len() int { return len(t) }

func (t timers) Less(i, j int) bool { return t[i].due.Before(t[j].due) }

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].at, t[j].at = i, j
}

// Push is heap.Interface's.
func (t *timers) Push(v any) {
	x := v.(*subscriber)
	x.at = len(*t)
	*t = append(*t, x)
}

// Pop is heap.Interface's.
func (t *timers) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	x.at = -1
	return x
}
