// This file decides which subscriptions take their turns, and when.

package deliver

import (
	"container/heap"
	"context"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/freshet/freshet/registry"
)

const (
	idle state = iota
	queued
	running
)

// The limiters: wide for callbacks that answered well last time, hung for those that were
// slow, narrow for the rest.
const (
	wide = iota
	narrow
	hung
)

// update takes over a stored subscription and enqueues it.
func (e *turns) update(s *registry.Subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.subscribers[s.ID]
	if s.State == "" || s.State == registry.Ended {
		if x == nil {
			return
		}
		// Read under the lock: the update of a subscription created later comes later.
		if now, err := applied(e.opts.Store, s.ID); err == nil && now.State == "" {
			e.forget(x)
		}
		return
	}
	if x == nil {
		x = &subscriber{id: s.ID, query: s.Query, host: hostOf(s), way: s.Way, caller: s.Caller, deaf: s.Way == registry.Alerts, at: -1,
			limiter: narrow}
		if s.LastDelivery != nil && s.Failures == 0 {
			x.limiter = wide
		}
		x.probing = x.deaf && s.Failures > 0 && !s.Asked // the settings may be others since the start
		e.addSubscriber(x)
	}
	x.hold, x.probe, x.edited = time.Time{}, time.Time{}, x.state == running
	e.enqueue(x)
	e.signal()
}

func (e *turns) addSubscriber(x *subscriber) {
	e.subscribers[x.id] = x
	e.holders[holder{x.way, x.caller}]++
	if !x.deaf {
		e.listen(x)
	}
	h := e.hosts[x.host]
	if h == nil {
		h = &host{rate: rate.NewLimiter(rate.Limit(e.opts.Limits.Rate), e.opts.Limits.Burst)}
		if a, err := netip.ParseAddr(x.host); err == nil {
			h.trusted = e.opts.Guard.Allowed(a)
		}
		e.hosts[x.host] = h
	}
	h.entries++
}

// listen makes commits of its query wake a subscriber.
func (e *turns) listen(x *subscriber) {
	if e.queries[x.query] == nil {
		e.queries[x.query] = make(map[*subscriber]struct{})
		if x.query != "" {
			e.follow.Add(x.query)
		}
	}
	e.queries[x.query][x] = struct{}{}
}

// forget drops a subscriber. A call under way is not cut off.
func (e *turns) forget(x *subscriber) {
	if x.gone {
		return
	}
	x.gone = true
	delete(e.subscribers, x.id)
	of := holder{x.way, x.caller}
	if e.holders[of]--; e.holders[of] == 0 {
		delete(e.holders, of)
	}
	e.schedule(x, time.Time{})
	set := e.queries[x.query]
	if delete(set, x); len(set) == 0 && !x.deaf {
		delete(e.queries, x.query)
		if x.query != "" {
			e.follow.Remove(x.query)
		}
	}
	h := e.hosts[x.host]
	if h.entries--; h.entries == 0 && h.running == 0 {
		delete(e.hosts, x.host)
	}
}

// enqueue puts a subscriber into the queue of its limiter unless it is queued or on
// hold.
func (e *turns) enqueue(x *subscriber) {
	switch {
	case x.gone || x.state == queued || !e.opts.Holds(x.host):
	case x.state == running:
		x.again = true
	case x.hold.After(e.opts.Now()):
		e.schedule(x, x.next())
	default:
		e.schedule(x, time.Time{})
		x.state = queued
		e.limiters[x.limiter].push(x)
	}
}

// next returns when an entry on hold is looked at.
func (x *subscriber) next() time.Time {
	if !x.probe.IsZero() && x.probe.Before(x.hold) {
		return x.probe
	}
	return x.hold
}

// resume lets an entry whose time has come take its turn, if its hold has ended, or if it fails
// and its host is due for a probe or has accepted another message since.
func (e *turns) resume(x *subscriber, now time.Time) {
	h := e.hosts[x.host]
	switch {
	case !x.hold.After(now):
		x.hold = time.Time{}
	case x.probe.IsZero() || x.probe.After(now):
	case h.took.After(x.tried) || now.Sub(h.tried) >= e.opts.Schedule.Probe || now.Before(h.tried):
		x.hold, x.probing, h.tried = time.Time{}, true, now
	default:
		x.probe = now.Add(e.opts.Schedule.Probe)
	}
	e.enqueue(x)
}

func (e *turns) woken(queries []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range queries {
		for x := range e.queries[q] {
			e.enqueue(x)
		}
	}
}

func (e *turns) signal() {
	select {
	case e.work <- struct{}{}:
	default:
	}
}

