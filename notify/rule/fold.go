// This file computes the alerts of a rule from changes and from confirmations of results.

package rule

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

const (
	mostEvents    = 50   // of a rule's history
	mostLabelText = 1024 // bytes of a label's value
	mostSummary   = 4000 // bytes of a summary with its values

	mostBytes      = 1 << 20   // of all alerts of a rule
	mostEventBytes = 256 << 10 // of a rule's history
)

// Change takes a change of the log and returns what happened. It must follow the state's
// position, or be a baseline.
func (p *Program) Change(s *registry.RuleState, c *registry.Change) []registry.RuleEvent {
	d := c.Delta
	s.At, s.Hash, s.Rows = c.Position(), d.NewHash, d.NewLen
	f := fold{Program: p, state: s, time: c.CheckedAt, changed: !c.Baseline, added: len(d.Added), removed: len(d.Removed)}
	switch {
	case p.kind == byRow:
		f.rows(d, c.Baseline)
	case p.kind == byChange && !c.Baseline:
		f.changes(d)
	}
	return f.decideStates()
}

// Reset takes a whole result, where the log does not lead to it from the state's position.
// It is a change for rules on changes if there was another result before.
func (p *Program) Reset(s *registry.RuleState, r *diff.Result, at registry.Position, checked time.Time) []registry.RuleEvent {
	f := fold{Program: p, state: s, time: checked, changed: s.Hash != "" && s.Hash != r.Hash()}
	s.At, s.Hash, s.Rows, s.Problem = at, r.Hash(), r.Len(), ""
	if p.kind == byRow {
		f.rows(&diff.Delta{Form: r.Form(), Vars: r.Vars(), Boolean: r.Boolean(), Added: r.All()}, true)
	}
	return f.decideStates()
}

// Confirm takes a complete answer that did not change the result.
func (p *Program) Confirm(s *registry.RuleState, checked time.Time) []registry.RuleEvent {
	if checked.Equal(s.CheckedAt) || s.At.Seq == 0 {
		return nil
	}
	f := fold{Program: p, state: s, time: checked}
	return f.decideStates()
}

// End resolves the alerts of a query that is gone.
func (p *Program) End(s *registry.RuleState, now time.Time) []registry.RuleEvent {
	f := fold{Program: p, state: s, time: now, ending: true}
	s.Ended, s.Problem = true, "the query was removed: remove the rule, or add it again for another query"
	return f.decideStates()
}

// Clear resolves all alerts and forgets the result: the next step is a Reset, which is no
// change.
func (p *Program) Clear(s *registry.RuleState, now time.Time) []registry.RuleEvent {
	events := p.End(s, now)
	s.Ended, s.Problem, s.At, s.Hash, s.Rows, s.CheckedAt = false, "", registry.Position{}, "", 0, time.Time{}
	return events
}

