package scheduler

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/rounds"
)

// addRounds adds the progress of profiles to a batch, and the notes for their
// followers to those that the commit sends.
func (r *runner) addRounds(b *Batch) {
	r.l.mu.Lock()
	u := r.l.planner.Rounds().Drain()
	r.l.mu.Unlock()
	b.Rounds, b.Models = u.Rounds, u.Models
	for i := range u.Rounds {
		switch u.Rounds[i].State {
		case registry.RoundCaptured:
			r.slot.Captured++
		case registry.RoundExpired:
			r.slot.Expired++
		}
	}
	r.notes = append(r.notes, notesOf(u)...)
}

// notesOf returns notes for the followers of profiles whose round ended.
func notesOf(u rounds.Updates) (notes []Note) {
	for _, id := range u.Ended {
		notes = append(notes, Note{Profile: id})
	}
	return notes
}

// NextRound predicts when the next round of a profile opens by time. It is zero if slot
// numbers or a change open it, or if too little is known for a prediction. NextRound
// does not read the ledger, so a profile that was registered after the last slot has no
// prediction yet.
func (l *Loop) NextRound(p registry.Profile) time.Time {
	now := l.clock.Now()
	next, byPrediction := rounds.Next(&p, now)
	if !byPrediction {
		return next
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.planner.Rounds().NextPredicted(p.ID, now)
}

// Slots expire the rounds that are over. If no slot comes for long (the endpoint is
// paused, in a blackout, or its slots run on request), the loop expires them itself,
// expiryPause after the first one so that many are recorded together, unless a slot
// comes within expiryWait of that.
const (
	expiryPause = time.Second
	expiryWait  = time.Minute
	expiryRetry = 10 * time.Second // while the ledger is read-only
)

// wakeTime returns when the loop must act next: at the next slot (zero if there is
// none) or, if expire is set, earlier to expire rounds without a slot.
func (l *Loop) wakeTime(next time.Time) (until time.Time, expire bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.planner.Rounds().NextExpiry()
	if at.IsZero() {
		return next, false
	}
	at = at.Add(expiryPause)
	if soon := l.clock.Now().Add(expiryRetry); l.halted != nil && at.Before(soon) {
		at = soon
	}
	if !next.IsZero() && next.Before(at.Add(expiryWait)) {
		return next, false
	}
	return at, true
}

// expireRounds expires the rounds that are over and notifies their followers. The plan
// counts as incomplete until that is committed, because a reader of the ledger would
// still see the rounds open.
func (l *Loop) expireRounds() error {
	now := l.clock.Now()
	l.mu.LockPlan()
	l.planner.Rounds().Expire(now, l.planner.Slot())
	u := l.planner.Rounds().Drain()
	name := l.set.endpoint.Name
	var err error
	if len(u.Rounds) > 0 {
		l.mu.let(func() { _, err = l.ledger.Record(name, Batch{Space: l.space, Rounds: u.Rounds, Models: u.Models}) })
	}
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("end rounds at endpoint %s: record: %w", name, err)
	}
	if notes := notesOf(u); len(notes) > 0 {
		l.wake(notes)
	}
	return nil
}
