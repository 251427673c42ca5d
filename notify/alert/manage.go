// This file makes, edits, pauses, lists, tries and removes rules.

package alert

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/rule"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

const (
	idPrefix    = "rule_"
	mostTrials  = 2 // at a time
	trialEvents = 100
	mostNamed   = 8 // ids in the problem of an ambiguous name
)

// check completes settings and compiles them. Labels that were left out are filled in.
func (o *Options) check(c registry.Caller, r *registry.RuleSettings) (*rule.Program, registry.Query, error) {
	if r.Query == "" {
		return nil, registry.Query{}, registry.BadSetting("/query", "query is missing: the id or the name of a registered query")
	}
	q, err := o.Resolve(c, r.Query)
	if errors.Is(err, registry.ErrNotFound) {
		return nil, q, registry.BadSetting("/query", "no query has the id or name %.64q: register it first, or see the list of queries", r.Query)
	} else if err != nil {
		return nil, q, err
	}
	if !c.MayRead(&q) {
		return nil, q, &registry.Problem{Kind: registry.KindForbidden, Detail: "your token may not read this query"}
	}
	r.Query = q.ID
	vars, err := o.vars(&q)
	if err != nil {
		return nil, q, err
	}
	p, err := rule.Compile(*r, q.Form, vars, o.Rows)
	if err == nil {
		r.Labels = p.Labels()
	}
	return p, q, err
}

// vars returns the variables of a query, nil if they are not known yet.
func (o *Options) vars(q *registry.Query) ([]string, error) {
	if q.Form != diff.Select {
		return nil, nil
	}
	_, result, err := o.Log.Current(q.ID, true)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return nil, err
	}
	if result != nil {
		return result.Vars(), nil
	}
	if a, err := sparql.Analyse(q.Text); err == nil && !a.Star && len(a.Vars) > 0 {
		return a.Vars, nil
	}
	return nil, nil
}

// CheckStored checks a rule that another server has stored, for a query of a form. Addresses
// of receivers are checked when messages are sent. How many there are was checked there.
func CheckStored(r *registry.Rule, form diff.Form) error {
	if !strings.HasPrefix(r.ID, idPrefix) {
		return registry.BadSetting("/id", "the id of a rule begins with %s", idPrefix)
	}
	for i := range r.To {
		to, pointer := &r.To[i], fmt.Sprintf("/to/%d", i)
		given := to.Secret
		if _, err := checkKind(to, pointer); err != nil {
			return err
		}
		if to.Secret != given {
			return registry.BadSetting(pointer+"/secret", "the secret of the %s is missing", to.Kind)
		}
	}
	_, err := compileStored(r.RuleSettings, form, 1)
	return err
}

// checkKind checks that a receiver has one address, and completes its secret.
func checkKind(to *registry.Receiver, pointer string) (k *kind, err error) {
	if k = kinds[to.Kind]; k == nil {
		return nil, registry.BadSetting(pointer, `a receiver has one of %s, as in {"webhook": "https://example.org/alerts"}`, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	if k.secret != nil {
		to.Secret, err = k.secret(to.Secret)
	} else if to.Secret != "" {
		err = registry.BadSetting(pointer+"/secret", "a receiver of the kind %s has no secret", to.Kind)
	}
	return k, err
}

func (o *Options) checkReceivers(list []registry.Receiver) error {
	if len(list) > o.Receivers {
		return registry.BadSetting("/to", "a rule has at most %d receivers (limits.rule_receivers)", o.Receivers)
	}
	seen := map[string]bool{}
	for i := range list {
		to, pointer := &list[i], fmt.Sprintf("/to/%d", i)
		k, err := checkKind(to, pointer)
		if err != nil {
			return err
		}
		if to.Address, err = k.check(o, to.Address); err != nil {
			return registry.BadSetting(pointer+"/"+to.Kind, "%s cannot be used: %v", to.Kind, err)
		}
		if seen[to.Key()] {
			return registry.BadSetting(pointer, "this receiver is given twice")
		}
		seen[to.Key()] = true
	}
	return nil
}

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

// admit checks the limits on the number of rules, and that a name is free.
func (e *Engine) admit(r *registry.Rule) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.ids[named{r.Caller, r.Name}] != "":
		return nameTaken(r.Name)
	case len(e.rules) >= e.opts.Most:
		return &registry.Problem{Kind: registry.KindLimit, Detail: fmt.Sprintf("this server has %d rules, as many as limits.rules allows: remove some first", e.opts.Most)}
	case e.bytes[r.Caller] > e.opts.Bytes:
		return &registry.Problem{Kind: registry.KindQuota, Detail: e.opts.overBytes("you have rules whose alerts")}
	case e.callers[r.Caller] >= e.opts.MostEach:
		return &registry.Problem{Kind: registry.KindQuota, Detail: fmt.Sprintf("you have %d rules, as many as limits.token_rules allows: remove some first", e.opts.MostEach)}
	}
	return e.admitReceivers(r.Caller, r.To)
}

// admitReceivers checks the limit on the number of receivers of a caller. The caller holds mu.
func (e *Engine) admitReceivers(caller string, list []registry.Receiver) error {
	added := 0
	for _, to := range list {
		if e.receivers[to.ID(caller)] == nil {
			added++
		}
	}
	// Those that no rule has any more are stored as long as messages wait for them or were set aside.
	stored := e.deliveries.Held(registry.Alerts, caller)
	switch most := e.opts.Addresses; {
	case added == 0:
	case added > most-e.held[caller]:
		return &registry.Problem{Kind: registry.KindQuota, Detail: fmt.Sprintf("your rules would have %d receivers, and limits.token_receivers allows %d: "+
			"remove some rules first, or let rules share a webhook and its secret", e.held[caller]+added, most)}
	case stored-most > most-added:
		return &registry.Problem{Kind: registry.KindQuota, Detail: fmt.Sprintf("messages of yours wait for %d receivers or were set aside, many of which no rule has any more, "+
			"and limits.token_receivers is %d: drop some of these subscriptions first", stored, most)}
	}
	return nil
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