// Next returns the earliest time at which a complete answer without a change would lead to
// something, and the zero time if there is none.
func (p *Program) Next(s *registry.RuleState) (next time.Time) {
	for _, a := range s.Alerts {
		var at time.Time
		switch {
		case a.State == registry.AlertPending:
			at = a.Since.Add(p.wait)
		case !a.Unmet.IsZero():
			at = a.Unmet.Add(p.keep)
		default:
			continue
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// Advance supposes that the result was confirmed all the time until a moment, without it.
func (p *Program) Advance(s *registry.RuleState, until time.Time) (events []registry.RuleEvent) {
	for s.Problem == "" {
		next := p.Next(s)
		if next.IsZero() || !next.Before(until) || !next.After(s.CheckedAt) {
			break
		}
		events = append(events, p.Confirm(s, next)...)
	}
	return events
}

// NeedsResult reports whether the next step must be a Reset, because the state does not
// have all rows that meet the condition.
func NeedsResult(s *registry.RuleState) bool { return s.Problem != "" && !s.Ended }

// A fold is one step of a rule's state.
type fold struct {
	*Program
	state          *registry.RuleState
	time           time.Time
	changed        bool
	ending         bool
	added, removed int
	value          func(name string) string // of the first row that a rule on changes is about; nil for none
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len("…")], "") + "…"
}

func fingerprint(labels map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(h, "%q=%q\n", name, labels[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Common returns those labels of a rule that all its alerts have, because they name no variable. A
// state does not have them.
func Common(labels map[string]string) map[string]string {
	common := map[string]string{}
	for name, text := range labels {
		t, err := parseTemplate(text, "", "", nil)
		if err == nil && !slices.ContainsFunc(t, func(x part) bool { return x.name != "" }) && text != "" {
			common[name] = cut(text, mostLabelText)
		}
	}
	return common
}

// Complete adds the common labels of a rule to those of an alert.
func Complete(common, labels map[string]string) map[string]string {
	all := maps.Clone(common)
	maps.Copy(all, labels)
	return all
}

// addAlert adds an alert without a state, which decideStates decides on.
func (f *fold) addAlert(key string, labels map[string]string) *registry.Alert {
	if f.state.Alerts == nil {
		f.state.Alerts = map[string]*registry.Alert{}
	}
	maps.DeleteFunc(labels, func(name, _ string) bool { return f.common[name] != "" })
	a := &registry.Alert{Labels: labels}
	f.state.Alerts[key] = a
	return a
}

func (f *fold) decideStates() (events []registry.RuleEvent) {
	s := f.state
	if back := s.CheckedAt.Sub(f.time); back > 0 {
		SetForward(s, -back)
	}
	s.CheckedAt = f.time
	if s.Problem != "" && !f.ending { // as if it were stale
		return nil
	}
	if f.kind != byRow && !f.ending && f.met(nil) {
		labels := f.labelled(func(string) string { return "" })
		single := fingerprint(labels)
		a := s.Alerts[single]
		if a == nil {
			a = f.addAlert(single, labels)
		}
		a.Summary = cut(f.summary.fill(f.number), mostSummary)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Alerts)) {
		a := s.Alerts[key]
		was := a.State
		if f.step(a); a.State != was {
			events = append(events, f.event(key, a))
		}
		if a.State != registry.AlertPending && a.State != registry.AlertFiring {
			delete(s.Alerts, key)
		}
	}
	s.Events = newest(append(s.Events, events...))
	s.Happened += uint64(len(events))
	return events
}

// newest returns the last events, as many as a state has room for.
func newest(events []registry.RuleEvent) []registry.RuleEvent {
	first, size := len(events), 0
	for first > max(0, len(events)-mostEvents) {
		if size += events[first-1].Size(); size > mostEventBytes {
			break
		}
		first--
	}
	return slices.Delete(events, 0, first)
}

// SetForward moves the times of alerts with a clock that was set, so that the time that has passed
// for them stays.
func SetForward(s *registry.RuleState, by time.Duration) {
	for _, a := range s.Alerts {
		for _, t := range []*time.Time{&a.Since, &a.FiredAt, &a.Unmet} {
			if !t.IsZero() {
				*t = t.Add(by)
			}
		}
	}
}

// number returns the values that the summary of a rule on rows or changes may name.
func (f *fold) number(name string) string {
	switch {
	case name == "added":
		return strconv.Itoa(f.added)
	case name == "removed":
		return strconv.Itoa(f.removed)
	case name == "rows":
		return strconv.Itoa(f.state.Rows)
	case f.value != nil:
		return f.value(name)
	}
	return ""
}

// met reports whether an alert's condition is met now.
func (f *fold) met(a *registry.Alert) bool {
	switch {
	case f.ending:
		return false
	case f.kind == byChange:
		return f.changed
	case f.kind == byCount:
		return f.count.Meets(diff.Term{Kind: diff.Literal, Value: strconv.Itoa(f.state.Rows)})
	}
	return len(a.Rows) > 0
}

func (f *fold) step(a *registry.Alert) {
	met, keep := f.met(a), f.keep
	if f.ending {
		keep = 0
	}
	if met && a.State == "" {
		a.Since, a.State = f.time, registry.AlertPending
	}
	switch {
	case met && a.State == registry.AlertPending && f.time.Sub(a.Since) >= f.wait:
		f.state.Fired++
		a.State, a.FiredAt, a.Firing = registry.AlertFiring, f.time, f.state.Fired
	case !met && a.State == registry.AlertPending:
		a.State = registry.AlertCleared
	}
	switch {
	case a.State != registry.AlertFiring:
	case f.kind == byChange && met:
		a.Unmet = f.time // it is met only at the moment of the change
	case met:
		a.Unmet = time.Time{}
	default:
		if a.Unmet.IsZero() {
			a.Unmet = f.time
		}
		if f.time.Sub(a.Unmet) >= keep {
			a.State = registry.AlertResolved
		}
	}
}

func (f *fold) event(key string, a *registry.Alert) registry.RuleEvent {
	e := registry.RuleEvent{Time: f.time, State: a.State, Labels: Complete(f.common, a.Labels), Summary: a.Summary,
		Seq: f.state.At.Seq, Alert: key, Since: a.Since}
	if a.State == registry.AlertFiring || a.State == registry.AlertResolved {
		e.Since, e.Firing = a.FiredAt, a.Firing
	}
	return e
}
