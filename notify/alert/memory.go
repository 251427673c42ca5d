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
	program    *rule.Program
	receivers  []string    // the ids of their subscriptions
	broken     string      // why the rule cannot be evaluated, unless that is in its state
	trouble    string      // why its last evaluation failed, until the next one
	bytes      int         // of its settings and its state
	lastAnswer answerTimes // the last answer that the state is from, if this process evaluated it
}

// Reload makes an engine read all rules again, as after a restart.
func Reload(e *Engine) error {
	defer e.signal()
	e.turn.Lock()
	defer e.turn.Unlock()
	rules, err := e.opts.Store.Rules()
	if err != nil {
		return fmt.Errorf("read the rules: %w", err)
	}
	stored := map[string]*entry{}
	for _, r := range rules {
		stored[r.ID] = e.opts.load(r)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, x := range e.rules {
		if stored[id] == nil {
			e.replace(x, nil)
		}
	}
	for id, x := range stored {
		e.replace(e.rules[id], x)
		e.due[x.Query] = time.Time{} // something may have changed in the meantime
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
		r, is, err := e.opts.Store.Applied(id)
		if err != nil {
			return err
		}
		var x *entry
		if is {
			x = e.opts.load(r)
		}
		e.mu.Lock()
		e.replace(e.rules[id], x)
		e.mu.Unlock()
		e.later(r.Query, time.Time{})
	}
	return nil
}

// load returns the entry of a stored rule, which was checked when it was stored. Its query may be gone.
func (o *Options) load(r registry.StoredRule) *entry {
	x := &entry{StoredRule: r}
	form := diff.Select
	q, err := o.Query(r.Query)
	if err == nil {
		form = q.Form
	}
	if err == nil || errors.Is(err, registry.ErrNotFound) || errors.Is(err, registry.ErrReadOnly) { // cut off, and it is not here
		x.program, err = compileStored(&x.RuleSettings, form, o.Rows)
	}
	if err != nil {
		x.broken = err.Error()
	}
	if rule.NeedsResult(&x.State) {
		x.State.At = registry.Position{} // it takes the whole result: Options.Rows may be higher now
	}
	return x
}

// compileStored compiles settings whose labels are complete. Earlier versions stored no map without labels.
func compileStored(r *registry.RuleSettings, form diff.Form, rows int) (*rule.Program, error) {
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	return rule.Compile(*r, form, nil, rows)
}

// replace puts a rule into memory in place of another one. Either may be nil. The caller holds mu.
func (e *Engine) replace(was, x *entry) {
	if was != nil {
		delete(e.rules, was.ID)
		if e.queries.remove(was.Query, was) {
			delete(e.due, was.Query)
			e.follow.Remove(was.Query)
		}
		for _, id := range was.receivers {
			e.receivers.remove(id, was)
		}
	}
	if x == nil {
		return
	}
	x.bytes = x.State.Size() + x.Size()
	for _, to := range x.To {
		x.receivers = append(x.receivers, to.ID(x.Caller))
	}
	if was != nil {
		x.lastAnswer = was.lastAnswer
	}
	e.rules[x.ID] = x
	if e.queries.add(x.Query, x) {
		e.follow.Add(x.Query)
	}
	for _, id := range x.receivers {
		e.receivers.add(id, x)
	}
}

// An index finds rules by what they have, and by their ids.
type index map[string]map[string]*entry

// add reports whether the rule is the first one of a key.
func (m index) add(key string, x *entry) bool {
	if m[key] == nil {
		m[key] = map[string]*entry{}
	}
	m[key][x.ID] = x
	return len(m[key]) == 1
}

// remove reports whether the rule was the last one of a key.
func (m index) remove(key string, x *entry) bool {
	delete(m[key], x.ID)
	if len(m[key]) > 0 {
		return false
	}
	delete(m, key)
	return true
}
