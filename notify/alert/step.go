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

// mostQueued is about how many bytes of messages one command of the store takes.
const mostQueued = 1 << 20

// A step collects the next states of rules, and what their receivers are to be told.
type step struct {
	*Engine
	token       uint64 // of the lease
	drafts      map[string]*draft
	weight      int       // about how many bytes its commands take
	evaluations [2]uint64 // as in Engine.count
}

// A draft is the next state of a rule.
type draft struct {
	rule   *entry
	state  *registry.RuleState
	told   []told
	last   registry.RuleEdit // goes with the state
	edited bool              // by a caller, who is told if this cannot be stored
	limit  time.Time         // no answer is from later, unless a clock was set; zero: not known
}

// A told is an event that receivers are told.
type told struct {
	registry.RuleEvent
	at registry.Position
}

func (s *step) full() bool { return len(s.drafts) >= pageRules || s.weight >= mostQueued }

// state returns the state of a rule that may be changed.
func (s *step) state(x *entry) *registry.RuleState {
	if s.drafts == nil {
		s.drafts = map[string]*draft{}
	}
	if s.drafts[x.ID] == nil {
		s.drafts[x.ID] = &draft{rule: x, state: x.State.Clone()}
	}
	return s.drafts[x.ID].state
}

// peek returns the newest state of a rule for reading.
func (s *step) peek(x *entry) *registry.RuleState {
	if d := s.drafts[x.ID]; d != nil {
		return d.state
	}
	return &x.State
}

// A sight is when an answer was given, and when its alerts were stored by the clock of this process.
type sight struct{ answer, at time.Time }

// mostLag is how long after an answer its alerts are stored, as a rule.
const mostLag = time.Minute

// limit returns the latest time of an answer to a rule that is evaluated now, zero if it is not known.
func (x *entry) limit(now time.Time) time.Time {
	v := x.folded
	if v.at.IsZero() || !v.answer.Equal(x.State.CheckedAt) {
		return time.Time{}
	}
	return v.answer.Add(now.Sub(v.at) + min(max(0, v.at.Sub(v.answer)), mostLag))
}

// keepTime moves the times of alerts if an answer is from later than the time allows that has passed: a clock
// that is set forward must not end what they wait for.
func (d *draft) keepTime(answer, now time.Time) {
	if d.limit.IsZero() {
		d.limit = d.rule.limit(now)
	}
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
func (s *step) fold(x *entry, answer time.Time, do func(*registry.RuleState) []registry.RuleEvent) {
	state := s.state(x)
	s.drafts[x.ID].keepTime(answer, s.opts.Now())
	s.mu.Lock()
	over := s.bytes[x.Caller] > s.opts.Bytes
	s.mu.Unlock()
	if !over {
		s.record(x, do(state))
		s.weight += max(0, state.Size()+x.Size()-x.bytes)
		return
	}
	before := state.Clone()
	events := do(state)
	if state.Problem != "" || state.Size() <= before.Size() {
		s.record(x, events)
		return
	}
	before.At, before.Hash, before.Rows, before.CheckedAt = state.At, state.Hash, state.Rows, state.CheckedAt
	before.Problem = s.opts.overBytes("the alerts of the rules of its token") + ", so the rule is not evaluated"
	s.drafts[x.ID].state = before
}

func (o *Options) overBytes(what string) string {
	return fmt.Sprintf("%s take more than %d KiB (limits.token_bytes): use fewer or shorter labels, or remove rules", what, o.Bytes>>10)
}

// record takes note of events.
func (s *step) record(x *entry, events []registry.RuleEvent) {
	s.weight += s.drafts[x.ID].tell(s.peek(x).At, events)
	for _, v := range events {
		s.opts.Logger.Debug("alert", "rule", x.Name, "state", v.State, "labels", v.Labels, "since", v.Since)
	}
}

// tell adds events, and returns about how many bytes their messages take.
func (d *draft) tell(at registry.Position, events []registry.RuleEvent) (size int) {
	for _, v := range events {
		if v.State == registry.AlertFiring || v.State == registry.AlertResolved {
			d.told = append(d.told, told{v, at})
			size += d.size(v)
		}
	}
	return size
}

func (d *draft) size(v registry.RuleEvent) int { return v.Size() * len(d.rule.To) }

// commit stores a step and makes it visible. The caller holds turn.
func (s *step) commit() error {
	var list []*draft
	var rules []*entry
	for _, id := range slices.Sorted(maps.Keys(s.drafts)) {
		list, rules = append(list, s.drafts[id]), append(rules, s.drafts[id].rule)
	}
	counted := s.evaluations
	*s = step{Engine: s.Engine, token: s.token}
	err := s.store(list)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, n := range counted {
			s.count[i] += n
		}
		return nil
	}
	if passing(err) || errors.Is(err, registry.ErrUnusable) || errors.Is(err, errTrouble) {
		return err
	}
	return s.trouble(rules, err)
}

