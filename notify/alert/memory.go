// This file holds the rules in memory.

package alert

import (
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/rule"
	"github.com/freshet/freshet/registry"
)

// An entry is a rule in memory.
type entry struct {
	registry.StoredRule
	program *rule.Program
	broken  string // why the rule cannot be evaluated, unless that is in its state
	trouble string // why its last evaluation failed, until the next one
	bytes   int    // of its settings and its state
	folded  sight  // the last answer that the state is from, if this process evaluated it
}

// A named is a name that a caller has given to a rule.
type named struct{ caller, name string }

// Reload makes an engine read all rules again, as after a restart.
func Reload(e *Engine) error {
	defer e.signal()
	e.turn.Lock()
	defer e.turn.Unlock()
	rules, err := e.opts.Store.Rules()
	if err != nil {
		return fmt.Errorf("read the rules: %w", err)
	}
	var list []*entry
	for _, r := range rules {
		list = append(list, e.opts.load(r))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	folded := map[string]sight{}
	for _, x := range e.rules {
		folded[x.ID] = x.folded
		e.forget(x)
	}
	for _, x := range list {
		x.folded = folded[x.ID]
		e.enter(x)
		e.due[x.Query] = time.Time{}
	}
	return nil
}

// load returns the entry of a stored rule.
func (o *Options) load(r registry.StoredRule) *entry {
	x := &entry{StoredRule: r}
	var err error
	if x.program, err = o.stored(r.RuleSettings); err != nil {
		x.broken = err.Error()
	}
	if rule.NeedsResult(&x.State) {
		x.State.At = registry.Position{} // it takes the whole result: Options.Rows may be higher now
	}
	return x
}

// stored compiles a rule that was checked when it was stored. Its query may be gone.
func (o *Options) stored(r registry.RuleSettings) (*rule.Program, error) {
	form := diff.Select
	if q, err := o.Query(r.Query); err == nil {
		form = q.Form
	} else if !errors.Is(err, registry.ErrNotFound) {
		return nil, err
	}
	return compileStored(r, form, o.Rows)
}

// compileStored compiles settings whose labels are complete.
func compileStored(r registry.RuleSettings, form diff.Form, rows int) (*rule.Program, error) {
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	return rule.Compile(r, form, nil, rows)
}

// enter adds a rule to memory. The caller holds mu, or is New.
func (e *Engine) enter(x *entry) {
	e.rules[x.ID], e.ids[named{x.Caller, x.Name}] = x, x.ID
	e.callers[x.Caller]++
	x.bytes = x.State.Size() + x.Size()
	e.bytes[x.Caller] += x.bytes
	if e.queries[x.Query] == nil {
		e.queries[x.Query] = map[string]*entry{}
		e.follow.Add(x.Query)
	}
	e.queries[x.Query][x.ID] = x
	for _, to := range x.To {
		id := to.ID(x.Caller)
		if e.receivers[id] == nil {
			e.receivers[id] = map[string]*entry{}
			e.held[x.Caller]++
		}
		e.receivers[id][x.ID] = x
	}
}

// forget removes a rule from memory. The caller holds mu.
func (e *Engine) forget(x *entry) {
	delete(e.rules, x.ID)
	delete(e.ids, named{x.Caller, x.Name})
	e.bytes[x.Caller] -= x.bytes
	if e.callers[x.Caller]--; e.callers[x.Caller] == 0 {
		delete(e.callers, x.Caller)
		delete(e.bytes, x.Caller)
	}
	delete(e.queries[x.Query], x.ID)
	if len(e.queries[x.Query]) == 0 {
		delete(e.queries, x.Query)
		delete(e.due, x.Query)
		e.follow.Remove(x.Query)
	}
	for _, to := range x.To {
		id := to.ID(x.Caller)
		if delete(e.receivers[id], x.ID); e.receivers[id] == nil || len(e.receivers[id]) > 0 {
			continue
		}
		delete(e.receivers, id)
		delete(e.repeated, id)
		if e.held[x.Caller]--; e.held[x.Caller] == 0 {
			delete(e.held, x.Caller)
		}
	}
}
