package rounds

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// A profile is a registered profile with its open rounds.
type profile struct {
	registry.Profile
	opener   kind
	number   uint64        // of the latest round
	seen     Expectation   // rounds that open by time have been opened up to here
	rounds   []*round      // open, oldest first
	used     time.Duration // by executions for its claims in this slot
	expected []Expectation // by item: when a change was last expected
}

// A kind says what begins an item's intervals.
type kind int

const (
	periodic kind = iota
	predicted
	changed
)

func kindOf(w registry.When) kind {
	switch {
	case w.Changed != "":
		return changed
	case w.Predicted:
		return predicted
	}
	return periodic
}

// openerOf returns the kind of the items that open the profile's rounds.
func openerOf(p *registry.Profile) (k kind) {
	for i := range p.Items {
		k = max(k, kindOf(p.Items[i].When))
	}
	return k
}

// profileOf restores a profile at slot, without its rounds.
func profileOf(s *ProfileState, slot uint64) *profile {
	p := &profile{Profile: s.Profile, opener: openerOf(&s.Profile), number: s.Rounds, seen: Expectation{s.Opened, s.Slot},
		expected: make([]Expectation, len(s.Profile.Items))}
	if p.seen.At.Before(s.Profile.CreatedAt) {
		p.seen.At = s.Profile.CreatedAt
	}
	if s.Rounds == 0 {
		p.seen.Slot = max(slot, 1) - 1
	}
	copy(p.expected, s.Expected)
	return p
}

// has reports whether the profile has an item of kind k.
func (p *profile) has(k kind) bool {
	return slices.ContainsFunc(p.Items, func(i registry.Item) bool { return kindOf(i.When) == k })
}

// displayName is the profile's name, or its id.
func (p *profile) displayName() string { return cmp.Or(p.Name, p.ID) }

// begin sets the bounds of an interval that an event begins.
func (p *profile) begin(x *registry.Interval, item int, at time.Time, slot uint64, cause registry.Cause) {
	x.From, x.Cause = at.UTC(), cause
	if s := p.IntervalLength(item); s.Slots > 0 {
		x.First, x.Last = slot, slot+s.Slots
	} else {
		x.Until = x.From.Add(s.Time)
	}
}

// A round is open, or has ended and has to be recorded.
type round struct {
	registry.Round
	profile *profile
	dirty   bool
	why     []string // by interval: why the last possible slot did not capture it
}

func roundOf(r registry.Round, p *profile) *round {
	return &round{Round: r, profile: p, why: make([]string, len(r.Intervals))}
}

func byOpening(a, b *round) int {
	return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), byNumber(a, b))
}

func byNumber(a, b *round) int {
	return cmp.Or(cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.Number, b.Number))
}

// captured reports whether each interval is captured.
func (r *round) captured() bool {
	return !slices.ContainsFunc(r.Intervals, func(x registry.Interval) bool { return x.Done == nil })
}

// deadline returns the last time or the last slot in which an interval can be
// captured, or can begin if it has not begun. One of the two is zero.
func (r *round) deadline(i int) (at time.Time, last uint64) {
	x := &r.Intervals[i]
	if x.HasBounds() {
		return x.Until, x.Last
	}
	s := r.profile.Window
	if s.IsZero() {
		s = r.profile.IntervalLength(i) // its own length limits the waiting too
	}
	if s.Slots > 0 {
		return at, r.Slot + s.Slots
	}
	return r.OpenedAt.Add(s.Time), 0
}

// over reports whether an interval can no longer be captured.
func (r *round) over(i int, now time.Time, slot uint64) bool {
	if r.Intervals[i].Done != nil {
		return false
	}
	at, last := r.deadline(i)
	return !at.IsZero() && now.After(at) || last > 0 && slot > last
}

// anyOver reports whether an interval of the round can no longer be captured.
func (r *round) anyOver(now time.Time, slot uint64) bool {
	for i := range r.Intervals {
		if r.over(i, now, slot) {
			return true
		}
	}
	return false
}

// end ends a round in the given state.
func (r *round) end(s registry.RoundState, at time.Time, slot uint64) {
	r.State, r.EndedAt, r.EndedSlot = s, at.UTC(), slot
}

// lose records why an interval was not captured.
func (r *round) lose(i int) {
	x := &r.Intervals[i]
	switch {
	case !x.HasBounds():
		x.Reason = "what it waits for did not happen within the window"
	case r.why[i] != "":
		x.Reason = r.why[i]
	default:
		x.Reason = "no slot ran inside it"
	}
	if r.Reason == "" {
		r.Reason = x.Query + ": " + x.Reason
	}
}

// wants reports whether interval i needs an execution in the slot.
func (r *round) wants(i int, now time.Time, slot uint64) bool {
	x := &r.Intervals[i]
	return x.Done == nil && x.HasBounds() && !x.From.After(now) && x.First <= slot
}

// claim explains why interval i needs an execution.
func (r *round) claim(i int) string {
	x := &r.Intervals[i]
	until := fmt.Sprintf("slot %d", x.Last)
	if x.Last == 0 {
		until = x.Until.Format(time.RFC3339)
	}
	return fmt.Sprintf("round %d of profile %s wants it until %s", r.Number, r.profile.displayName(), until)
}