// commitFull commits a step that has enough for a command.
func (s *step) commitFull() error {
	if !s.full() {
		return nil
	}
	return s.commit()
}

// passing reports whether an error is about the whole store, and goes away by itself.
func passing(err error) bool {
	return errors.Is(err, registry.ErrReadOnly) || errors.Is(err, ErrAway) || errors.Is(err, registry.ErrRuleMoved) || errors.Is(err, context.Canceled)
}

// errTrouble means that an evaluation has ended early, because of rules that are failing now.
var errTrouble = errors.New("some rules are failing")

// trouble makes rules failing until they are evaluated again. It returns errTrouble.
func (e *Engine) trouble(rules []*entry, why error) error {
	e.mu.Lock()
	queries := map[string]bool{}
	for _, x := range rules {
		e.opts.Logger.Error("an alert rule cannot be evaluated, it is tried again", "rule", x.Name, "error", why)
		x.trouble = "its last evaluation failed, and is tried again: " + why.Error()
		queries[x.Query] = true
	}
	e.mu.Unlock()
	e.later(slices.Collect(maps.Keys(queries)), e.opts.Now().Add(recheck))
	return errTrouble
}

// store stores drafts in as many commands as they take. An error about one rule makes that
// rule failing.
func (s *step) store(list []*draft) error {
	if len(list) == 0 {
		return nil
	}
	if len(list) == 1 {
		return s.storeOne(list[0])
	}
	size := 0
	for _, d := range list {
		for _, v := range d.told {
			size += d.size(v.RuleEvent)
		}
	}
	if size <= mostQueued {
		if err := s.put(list); !errors.Is(err, registry.ErrTooLarge) {
			return err
		}
	}
	half := len(list) / 2
	return errors.Join(s.store(list[:half]), s.store(list[half:]))
}

// storeOne stores the draft of one rule. If its messages do not fit into one command, each
// command holds some of its alerts with their messages, so that the state always says what was
// queued. The state has no position until the last of them: a process that is killed before it
// takes the whole result, which raises the alerts that are missing.
func (s *step) storeOne(d *draft) error {
	room := mostQueued
	for {
		part, rest := d.split(room)
		err := s.put([]*draft{part})
		switch {
		case err == nil && part == d:
			return nil
		case err == nil:
			d.told = rest
		case !errors.Is(err, registry.ErrTooLarge):
			return err
		case room > 0 && len(d.told) > 0:
			room /= 8 // at last, one alert at a time
		case d.edited && len(d.told) > 0: // the alerts end in any case
			s.opts.Logger.Error("a message about an alert is too large to be stored", "rule", d.rule.Name, "error", err)
			d.told = d.told[1:]
		case d.edited:
			return err
		default:
			return s.tooLarge(d, err)
		}
	}
}

