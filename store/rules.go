// This file stores alert rules, their states, and the messages about their alerts.

package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
)

// The buckets of rules exist only in stores that have had a rule.
var (
	bRules      = []byte("rules")      // by id
	bRuleStates = []byte("rulestates") // by id
	bAlerts     = []byte("alerts")     // messages that are not delivered, by receiver and number
)

// A RuleStore stores alert rules. It implements alert.Store.
type RuleStore struct{ *boltFile }

// Rules returns all rules with their states, in id order.
func (d *RuleStore) Rules() (rules []registry.StoredRule, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		if tx.Bucket(bRules) == nil {
			return nil
		}
		return tx.Bucket(bRules).ForEach(func(id, v []byte) error {
			r, err := parseRule(id, v, tx.Bucket(bRuleStates).Get(id))
			rules = append(rules, r)
			return err
		})
	})
	return rules, err
}

func parseRule(id, v, state []byte) (r registry.StoredRule, err error) {
	if err := json.Unmarshal(v, &r.Rule); err != nil {
		return r, fmt.Errorf("rule %s: %w: %w", id, ErrDamaged, err)
	}
	if r.ID != string(id) {
		return r, fmt.Errorf("rule %s: %w: it is stored under another id", id, ErrDamaged)
	}
	if state != nil {
		if err := json.Unmarshal(state, &r.State); err != nil {
			return r, fmt.Errorf("state of rule %s: %w: %w", id, ErrDamaged, err)
		}
	}
	return r, nil
}

// Rule returns one rule with its state. It wraps registry.ErrNotFound.
func (d *RuleStore) Rule(id string) (registry.StoredRule, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) (r registry.StoredRule, err error) {
		var v []byte
		if rules := tx.Bucket(bRules); rules != nil && id != "" {
			v = rules.Get([]byte(id))
		}
		if v == nil {
			return r, fmt.Errorf("rule %s: %w", id, registry.ErrNotFound)
		}
		return parseRule([]byte(id), v, tx.Bucket(bRuleStates).Get([]byte(id)))
	})
}

// EditRules makes all changes of an edit in one transaction, and numbers its messages. With a
// journal it returns registry.ErrExists if another rule has the name of one that it puts, and
// scheduler.ErrFenced if the edit has another token than the lease AlertsLease.
func (d *RuleStore) EditRules(e *registry.RuleEdit) error {
	r := &ruleEdit{edit: e}
	c, err := d.execute(func(tx *bbolt.Tx) (command, error) {
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
	if err != nil {
		return err
	}
	if applied := c.(*ruleEdit); applied != r {
		for i := range e.Queue {
			e.Queue[i].Seq = applied.edit.Queue[i].Seq
		}
	}
	return nil
}

// A ruleEdit is one call of EditRules. It is a command.
type ruleEdit struct{ edit *registry.RuleEdit }

// free returns an error if a caller has given the name of a rule that is to be stored to another one.
func (r *ruleEdit) free(tx *bbolt.Tx) error {
	rules := tx.Bucket(bRules)
	if len(r.edit.Put) == 0 || rules == nil {
		return nil
	}
	type named struct{ Caller, Name string }
	ids := make(map[named]string, len(r.edit.Put))
	for i := range r.edit.Put {
		ids[named{r.edit.Put[i].Caller, r.edit.Put[i].Name}] = r.edit.Put[i].ID
	}
	return rules.ForEach(func(id, v []byte) error {
		var x named
		if err := json.Unmarshal(v, &x); err != nil {
			return fmt.Errorf("rule %s: %w: %w", id, ErrDamaged, err)
		}
		if own, taken := ids[x]; taken && own != string(id) {
			return fmt.Errorf("rule %s: %w", x.Name, registry.ErrExists)
		}
		return nil
	})
}

func (r *ruleEdit) kind() byte { return kindRules }

func (r *ruleEdit) frees() bool {
	return len(r.edit.Put)+len(r.edit.States)+len(r.edit.Queue) == 0
}

func (r *ruleEdit) append(b []byte) ([]byte, error) {
	text, err := compactJSON(r.edit)
	return putText(b, string(text)), err
}

func (r *ruleEdit) decode(in *scan) {
	r.edit = new(registry.RuleEdit)
	if v := in.bytes(); in.bad || json.Unmarshal(v, r.edit) != nil {
		in.fail()
	}
}

func (r *ruleEdit) resume(tx *bbolt.Tx) error {
	if err := fence(tx, AlertsLease, r.edit.Token); err != nil {
		return err
	}
	err := r.free(tx)
	if errors.Is(err, registry.ErrExists) {
		return errMoved
	}
	return err
}

func (r *ruleEdit) apply(tx *bbolt.Tx) (err error) {
	for _, name := range [][]byte{bRules, bRuleStates, bAlerts} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	rules, states, e := tx.Bucket(bRules), tx.Bucket(bRuleStates), r.edit
	for i := range e.Put {
		if err := putJSON(rules, []byte(e.Put[i].ID), &e.Put[i]); err != nil {
			return err
		}
	}
	for id, s := range e.States {
		if rules.Get([]byte(id)) == nil {
			continue
		}
		if err := putJSON(states, []byte(id), s); err != nil {
			return err
		}
	}
	if err := queueAlerts(tx, e.Queue); err != nil {
		return err
	}
	for _, id := range e.Remove {
		if err := rules.Delete([]byte(id)); err != nil {
			return err
		}
		if err := states.Delete([]byte(id)); err != nil {
			return err
		}
	}
	return nil
}

func putJSON(b *bbolt.Bucket, key []byte, v any) error {
	text, err := compactJSON(v)
	if err != nil {
		return err
	}
	return b.Put(key, text)
}

// compactJSON encodes texts of others as they are: json.Marshal takes six bytes for each < of an
// IRI.
func compactJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
