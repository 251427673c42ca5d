// This file stores alert rules, their states, and the messages about their alerts.

package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
)

// A RuleStore stores alert rules. It implements alert.Store.
type RuleStore struct{ *boltFile }

// Rules returns all rules with their states, in id order.
func (d *RuleStore) Rules() (rules []registry.StoredRule, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(bRules).ForEach(func(id, v []byte) error {
			r, err := parseRule(id, v, tx.Bucket(bRuleStates))
			rules = append(rules, r)
			return err
		})
	})
	return rules, err
}

func parseRule(id, v []byte, states *bbolt.Bucket) (r registry.StoredRule, err error) {
	if err := parseJSON(v, &r.Rule, "rule "+string(id)); err != nil {
		return r, err
	}
	if r.ID != string(id) {
		return r, fmt.Errorf("rule %s: %w: it is stored under another id", id, ErrDamaged)
	}
	if state := states.Get(id); state != nil {
		err = errors.Join(json.Unmarshal(state, &r.State), parseAlerts(&r.State, id, states.Cursor()))
	}
	if err != nil {
		err = fmt.Errorf("state of rule %s: %w: %w", id, ErrDamaged, err)
	}
	return r, err
}

// parseAlerts reads the alerts and the events of a rule.
func parseAlerts(s *registry.RuleState, id []byte, c *bbolt.Cursor) (err error) {
	s.Alerts = map[string]*registry.Alert{}
	prefix := stateKey(string(id), ofAlert, "")
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		a := new(registry.Alert)
		err = errors.Join(err, json.Unmarshal(v, a))
		s.Alerts[string(k[len(prefix):])] = a
	}
	prefix = stateKey(string(id), ofEvent, "")
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		var e registry.RuleEvent
		err = errors.Join(err, json.Unmarshal(v, &e))
		s.Events = append(s.Events, e)
	}
	return err
}

// What the keys of alerts and events have after the id of their rule. It is in no id.
const (
	ofAlert = "\x00a"
	ofEvent = "\x00e"
)

// stateKey is the key of an alert, by its fingerprint, or of an event, by its number.
func stateKey(rule, what, which string) []byte { return []byte(rule + what + which) }

// Rule returns one rule with its state. It wraps registry.ErrNotFound.
func (d *RuleStore) Rule(id string) (registry.StoredRule, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) (registry.StoredRule, error) { return findRule(tx, id) })
}

// Applied returns a rule if this node has it. It does not ask the other nodes of a cluster about one that is not there.
func (d *RuleStore) Applied(id string) (r registry.StoredRule, is bool, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		r, err = findRule(tx, id)
		return err
	})
	if errors.Is(err, registry.ErrNotFound) {
		return r, false, nil
	}
	return r, err == nil, err
}

func findRule(tx *bbolt.Tx, id string) (r registry.StoredRule, err error) {
	var v []byte
	if id != "" {
		v = tx.Bucket(bRules).Get([]byte(id))
	}
	if v == nil {
		return r, fmt.Errorf("rule %s: %w", id, registry.ErrNotFound)
	}
	return parseRule([]byte(id), v, tx.Bucket(bRuleStates))
}

// EditRules makes all changes of an edit in one transaction, and numbers its messages. It returns
// registry.ErrRuleMoved if a state does not follow the stored one. With a journal it returns
// registry.ErrExists if another rule has the name of one that it puts, and scheduler.ErrFenced if
// the edit has another token than the lease AlertsLease.
func (d *RuleStore) EditRules(e *registry.RuleEdit) error {
	r := &ruleEdit{e}
	_, err := d.execute(func(tx *bbolt.Tx) (command, error) {
		if err := r.follows(tx); err != nil {
			return nil, err
		}
		if d.replica != nil { // otherwise the caller knows all rules
			if err := r.free(tx); err != nil {
				return nil, err
			}
		}
		if len(e.Put) > 0 {
			return r, d.disk.room()
		}
		return r, nil
	})
	return err
}

// A ruleEdit is one call of EditRules. It is a command.
type ruleEdit struct{ *registry.RuleEdit }