// split returns the draft of a command with the first alerts of d, and what is left to be told. It
// returns d if all fits into one command.
func (d *draft) split(room int) (part *draft, rest []told) {
	var alerts []string
	taken := map[string]bool{}
	size := 0
	for _, v := range d.told {
		if size += d.size(v.RuleEvent); size > room && len(alerts) > 0 {
			break
		}
		if !taken[v.Alert] {
			taken[v.Alert] = true
			alerts = append(alerts, v.Alert)
		}
	}
	if size <= room || len(d.told) == 0 {
		return d, nil
	}
	part = &draft{rule: d.rule, state: d.rule.State.Clone()}
	part.state.At = registry.Position{}
	for _, v := range d.told {
		if !taken[v.Alert] {
			rest = append(rest, v)
			continue
		}
		part.told = append(part.told, v)
		if delete(part.state.Alerts, v.Alert); d.state.Alerts[v.Alert] != nil {
			part.state.Alerts[v.Alert] = d.state.Alerts[v.Alert]
		}
		part.state.Fired = max(part.state.Fired, v.Firing)
	}
	return part, rest
}

// tooLarge makes a rule failing whose next state cannot be stored.
func (s *step) tooLarge(d *draft, why error) error {
	next := d.rule.State.Clone()
	next.At, next.Hash, next.Rows, next.CheckedAt = d.state.At, d.state.Hash, d.state.Rows, d.state.CheckedAt
	next.Problem = fmt.Sprintf("its alerts are %v: use fewer or shorter labels, a shorter summary, fewer receivers, or narrow the condition", why)
	err := s.put([]*draft{{rule: d.rule, state: next}})
	if errors.Is(err, registry.ErrTooLarge) {
		return s.trouble([]*entry{d.rule}, errors.New(next.Problem))
	}
	return err
}

// put stores drafts in one command, and makes them visible.
func (s *step) put(list []*draft) error {
	edit := registry.RuleEdit{Token: s.token, States: make(map[string]*registry.RuleChange, len(list))}
	for _, d := range list {
		edit.States[d.rule.ID] = d.state.Since(&d.rule.State)
		edit.Put, edit.Remove = append(edit.Put, d.last.Put...), append(edit.Remove, d.last.Remove...)
		for _, v := range d.told {
			edit.Queue = append(edit.Queue, s.opts.messages(d.rule, v.at, v.RuleEvent)...)
		}
	}
	if err := s.edit(&edit); err != nil {
		return err
	}
	now := s.opts.Now()
	s.mu.Lock()
	for _, d := range list {
		x, size := d.rule, d.state.Size()+d.rule.Size()
		s.bytes[x.Caller] += size - x.bytes
		if !d.state.CheckedAt.Equal(x.State.CheckedAt) {
			x.folded = sight{d.state.CheckedAt, now}
		}
		x.State, x.trouble, x.bytes = *d.state, "", size
	}
	s.mu.Unlock()
	s.wake(edit.Queue)
	return nil
}

// edit stores an edit. If that was made for other states than the stored ones, Run reads all rules again.
func (e *Engine) edit(x *registry.RuleEdit) error {
	err := e.opts.Store.EditRules(x)
	if errors.Is(err, registry.ErrRuleMoved) {
		e.moved.Store(true)
		e.signal()
	}
	return err
}

// messages returns the messages about an event, one for each receiver. Their ids depend on no clock.
func (o *Options) messages(x *entry, at registry.Position, v registry.RuleEvent) (list []registry.AlertMessage) {
	for i, to := range x.To {
		m := registry.AlertMessage{ID: fmt.Sprintf("msg_%s_%s_%s_%d_%s_%d", strings.TrimPrefix(x.ID, idPrefix), v.Alert, at.Epoch, v.Firing, v.State, i),
			Rule: x.ID, Name: x.Name, Query: x.Query, To: to, Caller: x.Caller, State: v.State, Alert: v.Alert, Labels: v.Labels, Summary: v.Summary,
			StartsAt: v.Since, Position: at, At: o.Now().UTC()}
		if v.State == registry.AlertResolved {
			m.EndsAt = v.Time
		}
		list = append(list, m)
	}
	return list
}
