// This file stores what an evaluation or an edit makes of rules.

package alert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/notify/rule"
	"github.com/freshet/freshet/registry"
)

// mostQueued is about how many bytes of messages and states make a step full.
const mostQueued = 1 << 20

// A step collects the next states of rules, and what their receivers are to be told. What becomes of
// one rule is stored at once, so that its state always says what was queued: the bounds on the alerts
// of a rule make it small enough.
type step struct {
	*Engine
	token  uint64 // of the lease
	drafts map[string]*draft
	weight int            // about how many bytes its command takes
	bytes  map[string]int // of the rules of each caller, as stored
}

// A draft is what becomes of a rule.
type draft struct {
	rule        *entry
	state       *registry.RuleState
	told        []registry.AlertMessage
	next        *entry // with other settings, nil if they stay
	removed     bool
	evaluations uint64
	limit       time.Time // no answer is from later, unless a clock was set; zero: not known
	limitAt     time.Time // when limit was true
	confirmed   time.Time // the last answer, which a proof may have prolonged, after the last change
}

func (s *step) full() bool { return len(s.drafts) >= pageRules || s.weight >= mostQueued }

func (s *step) draft(x *entry) *draft {
	if s.drafts == nil {
		s.drafts = map[string]*draft{}
	}
	if s.drafts[x.ID] == nil {
		s.drafts[x.ID] = x.draft()
	}
	return s.drafts[x.ID]
}

func (x *entry) draft() *draft { return &draft{rule: x, state: x.State.Clone()} }

// peek returns the newest state of a rule for reading.
func (s *step) peek(x *entry) *registry.RuleState {
	if d := s.drafts[x.ID]; d != nil {
		return d.state
	}
	return &x.State
}

// answerTimes are when an answer was given, when it was evaluated by the clock of this process, and what the latest time of
// an answer was then. A proof may have prolonged the answer that was confirmed.
type answerTimes struct{ answer, at, limit, confirmed time.Time }

// mostLag is how long after an answer its alerts are stored, as a rule, if the clock does not tell.
const mostLag = time.Minute

// A forward is the last time that the clock of this process was set forward: from before to after. No step is later than known.
type forward struct{ last, before, after, known time.Time }

// note takes a reading of the clock.
func (f *forward) note(now time.Time) {
	by := now.Round(0).Sub(f.last.Round(0)) - now.Sub(f.last)
	switch {
	case f.last.IsZero() || by < -time.Second:
		f.known = now.Round(0)
	case by > time.Second:
		f.before, f.after, f.known = now.Round(0).Add(-by), now.Round(0), now.Round(0)
	}
	f.last = now
}

// passed returns the time between an answer and a reading of the clock, without what the clock was set forward between them.
func (f *forward) passed(answer, at time.Time) time.Duration {
	if !answer.After(f.before) && !at.Round(0).Before(f.after) {
		at = at.Add(f.before.Sub(f.after))
	}
	return at.Sub(answer)
}

// limit returns the latest time of an answer to a rule that is evaluated now, zero if it is not known.
func (e *Engine) limit(x *entry, now time.Time) time.Time {
	v := x.lastAnswer
	if v.at.IsZero() || !v.answer.Equal(x.State.CheckedAt) {
		return time.Time{}
	}
	// The next answer may be there already.
	late := max(e.ahead.passed(v.answer, v.at), min(v.limit.Sub(v.answer), mostLag), 0)
	if v.answer.Before(e.ahead.known) { // the clock may have been set meanwhile
		late = min(late, mostLag)
	}
	return v.answer.Add(now.Sub(v.at) + late)
}

// keepTime moves the times of alerts if an answer is from later than the time allows that has passed: a clock
// that is set forward must not end what they wait for.
func (e *Engine) keepTime(d *draft, answer, now time.Time) {
	e.ahead.note(now)
	if d.limit.IsZero() {
		d.limit = e.limit(d.rule, now)
	} else { // a step takes a while, and answers come meanwhile
		d.limit = d.limit.Add(now.Sub(d.limitAt))
	}
	d.limitAt = now
	switch back := d.state.CheckedAt.Sub(answer); {
	case d.limit.IsZero():
	case back > 0: // the evaluation moves the times
		d.limit = d.limit.Add(-back)
	case answer.After(d.limit):
		rule.SetForward(d.state, answer.Sub(d.limit))
		d.limit = answer
	}
}

// fold makes a step of a rule's state for an answer. Alerts of a caller who has too many may become fewer,
// and no more.
func (s *step) fold(x *entry, answer time.Time, do func(*registry.RuleState) []registry.RuleEvent) error {
	d, now := s.draft(x), s.opts.Now()
	s.keepTime(d, answer, now)
	d.evaluations++
	if s.bytes == nil {
		s.mu.Lock()
		s.bytes = map[string]int{}
		for _, x := range s.rules {
			s.bytes[x.Caller] += x.bytes
		}
		s.mu.Unlock()
	}
	before, over := d.state, s.bytes[x.Caller] > s.opts.Bytes
	if over {
		d.state = before.Clone()
	}
	events := do(d.state)
	if over && d.state.Problem == "" && d.state.Size() > before.Size() {
		d.giveUp(before, s.opts.overBytes("the alerts of the rules of its token")+", so the rule is not evaluated")
	} else {
		s.weight += d.tell(&s.opts, events) + max(0, d.state.Size()+x.Size()-x.bytes)
	}
	return s.commitFull()
}

// giveUp leaves the alerts of a state as they are, and makes the rule failing until the next change.
func (d *draft) giveUp(before *registry.RuleState, why string) {
	next := before.Clone()
	next.At, next.Hash, next.Rows, next.CheckedAt, next.Problem = d.state.At, d.state.Hash, d.state.Rows, d.state.CheckedAt, why
	d.state = next
}