// start launches what may run now and returns the time until the next timer.
func (e *turns) start(ctx context.Context) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.opts.Now()
	e.compare(now)
	for len(e.timers) > 0 && !e.timers[0].due.After(now) {
		x := e.timers[0]
		e.schedule(x, time.Time{})
		e.resume(x, now)
	}
	for i := range e.limiters {
		for x := e.limiters[i].pop(); x != nil; x = e.limiters[i].pop() {
			e.launch(ctx, x, i)
		}
	}
	if len(e.timers) == 0 {
		return time.Hour
	}
	return min(max(0, e.timers[0].due.Sub(now)), time.Hour)
}

// compare lets all that waits for a time decide again if the clock was set back: it would wait until the clock is there again.
// What waits for its host's rate waits for as long as before.
func (e *turns) compare(now time.Time) {
	if now = now.Round(0); now.Before(e.seen.Add(-time.Minute)) {
		for _, x := range slices.Clone(e.timers) {
			if x.granted {
				continue
			}
			e.schedule(x, time.Time{})
			x.hold, x.probe = time.Time{}, time.Time{}
			e.enqueue(x)
		}
	}
	e.seen = now
}

// launch serves a subscriber in a goroutine. If its host is busy, it waits for the
// host and other hosts go on.
func (e *turns) launch(ctx context.Context, x *subscriber, in int) {
	if x.gone {
		return
	}
	if !e.opts.Owns(x.host) {
		x.state = idle
		if hold := e.lapsed(x.host); !hold.IsZero() {
			x.hold = hold
			e.schedule(x, hold)
		}
		return
	}
	h := e.hosts[x.host]
	if !h.trusted {
		if !x.granted {
			x.granted = true
			if wait := h.rate.ReserveN(e.opts.Now(), 1).DelayFrom(e.opts.Now()); wait > 0 {
				x.state, x.hold = idle, e.opts.Now().Add(wait)
				e.schedule(x, x.hold)
				return
			}
		}
		if h.running >= e.opts.Limits.PerHost {
			h.waiting = append(h.waiting, x)
			return
		}
	}
	probe, release := x.probing, e.limiters[in].acquire(x.caller)
	x.state, x.again, x.probing = running, false, false
	h.running++
	e.running.Go(func() {
		v := e.serve(ctx, x, probe)
		e.finish(x, release, v)
	})
}

// lapsedPause is the time between two looks at a host whose callbacks may not be called for the moment.
const lapsedPause = time.Second

// lapsed returns when to look again at a host that this process does not own now, zero if it does not hold it.
func (e *turns) lapsed(host string) time.Time {
	if !e.opts.Holds(host) {
		return time.Time{}
	}
	return e.opts.Now().Add(lapsedPause)
}

// finish releases the places and schedules the subscriber's next turn.
func (e *turns) finish(x *subscriber, release func(), v outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.signal()
	release()
	h := e.hosts[x.host]
	h.running--
	for len(h.waiting) > 0 {
		next := h.waiting[0]
		if h.waiting = h.waiting[1:]; !next.gone {
			e.limiters[next.limiter].push(next)
			break
		}
	}
	x.state, x.granted = idle, false
	if v.gone && !x.again { // otherwise there may be a new one with the same id
		e.forget(x)
	}
	if x.gone {
		if h.entries == 0 && h.running == 0 && e.hosts[x.host] == h {
			delete(e.hosts, x.host)
		}
		return
	}
	now := e.opts.Now()
	if v.called {
		e.note(x, h, v, now)
	}
	again := x.again || v.more
	if x.edited { // the turn may have decided on a hold before
		v.hold, v.failing = time.Time{}, false
	}
	x.again, x.edited = false, false
	x.hold, x.probe = v.hold, time.Time{}
	if !v.at.IsZero() && v.at.Before(x.hold) {
		x.hold = v.at
	}
	if v.failing {
		x.probe = now.Add(e.opts.Schedule.Probe)
	}
	switch {
	case again:
		e.enqueue(x)
	case x.hold.IsZero():
		e.schedule(x, v.at)
	default:
		e.schedule(x, x.next())
	}
}

func (e *turns) note(x *subscriber, h *host, v outcome, now time.Time) {
	x.tried, h.tried = now, now
	switch {
	case v.slow:
		x.limiter = hung
	case v.ok:
		x.limiter = wide
	default:
		x.limiter = narrow
	}
	if v.ok {
		h.took = now
	}
}

// schedule sets an entry's timer; the zero time removes it.
func (e *turns) schedule(x *subscriber, due time.Time) {
	x.due = due
	switch {
	case due.IsZero() && x.at >= 0:
		heap.Remove(&e.timers, x.at)
	case due.IsZero():
	case x.at >= 0:
		heap.Fix(&e.timers, x.at)
	default:
		heap.Push(&e.timers, x)
	}
}
