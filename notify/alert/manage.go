// This file makes, edits, pauses, lists, tries and removes rules.

package alert

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

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
	p, _, err := e.opts.check(c, &r)
	if err != nil {
		return registry.ListedRule{}, err
	}
	if err := e.opts.checkReceivers(r.To); err != nil {
		return registry.ListedRule{}, err
	}
	x := &entry{program: p, StoredRule: registry.StoredRule{Rule: registry.Rule{ID: idPrefix + strings.ToLower(rand.Text()), Caller: c.Name, RuleSettings: r, CreatedAt: e.opts.Now().UTC()}}}
	err = e.exclusive(func(token uint64) error {
		if err := e.admit(&x.Rule); err != nil {
			return err
		}
		if err := e.edit(&registry.RuleEdit{Token: token, Put: []registry.Rule{x.Rule}}); err != nil {
			return err
		}
		e.mu.Lock()
		e.enter(x)
		e.mu.Unlock()
		return nil
	})
	if err != nil {
		return registry.ListedRule{}, err
	}
	e.evaluateOne(ctx, x.ID)
	return e.rule(x.ID)
}

// Refresh takes note of rules that other commands than those that this engine waits for have
// changed in the store. If it has the lease, these are commands of its own whose outcome was
// unknown. Their messages are then to be sent, so it reads everything again.
func (e *Engine) Refresh(ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if _, held := e.opts.Lease(); held {
		return Reload(e)
	}
	defer e.signal()
	e.turn.Lock()
	defer e.turn.Unlock()
	for _, id := range ids {
		r, err := e.opts.Store.Rule(id)
		var x *entry
		if err == nil {
			x = e.opts.load(r)
		} else if !errors.Is(err, registry.ErrNotFound) {
			return err
		}
		e.mu.Lock()
		if was := e.rules[id]; was != nil {
			e.forget(was)
		}
		if x != nil {
			e.enter(x)
			e.due[x.Query] = time.Time{}
		}
		e.mu.Unlock()
	}
	return nil
}

func nameTaken(name string) error {
	return &registry.Problem{Kind: registry.KindExists, Detail: fmt.Sprintf("you have a rule named %s already: choose another name, or remove that rule first", name)}
}

// Replace gives a rule other settings. Its alerts go on if the name, the query, the
// condition and the labels stay; otherwise they are resolved, and the rule is evaluated from
// the current result on. A webhook without a secret keeps the one that it has.
func (e *Engine) Replace(ctx context.Context, c registry.Caller, id string, r registry.RuleSettings) (registry.ListedRule, error) {
	p, _, err := e.opts.check(c, &r)
	if err != nil {
		return registry.ListedRule{}, err
	}
	old, err := e.rule(id)
	if err != nil {
		return registry.ListedRule{}, err
	}
	for i := range r.To {
		for _, was := range old.To {
			if r.To[i].Secret == "" && r.To[i].Key() == was.Key() {
				r.To[i].Secret = was.Secret
			}
		}
	}
	if err := e.opts.checkReceivers(r.To); err != nil {
		return registry.ListedRule{}, err
	}
	return e.swap(ctx, id, func(next *entry) (fresh bool, err error) {
		if other := e.ids[named{next.Caller, r.Name}]; other != "" && other != id {
			return false, nameTaken(r.Name)
		}
		if err := e.admitReceivers(next.Caller, r.To); err != nil {
			return false, err
		}
		fresh = next.program == nil || next.State.Ended || !next.SameAlerts(&r)
		next.RuleSettings, next.program, next.broken = r, p, ""
		return fresh, nil
	})
}

// SetPaused pauses a rule, which resolves its firing alerts, or resumes it, so that it is
// evaluated from the current result on.
func (e *Engine) SetPaused(ctx context.Context, id string, paused bool) (registry.ListedRule, error) {
	return e.swap(ctx, id, func(next *entry) (bool, error) {
		if next.Paused == paused {
			return false, nil
		}
		next.Paused = paused
		return true, nil
	})
}

// swap replaces a rule by an edited copy. If edit says that its alerts begin again, the old
// ones are resolved in the same transaction. edit is called with mu held.
func (e *Engine) swap(ctx context.Context, id string, edit func(next *entry) (fresh bool, err error)) (registry.ListedRule, error) {
	err := e.exclusive(func(token uint64) error {
		e.mu.Lock()
		x := e.rules[id]
		if x == nil {
			e.mu.Unlock()
			return fmt.Errorf("rule: %w", registry.ErrNotFound)
		}
		next := &entry{StoredRule: x.StoredRule, program: x.program, broken: x.broken}
		fresh, err := edit(next)
		e.mu.Unlock()
		if err != nil {
			return err
		}
		if fresh {
			next.Edition++
			d := x.ending(e.opts.Now())
			d.last.Put = []registry.Rule{next.Rule}
			err = (&step{Engine: e, token: token}).storeOne(d)
			next.State = x.State
		} else {
			err = e.edit(&registry.RuleEdit{Token: token, Put: []registry.Rule{next.Rule}})
		}
		if err != nil {
			e.later([]string{x.Query}, e.opts.Now()) // some alerts may have ended
			return err
		}
		e.mu.Lock()
		e.forget(x)
		e.enter(next)
		e.mu.Unlock()
		return nil
	})
	if err != nil {
		return registry.ListedRule{}, err
	}
	e.evaluateOne(ctx, id)
	return e.rule(id)
}

// ending returns the draft of a rule whose alerts end, because a caller has edited it.
func (x *entry) ending(now time.Time) *draft {
	d := &draft{rule: x, state: x.State.Clone(), edited: true}
	if x.program != nil {
		d.tell(x.State.At, x.program.Clear(d.state, now))
	}
	return d
}

// Remove deletes a rule. Its firing alerts are resolved.
func (e *Engine) Remove(id string) error {
	err := e.exclusive(func(token uint64) error {
		e.mu.Lock()
		x := e.rules[id]
		e.mu.Unlock()
		if x == nil {
			return fmt.Errorf("rule: %w", registry.ErrNotFound)
		}
		d := x.ending(e.opts.Now())
		d.last.Remove = []string{id}
		if err := (&step{Engine: e, token: token}).storeOne(d); err != nil {
			e.later([]string{x.Query}, e.opts.Now()) // some alerts may have ended
			return err
		}
		e.mu.Lock()
		e.forget(x)
		e.mu.Unlock()
		return nil
	})
	e.signal()
	return err
}