func (o *Options) overBytes(what string) string {
	return fmt.Sprintf("%s take more than %d KiB (limits.token_bytes): use fewer or shorter labels, or remove rules", what, o.Bytes>>10)
}

// tell adds the messages about events, and returns about how many bytes they take. Their ids depend on no
// clock.
func (d *draft) tell(o *Options, events []registry.RuleEvent) (size int) {
	x, at := d.rule, d.state.At
	if at.Epoch == "" { // the alerts were cleared
		at = x.State.At
	}
	for _, v := range events {
		o.Logger.Debug("alert", "rule", x.Name, "state", v.State, "labels", v.Labels, "since", v.Since)
		if len(x.To) == 0 || v.State != registry.AlertFiring && v.State != registry.AlertResolved {
			continue
		}
		m := registry.AlertMessage{ID: fmt.Sprintf("msg_%s_%s_%s_%d_%s", strings.TrimPrefix(x.ID, idPrefix), v.Alert, at.Epoch,
			v.Firing, v.State),
			Rule: x.ID, Name: x.Name, Query: x.Query, Caller: x.Caller, State: v.State, Alert: v.Alert, Labels: v.Labels, Summary: v.Summary,
			StartsAt: v.Since, Position: at, At: o.Now().UTC()}
		if v.State == registry.AlertResolved {
			m.EndsAt = v.Time
		}
		if len(d.told) == 0 {
			m.To = x.To
		}
		d.told = append(d.told, m)
		size += v.Size()
	}
	return size
}

// commit stores a step and makes it visible. A rule that cannot be stored is failing, and the others
// are stored without it. The caller holds turn.
func (s *step) commit() error {
	list := slices.SortedFunc(maps.Values(s.drafts), func(a, b *draft) int { return strings.Compare(a.rule.ID, b.rule.ID) })
	*s = step{Engine: s.Engine, token: s.token}
	if len(list) == 0 {
		return nil
	}
	err := s.put(list...)
	if err == nil || ofStore(err) {
		return err
	}
	for _, d := range list {
		if len(list) > 1 {
			err = s.put(d)
		}
		if errors.Is(err, registry.ErrTooLarge) {
			d.giveUp(&d.rule.State, fmt.Sprintf("its alerts are %v: use fewer or shorter labels, a shorter summary, fewer receivers, "+
				"or narrow the condition", err))
			d.told = nil
			err = s.put(d)
		}
		if ofStore(err) {
			return err
		} else if err != nil {
			s.trouble(d.rule, err)
		}
	}
	return nil
}

func (s *step) commitFull() error {
	if !s.full() {
		return nil
	}
	return s.commit()
}

// passing reports whether an error is about the whole store, and goes away by itself.
func passing(err error) bool {
	return errors.Is(err, registry.ErrReadOnly) || errors.Is(err, ErrAway) || errors.Is(err, registry.ErrRuleMoved) ||
		errors.Is(err, context.Canceled)
}

// ofStore reports whether an error is about the whole store.
func ofStore(err error) bool { return passing(err) || errors.Is(err, registry.ErrUnusable) }

// trouble makes a rule failing until it is evaluated again.
func (e *Engine) trouble(x *entry, why error) {
	e.opts.Logger.Error("an alert rule cannot be evaluated, it is tried again", "rule", x.Name, "error", why)
	e.mu.Lock()
	x.trouble = "its last evaluation failed, and is tried again: " + why.Error()
	e.mu.Unlock()
	e.later(x.Query, e.opts.Now().Add(recheck))
}

// put stores drafts in one command, and makes them visible. If they were made for other states than the
// stored ones, Run reads all rules again.
func (s *step) put(list ...*draft) error {
	edit := registry.RuleEdit{Token: s.token, States: make(map[string]*registry.RuleChange, len(list))}
	for _, d := range list {
		edit.States[d.rule.ID] = d.state.Since(&d.rule.State)
		edit.Queue = append(edit.Queue, d.told...)
		if d.removed {
			edit.Remove = append(edit.Remove, d.rule.ID)
		} else if d.next != nil {
			edit.Put = append(edit.Put, d.next.Rule)
		}
	}
	now := s.opts.Now() // before the store takes its time
	if err := s.opts.Store.EditRules(&edit); err != nil {
		if errors.Is(err, registry.ErrRuleMoved) {
			s.moved.Store(true)
			s.signal()
		}
		return err
	}
	var told []string
	s.mu.Lock()
	for _, d := range list {
		x := d.rule
		if len(d.told) > 0 {
			told = append(told, x.receivers...)
		}
		if !d.state.CheckedAt.Equal(x.State.CheckedAt) {
			if x.lastAnswer = (answerTimes{d.state.CheckedAt, now, d.limit, d.confirmed}); !d.limitAt.IsZero() {
				x.lastAnswer.at = d.limitAt
			}
		}
		if d.state.Problem == "" {
			s.count[0] += d.evaluations
		} else {
			s.count[1] += d.evaluations
		}
		x.State, x.trouble, x.bytes = *d.state, "", d.state.Size()+x.Size()
		if d.removed {
			told = append(told, x.receivers...) // those of no other rule end
			s.replace(x, nil)
		} else if d.next != nil {
			d.next.State = x.State
			told = append(told, x.receivers...)
			s.replace(s.rules[x.ID], d.next)
			told = append(told, d.next.receivers...) // what fires may be new to one
		}
	}
	s.mu.Unlock()
	slices.Sort(told)
	if err := s.deliveries.Refresh(slices.Compact(told)); err != nil {
		s.opts.Logger.Error("alerts are stored and not sent yet", "error", err)
	}
	return nil
}
