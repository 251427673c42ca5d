// This file makes, edits, pauses, lists, tries and removes rules.

package alert

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/freshet/freshet/registry"
)

const (
	idPrefix    = "rule_"
	mostTrials  = 2 // at a time
	trialEvents = 100
	mostNamed   = 8 // ids in the problem of an ambiguous name
)

// Create stores a rule and evaluates it for the first time.
func (e *Engine) Create(ctx context.Context, c registry.Caller, r registry.RuleSettings) (registry.ListedRule, error) {
	p, err := e.opts.check(c, &r, nil)
	if err != nil {
		return registry.ListedRule{}, err
	}
	x := &entry{program: p, StoredRule: registry.StoredRule{Rule: registry.Rule{ID: idPrefix + strings.ToLower(rand.Text()),
		Caller: c.Name, RuleSettings: r, CreatedAt: e.opts.Now().UTC()}}}
	err = e.exclusive(func(token uint64) error {
		e.mu.Lock()
		err := e.admit(&x.Rule)
		e.mu.Unlock()
		if err != nil {
			return err
		}
		d := x.draft()
		d.next = x
		return (&step{Engine: e, token: token}).put(d)
	})
	return e.evaluated(ctx, x, err)
}

// evaluated evaluates a rule that was made or edited, unless there was an error, and returns it.
func (e *Engine) evaluated(ctx context.Context, x *entry, err error) (registry.ListedRule, error) {
	if err != nil {
		return registry.ListedRule{}, err
	}
	e.evaluateOne(ctx, x)
	return e.rule(x.ID)
}

// Replace gives a rule other settings. Its alerts go on if the name, the query, the
// condition and the labels stay; otherwise they are resolved, and the rule is evaluated from
// the current result on. A webhook without a secret keeps the one that it has.
func (e *Engine) Replace(ctx context.Context, c registry.Caller, id string, r registry.RuleSettings) (registry.ListedRule, error) {
	old, err := e.rule(id)
	if err != nil {
		return registry.ListedRule{}, err
	}
	p, err := e.opts.check(c, &r, old.To)
	if err != nil {
		return registry.ListedRule{}, err
	}
	x, err := e.swap(id, func(next *entry) (fresh bool, err error) {
		fresh = next.program == nil || next.State.Ended || !next.SameAlerts(&r)
		next.RuleSettings, next.program, next.broken = r, p, ""
		return fresh, e.admit(&next.Rule)
	})
	return e.evaluated(ctx, x, err)
}

// SetPaused pauses a rule, which resolves its firing alerts, or resumes it, so that it is
// evaluated from the current result on.
func (e *Engine) SetPaused(ctx context.Context, id string, paused bool) (registry.ListedRule, error) {
	x, err := e.swap(id, func(next *entry) (fresh bool, err error) {
		fresh, next.Paused = next.Paused != paused, paused
		return fresh, nil
	})
	return e.evaluated(ctx, x, err)
}

// Remove deletes a rule. Its firing alerts are resolved.
func (e *Engine) Remove(id string) error {
	_, err := e.swap(id, nil)
	return err
}

// swap replaces a rule by an edited copy, or removes it if edit is nil. If its alerts begin again, the old
// ones are resolved in the same transaction. edit is called with mu held.
func (e *Engine) swap(id string, edit func(next *entry) (fresh bool, err error)) (next *entry, err error) {
	err = e.exclusive(func(token uint64) error {
		e.mu.Lock()
		x, fresh := e.rules[id], true
		var err error
		if x != nil && edit != nil {
			next = &entry{StoredRule: x.StoredRule, program: x.program, broken: x.broken}
			fresh, err = edit(next)
		}
		e.mu.Unlock()
		if x == nil {
			err = fmt.Errorf("rule: %w", registry.ErrNotFound)
		}
		if err != nil {
			return err
		}
		d := x.draft()
		if fresh && x.program != nil {
			d.tell(&e.opts, x.program.Clear(d.state, e.opts.Now()))
		}
		if d.next, d.removed = next, next == nil; next != nil && fresh {
			next.Edition++
		}
		return (&step{Engine: e, token: token}).put(d)
	})
	return next, err
}
