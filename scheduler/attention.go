package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// profiles replaces the profiles by those of the ledger.
func (p *planner) profiles(list []ProfileState, models []Model) {
	if p.needs == nil {
		if len(list) == 0 {
			return
		}
		p.needs = &tracker{}
	}
	p.needs.load(list, models, p.slot)
}

// onExecution lets the profiles know of an execution. was is when the query was checked
// before; ended says that it completed a round.
func (p *planner) onExecution(c *candidate, was, start time.Time, out Outcome) (ended bool) {
	if p.needs == nil || !out.Stats.LastRun.Outcome.Complete() {
		return false
	}
	p.needs.learn(c.Query.ID, was, out)
	e := ranAt{start: start, end: out.At, slot: out.Stats.LastRun.Slot, tier: out.Stats.LastRun.Why}
	if out.Checked.Before(start) {
		e.start = out.Checked // an answer that was kept somewhere is as old as it says
	}
	ended = p.needs.ran(c.Query.ID, e)
	return p.needs.change(c.Query.ID, out.Delta, e, p.latest) || ended
}

// rounds adds what has come of profiles to a batch, and tells their followers
// once it is committed.
func (r *runner) rounds(b *Batch) {
	r.l.mu.Lock()
	list, ended := r.sheet.p.needs.take()
	b.Rounds, b.Models = list, r.sheet.p.needs.learnt()
	r.l.mu.Unlock()
	for i := range list {
		switch list[i].State {
		case registry.RoundCaptured:
			r.slot.Captured++
		case registry.RoundExpired:
			r.slot.Expired++
		}
	}
	for _, id := range ended {
		r.notes = append(r.notes, Note{Profile: id})
	}
}

// explainClaim tells of the profile that wants a query run now, if one does.
func (p *planner) explainClaim(query string, now time.Time) (text string, ok bool) {
	if p.needs == nil {
		return "", false
	}
	for _, r := range slices.SortedFunc(maps.Keys(p.needs.wanted[query]), byOpening) {
		for i := range r.Intervals {
			x := &r.Intervals[i]
			if x.Query != query || x.Done != nil || !x.HasBounds() || x.From.After(now) || x.First > p.slot {
				continue
			}
			name := r.need.Name
			if name == "" {
				name = r.need.ID
			}
			until := fmt.Sprintf("slot %d", x.Last)
			if x.Last == 0 {
				until = x.Until.Format(time.RFC3339)
			}
			return fmt.Sprintf("round %d of profile %s wants it until %s", r.Number, name, until), true
		}
	}
	return "", false
}

// NextRound is when time opens the next round of a profile, zero where nobody
// can tell: slots are counted, a change opens it, or what it predicts is not
// known. A profile that the last slot had not heard of predicts nothing yet: what
// is registered is read once for a slot, not for whoever asks.
func (l *Loop) NextRound(p registry.Profile) time.Time {
	now := l.clock.Now()
	switch leads(&p) {
	case periodic:
		return (&need{Profile: p}).next(now)
	case predicted:
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := l.planner.needs; n != nil && n.profiles[p.ID] != nil {
			return l.planner.nextPredicted(n.profiles[p.ID], now)
		}
	}
	return time.Time{}
}

// NextRound is Loop.NextRound of the profile's endpoint.
func (m *Manager) NextRound(p registry.Profile) time.Time {
	l, err := m.loop(p.Endpoint)
	if err != nil {
		return time.Time{}
	}
	return l.NextRound(p)
}