// free returns an error if a caller has given the name of a rule that is to be stored to another one.
func (r *ruleEdit) free(tx *bbolt.Tx) error {
	if len(r.Put) == 0 {
		return nil
	}
	type named struct{ Caller, Name string }
	ids := make(map[named]string, len(r.Put))
	for i := range r.Put {
		ids[named{r.Put[i].Caller, r.Put[i].Name}] = r.Put[i].ID
	}
	return tx.Bucket(bRules).ForEach(func(id, v []byte) error {
		var x named
		if err := parseJSON(v, &x, "rule "+string(id)); err != nil {
			return err
		}
		if own, taken := ids[x]; taken && own != string(id) {
			return fmt.Errorf("rule %s: %w", x.Name, registry.ErrExists)
		}
		return nil
	})
}

// follows returns registry.ErrRuleMoved if a change of a state was made for another one than the
// stored one. The first one of a rule comes with the rule.
func (r *ruleEdit) follows(tx *bbolt.Tx) error {
	for id, c := range r.States {
		var stored registry.RuleState
		if _, err := getJSON(tx.Bucket(bRuleStates), []byte(id), &stored, "state of rule "+id); err != nil {
			return err
		}
		if stored.Version+1 != c.Version || c.Version == 1 && !slices.ContainsFunc(r.Put, func(p registry.Rule) bool { return p.ID == id }) {
			return registry.ErrRuleMoved
		}
	}
	return nil
}

func (r *ruleEdit) kind() byte { return kindRules }

func (r *ruleEdit) frees() bool {
	return len(r.Put)+len(r.States)+len(r.Queue) == 0
}

func (r *ruleEdit) Resume(tx *bbolt.Tx) error {
	if err := fence(tx, AlertsLease, r.Token); err != nil {
		return err
	}
	err := cmp.Or(r.follows(tx), r.free(tx))
	if err == registry.ErrRuleMoved || errors.Is(err, registry.ErrExists) {
		return errMoved
	}
	return err
}

func (r *ruleEdit) Apply(tx *bbolt.Tx) (err error) {
	rules, states, e := tx.Bucket(bRules), tx.Bucket(bRuleStates), r.RuleEdit
	for i := range e.Put {
		if err := putJSON(rules, []byte(e.Put[i].ID), &e.Put[i]); err != nil {
			return err
		}
	}
	for id, c := range e.States {
		if err := changeState(states, id, c); err != nil {
			return err
		}
	}
	if err := queueAlerts(tx, e.Queue); err != nil {
		return err
	}
	for _, id := range e.Remove {
		err := errors.Join(rules.Delete([]byte(id)), states.Delete([]byte(id)), deleteUntil(states, stateKey(id, "\x00", ""),
			stateKey(id, "\x01", "")))
		if err != nil {
			return err
		}
	}
	return nil
}

// changeState stores what changes in the state of a rule.
func changeState(states *bbolt.Bucket, id string, c *registry.RuleChange) (err error) {
	err = putJSON(states, []byte(id), &c.RuleState)
	for key, a := range c.Alerts {
		if k := stateKey(id, ofAlert, key); a != nil {
			err = errors.Join(err, putJSON(states, k, a))
		} else {
			err = errors.Join(err, states.Delete(k))
		}
	}
	event := func(number uint64) []byte { return stateKey(id, ofEvent, string(key8(number))) }
	for i := range c.Events {
		err = errors.Join(err, putJSON(states, event(c.Happened-uint64(len(c.Events)-1-i)), &c.Events[i]))
	}
	return errors.Join(err, deleteUntil(states, event(0), event(c.Happened-uint64(c.Kept)+1)))
}

func (e *ruleEdit) touch(o *Others) {
	for i := range e.Put {
		o.Rules.add(e.Put[i].ID)
	}
	for id := range e.States {
		o.Rules.add(id)
	}
	for _, id := range e.Remove {
		o.Rules.add(id)
	}
	for i := range e.Queue {
		for _, to := range e.Queue[i].To {
			o.Subscriptions.add(to.ID(e.Queue[i].Caller))
		}
	}
}
