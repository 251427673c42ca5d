package scheduler

import (
	"fmt"
	"time"
)

// Slots end the rounds whose time is over. Where none comes for long (the
// endpoint is paused, in a blackout, or its slots run on request), they end by
// themselves: lapsePause after the first of them, so that many are recorded at
// once, unless a slot comes within lapseWait of that.
const (
	lapsePause = time.Second
	lapseWait  = time.Minute
	lapseRetry = 10 * time.Second // while the ledger takes no writes
)

// lapses says what comes first: the next slot (zero: there is none), or the time
// to end rounds without one.
func (l *Loop) lapses(next time.Time) (until time.Time, lapse bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.planner.needs.firstOver()
	if at.IsZero() {
		return next, false
	}
	at = at.Add(lapsePause)
	if soon := l.clock.Now().Add(lapseRetry); l.halted != nil && at.Before(soon) {
		at = soon
	}
	if !next.IsZero() && next.Before(at.Add(lapseWait)) {
		return next, false
	}
	return at, true
}

// firstOver is the earliest moment after which an open round is over, zero when
// time ends none.
func (n *tracker) firstOver() (first time.Time) {
	if n == nil {
		return first
	}
	for k := range n.busy {
		for _, r := range k.rounds {
			for i := range r.Intervals {
				at, _ := k.bound(r, i)
				if r.Intervals[i].Done == nil && !at.IsZero() && (first.IsZero() || at.Before(first)) {
					first = at
				}
			}
		}
	}
	return first
}

// lapse ends what is over by now, and tells the followers. The lock is held
// until that is committed: who reads the ledger meanwhile would find it open.
func (l *Loop) lapse() error {
	now := l.clock.Now()
	l.mu.Lock()
	l.planner.needs.expire(now, l.planner.slot)
	list, ended := l.planner.needs.take()
	name := l.set.endpoint.Name
	var err error
	if len(list) > 0 {
		_, err = l.ledger.Record(name, Batch{Rounds: list})
	}
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("end rounds at endpoint %s: record: %w", name, err)
	}
	var notes []Note
	for _, id := range ended {
		notes = append(notes, Note{Profile: id})
	}
	if len(notes) > 0 {
		l.wake(notes)
	}
	return nil
}
